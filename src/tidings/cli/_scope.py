"""`tidings scope create|destroy|join|leave|set`: change who sees what."""

from __future__ import annotations

import asyncio
import enum
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

import tidings
from tidings.client import Changed
from tidings.model import Duplicates, Filter, MappingError, ValueRefused
from tidings.scopes import (
    Anchor,
    AnyChange,
    EdgeMapping,
    Graph,
    Impose,
    Interface,
    Mode,
    Placement,
    PolicyKind,
    PolicyUse,
    SetAdministration,
    SetAttributes,
    SetDelivery,
    SetInterface,
    SetMapping,
    SetPlacement,
    SetPolicy,
    SetRoles,
    SetSelective,
    Unanchor,
    credential,
    is_client,
    read_mapping,
)

from ._border_keys import keygen
from ._connection import AsJson, entering
from ._errors import UsageError, complain
from ._help import Commands
from ._option_values import one_of, words_of
from ._scope_changes import Credentials, How, Seconds, secrets
from ._scope_looks import explain, log, members, show, tree
from ._scope_plans import apply, plan, undo
from ._scope_scripts import check, diff, export_, fmt
from ._scope_sights import what_sees, who_sees
from ._values import value_of

scope = Commands(
    help="Decide who sees what. A client is written @name, a scope inside another one outer/inner.",
)


class SecondCopies(enum.StrEnum):
    """`Duplicates`, as the command line spells them."""

    DEFAULT = "default"
    PER_PATH = "per_path"
    EVENT = "event"
    SUPPRESS = "suppress"


_PLACEMENT = one_of("--placement", Placement)

Member = Annotated[str, typer.Argument(metavar="MEMBER", help="A client, @name, or a scope.", show_default=False)]
ScopeName = Annotated[str, typer.Argument(metavar="SCOPE", help="The scope.", show_default=False)]
Input = Annotated[str | None, typer.Option("--input", metavar="FILTER", help="What may enter.")]
Output = Annotated[str | None, typer.Option("--output", metavar="FILTER", help="What may leave.")]
ImposedInput = Annotated[
    str | None, typer.Option("--impose-input", metavar="FILTER", help="What members may receive in the scope.")
]
ImposedOutput = Annotated[
    str | None, typer.Option("--impose-output", metavar="FILTER", help="What members may publish in the scope.")
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute", metavar="NAME=VALUE", help="An attribute, typed as in `tidings pub`; NAME= removes it."
    ),
]
Roles = Annotated[
    list[str] | None,
    typer.Option("--role", metavar="ROLE", help="A role, in place of those that it had. Repeat it to name several."),
]
Administrators = Annotated[
    list[str] | None,
    typer.Option(
        "--administrator", metavar="CLIENT", help="A client that may change the scope. Repeat it to name several."
    ),
]
Admission = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Secrets, one per line; a new member must present one of them."),
]
MappingFile = Annotated[
    Path | None,
    typer.Option("--mapping", metavar="FILE", help="How notifications change on the way, as JSON (docs/mappings.md)."),
]
Rule = Annotated[
    SecondCopies | None,
    typer.Option(
        "--duplicates",
        parser=one_of("--duplicates", SecondCopies),
        metavar=words_of(SecondCopies),
        help="What counts as a duplicate for members that do not say so themselves.",
    ),
]
Ordered = Annotated[
    bool | None,
    typer.Option("--ordered/--unordered", help="Whether members wait for what gateways delay, to receive it in order."),
]


@scope.command()
@entering
def create(
    client: tidings.Client,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the scope.", show_default=False)],
    within: Annotated[
        str | None,
        typer.Option(metavar="SCOPE", help="The scope that it becomes a member of; its name is put in front."),
    ] = None,
    input: Input = None,
    output: Output = None,
    impose_input: ImposedInput = None,
    impose_output: ImposedOutput = None,
    abstract: Annotated[
        bool, typer.Option("--abstract", help="Only group other scopes; nothing is published in it.")
    ] = False,
    attribute: Attributes = None,
    role: Roles = None,
    administrator: Administrators = None,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Only members and administrators may know of the scope.")
    ] = False,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust",
            metavar="BROKER",
            help="A broker that may carry its traffic; all others may not. Repeat it to name several.",
        ),
    ] = None,
    admission: Admission = None,
    duplicates: Rule = None,
    ordered: Ordered = None,
    credentials: Credentials = None,
    mode: How = Mode.RELAXED,
    timeout: Seconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Create a scope. Nothing enters or leaves it unless --input and --output say so."""
    if name == "root" and within is None:
        raise UsageError("`root` names the root scope on the command line; choose another name")

    async def work() -> Changed:
        return await client.admin.create_scope(
            name,
            within=None if within is None else _root(within),
            input=input,
            output=output,
            imposed=Interface.parse(input=impose_input or "TRUE", output=impose_output or "TRUE"),
            abstract=abstract,
            attributes={word: value for word, value in _attributes(attribute).items() if value is not None},
            roles=role or (),
            hidden=hidden,
            trusted=trust or (),
            administrators=administrator or (),
            admission=secrets(admission),
            duplicates=duplicates or SecondCopies.DEFAULT,
            ordered=bool(ordered),
            credentials=secrets(credentials),
            mode=mode,
            timeout=timeout,
        )

    _change(client, work, as_json)


@scope.command()
@entering
def destroy(
    client: tidings.Client,
    name: ScopeName,
    cascade: Annotated[bool, typer.Option("--cascade", help="Also end its memberships.")] = False,
    mode: How = Mode.RELAXED,
    timeout: Seconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Remove a scope."""
    _change(client, lambda: client.admin.destroy_scope(name, cascade=cascade, mode=mode, timeout=timeout), as_json)


@scope.command()
@entering
def join(
    client: tidings.Client,
    member: Member,
    name: ScopeName,
    input: Input = None,
    output: Output = None,
    impose_input: ImposedInput = None,
    impose_output: ImposedOutput = None,
    mapping: MappingFile = None,
    placement: Annotated[
        Placement, typer.Option(parser=_PLACEMENT, metavar=words_of(Placement), help="Where notifications cross.")
    ] = Placement.ONCE,
    gateway: Annotated[str, typer.Option(metavar="BROKER", help="The broker at which everything crosses.")] = "",
    credentials: Credentials = None,
    mode: How = Mode.RELAXED,
    timeout: Seconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Make a client or a scope a member of a scope. --input and --output hold for this membership only."""

    async def work() -> Changed:
        return await client.admin.join(
            member,
            _root(name),
            selective=Interface.parse(input=input or "TRUE", output=output or "TRUE"),
            imposed=Interface.parse(input=impose_input or "TRUE", output=impose_output or "TRUE"),
            mapping=_mapping(mapping),
            placement=placement,
            gateway=gateway,
            credentials=secrets(credentials),
            mode=mode,
            timeout=timeout,
        )

    _change(client, work, as_json)


@scope.command()
@entering
def leave(
    client: tidings.Client,
    member: Member,
    name: ScopeName,
    mode: How = Mode.RELAXED,
    timeout: Seconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """End a membership."""
    _change(client, lambda: client.admin.leave(member, _root(name), mode=mode, timeout=timeout), as_json)


@scope.command("set")
@entering
def set_(
    client: tidings.Client,
    name: Annotated[
        str,
        typer.Argument(
            metavar="SCOPE|@CLIENT",
            help="A scope; with --in, --attribute or --role also a client, @name.",
            show_default=False,
        ),
    ],
    inside: Annotated[
        str | None,
        typer.Option("--in", metavar="SCOPE", help="Change the membership in this scope instead of the member itself."),
    ] = None,
    input: Input = None,
    output: Output = None,
    impose_input: ImposedInput = None,
    impose_output: ImposedOutput = None,
    mapping: MappingFile = None,
    no_mapping: Annotated[bool, typer.Option("--no-mapping", help="With --in: change nothing on the way.")] = False,
    placement: Annotated[
        Placement | None,
        typer.Option(parser=_PLACEMENT, metavar=words_of(Placement), help="With --in: where notifications cross."),
    ] = None,
    gateway: Annotated[str, typer.Option(metavar="BROKER", help="The broker at which everything crosses.")] = "",
    attribute: Attributes = None,
    role: Roles = None,
    no_roles: Annotated[bool, typer.Option("--no-roles", help="Take all roles away.")] = False,
    administrator: Administrators = None,
    admission: Admission = None,
    duplicates: Rule = None,
    ordered: Ordered = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy", metavar="KIND=NAME", help="A policy (docs/policies.md), internal=chain; KIND= takes it away."
        ),
    ] = "",
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", metavar="NAME=VALUE", help="What the policy is told. Repeat it to give several."),
    ] = None,
    extend: Annotated[
        list[str] | None,
        typer.Option(
            "--extend",
            metavar="BROKER",
            help="A broker that carries the scope even without members. Repeat it to name several.",
        ),
    ] = None,
    retract: Annotated[
        list[str] | None,
        typer.Option("--retract", metavar="BROKER", help="A broker that no longer has to. Repeat it to name several."),
    ] = None,
    credentials: Credentials = None,
    mode: How = Mode.RELAXED,
    timeout: Seconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Change a scope, what is said about a client, or with --in a membership. What is not mentioned stays as it is."""
    sides, imposed = (input, output), (impose_input, impose_output)

    def changes(graph: Graph) -> list[AnyChange]:
        if inside is not None:
            edge = graph.membership(name, _root(inside))
            found: list[AnyChange] = []
            if any(sides):
                found.append(SetSelective(name, edge.scope, _replaced(edge.selective, *sides)))
            if any(imposed):
                found.append(Impose(edge.scope, _replaced(edge.imposed, *imposed), name))
            if mapping is not None or no_mapping:
                found.append(SetMapping(name, edge.scope, _mapping(mapping)))
            if placement is not None:
                found.append(SetPlacement(name, edge.scope, placement, gateway))
            return found
        said: list[AnyChange] = [SetAttributes(_root(name), _attributes(attribute))] if attribute else []
        if role or no_roles:
            said.append(SetRoles(_root(name), tuple(role or ())))
        if policy:
            said.append(_policy(_root(name), policy, parameter))
        if is_client(name):
            return said
        known = graph.scope(_root(name))
        found = [SetInterface(known.id, _replaced(known.interface, *sides))] if any(sides) else []
        if any(imposed):
            found.append(Impose(known.id, _replaced(known.imposed, *imposed)))
        found += said
        if administrator is not None or admission is not None:
            clients = None if administrator is None else tuple(administrator)
            admitting = None if admission is None else tuple(map(credential, secrets(admission)))
            found.append(SetAdministration(known.id, clients, admitting))
        found += [Anchor(known.id, name, stay=True) for name in extend or ()]
        found += [Unanchor(known.id, name, stay=True) for name in retract or ()]
        if duplicates is not None or ordered is not None:
            rule = None if duplicates is None else Duplicates[duplicates.upper()]
            found.append(SetDelivery(known.id, rule, ordered))
        return found

    async def work() -> Changed:
        wanted = changes(await client.admin.graph(timeout=timeout))
        if not wanted:
            raise UsageError("nothing to change; `tidings scope set --help` lists what can be set")
        return await client.admin.change(*wanted, mode=mode, credentials=secrets(credentials), timeout=timeout)

    _change(client, work, as_json)


scope.command()(show)
scope.command()(tree)
scope.command()(members)
scope.command()(explain)
scope.command("who-sees")(who_sees)
scope.command("what-sees")(what_sees)
scope.command()(log)
scope.command()(check)
scope.command()(plan)
scope.command()(apply)
scope.command()(diff)
scope.command()(fmt)
scope.command("export")(export_)
scope.command()(undo)
scope.command()(keygen)


# --- what the commands share ----------------------------------------------------------------------------


def _change(client: tidings.Client, work: Callable[[], Coroutine[Any, Any, Changed]], as_json: bool) -> None:
    async def run() -> Changed:
        async with client:
            return await work()

    changed = asyncio.run(run())
    if as_json:
        print(json.dumps({"version": changed.version, "warnings": changed.warnings}))
        return
    print(f"done, version {changed.version} of the scope graph")
    if changed.granted:
        complain("warning: less was granted than requested; `tidings scope show` shows what")
    for warning in changed.warnings:
        complain(f"warning: {warning}")


def _root(name: str) -> str:
    """The root scope has no name of its own; on the command line it is written `root`."""
    return "" if name == "root" else name


def _replaced(known: Interface, input: str | None, output: str | None) -> Interface:
    return Interface(
        known.input if input is None else Filter.parse(input), known.output if output is None else Filter.parse(output)
    )


def _attributes(words: list[str] | None) -> dict[str, object]:
    """Values by name, typed as in `tidings pub`; an empty one removes."""
    found: dict[str, object] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise UsageError(f"'{word}' is not of the form NAME=VALUE; write for example --attribute city=Berlin")
        try:
            found[name] = value_of(value) if value else None
        except (UsageError, ValueRefused) as error:
            raise UsageError(f"--attribute {name}: {error}") from None
    return found


def _policy(node: str, word: str, parameters: list[str] | None) -> SetPolicy:
    kind, equals, name = word.partition("=")
    kinds = [one.value for one in PolicyKind]
    if not equals or kind not in kinds:
        raise UsageError(f"'{word}' is not of the form KIND=NAME; KIND is one of {', '.join(kinds)}")
    return SetPolicy(node, PolicyKind(kind), PolicyUse(name, _attributes(parameters)) if name else None)


def _mapping(file: Path | None) -> EdgeMapping | None:
    if file is None:
        return None
    try:
        return read_mapping(file.read_bytes())
    except (OSError, MappingError) as error:
        raise UsageError(f"'{file}' is not a mapping: {error}") from None
