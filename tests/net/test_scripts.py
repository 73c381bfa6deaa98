"""Scripts of the scope language from Python: text and objects, rights, and nothing by halves."""

from __future__ import annotations

import asyncio

import pytest
from net.scopes_world import ALICE, BOB, OPERATOR, access
from net.world import options, running, url

import tidings
from tidings.client import work_out
from tidings.model import ArgumentRefused, ScopeError, UnknownName
from tidings.net import serve
from tidings.scopes import (
    CreateScope,
    Define,
    Join,
    Leave,
    NotAllowed,
    Placement,
    Redefine,
    SetOrigin,
    Undefine,
    apply,
    digest,
)
from tidings.scopes.language import Extensions, ScriptError, Source
from tidings.scopes.language.syntax import (
    AlterScope,
    Architecture,
    Block,
    Cardinality,
    Change,
    Comparison,
    DefineScope,
    DeployScope,
    Interfaces,
    Members,
    Name,
    Path,
    Roles,
    RoleTest,
    Selection,
    Setting,
    Settings,
    Side,
    Types,
)
from tidings.scopes.steps import Rename

R = "INTEGRATED_ROUTING"


@running
@pytest.mark.req("VIS-914")
async def test_context_is_expressed_in_python_as_in_the_language() -> None:
    """What a scope demands of others, and what it provides for them, as objects."""
    demand = Selection((Members(Name("world")),), RoleTest("boss"), Cardinality(1, 1), label="b", block=())
    sensors = Selection((Members(Name("world")),), Comparison(Path(("sensor",)), "=", "heat"), label="m")
    alarms = Interfaces((Side(True, Types(("Alarm",))),))
    heat = Block("m", (Interfaces((Side(True, Types(("Heat",))),)),))
    definition = DefineScope("temp", (demand, sensors), (alarms, heat, Roles(("watch",))))
    async with serve(options("a")) as server, tidings.connect(url(server), name="root") as root:
        await root.admin.define(definition)
        with pytest.raises(ScriptError, match="at least 1 components are needed here, and 0 fit"):
            await root.admin.deploy(DeployScope(Name("temp"), "t"))
        await root.admin.alter(AlterScope(Name("@ann"), Change.ADD, (), (Roles(("boss",)),)))
        await root.admin.alter(AlterScope(Name("@s"), features=(Settings((Setting(Path(("sensor",)), "heat"),)),)))
        await root.admin.deploy(DeployScope(Name("temp"), "t", architecture=Architecture(R)))
        graph = await root.admin.graph()
        assert graph.scopes["t"].labels == {"b": ("@ann",), "m": ("@s",)}
        assert str(graph.membership("@s", "t").imposed.output) == "type = 'Heat'"
        assert (graph.roles("t"), graph.scopes["t"].definition) == (("watch",), "temp")
        with pytest.raises(ArgumentRefused, match="is no DefineScope"):
            await root.admin.define("DEFINE SCOPE x AS")  # type: ignore[arg-type]


@running
@pytest.mark.req("VIS-816")
async def test_programs_ask_for_the_three_graphs_and_change_the_one_that_runs() -> None:
    async with serve(options("a")) as server, tidings.connect(url(server), name="root") as root:
        await root.admin.execute(f"DEFINE SCOPE d AS FROM @x; DEPLOY d AS one {R}; DEPLOY d AS two {R}")
        assert set((await root.admin.graph()).scopes) == {"", "one", "two"}
        assert set((await root.admin.graph("descriptive")).scopes) == {"", "d"}
        combined = await root.admin.graph("combined")
        assert set(combined.members("DEFINITION d")) == {"one", "two"}
        await root.admin.execute("ALTER SCOPE two ADD FROM @y")
        assert set((await root.admin.graph()).members("two")) == {"@x", "@y"}
        with pytest.raises(ScopeError, match="kind of graph"):
            await root.admin.graph("written")


@running
async def test_members_are_chosen_by_what_they_subscribe_to() -> None:
    async with serve(options("a")) as server, tidings.connect(url(server), name="root") as root:
        async with (
            tidings.connect(url(server), name="buyer") as buyer,
            tidings.connect(url(server), name="other") as other,
        ):
            await buyer.subscribe("type = 'Order' AND price > 1 OR type = 'Quote'")
            await other.subscribe("type = 'News'")
            await root.admin.execute(f"DEPLOY AS s FROM MEMBERS(world) WHERE HAS INPUT('type = ''Quote''') {R}")
            assert set((await root.admin.graph()).members("s")) == {"@buyer"}


@running
@pytest.mark.req("VIS-810")
async def test_administrators_have_domains_which_are_abstract_scopes() -> None:
    async with serve(options("a", access=access())) as server:
        async with (
            tidings.connect(url(server), name="root", token=OPERATOR) as root,
            tidings.connect(url(server), name="alice", token=ALICE) as alice,
            tidings.connect(url(server), name="bob", token=BOB) as bob,
        ):
            await root.admin.execute(
                f"DEPLOY AS north SET abstract = TRUE, administrators = 'alice' {R};"
                f"DEPLOY AS south SET abstract = TRUE, administrators = 'bob' {R}"
            )
            mine = f"DEFINE SCOPE north/kind AS; DEPLOY AS north/lab SUPERSCOPE FROM north INTERFACES OUTPUT(a) {R}"
            await alice.admin.execute(mine)
            await bob.admin.execute(f"DEPLOY AS south/lab SUPERSCOPE FROM south {R}")
            before = digest(await root.admin.graph())
            for foreign in (
                f"DEPLOY AS south/more {R}",
                "ALTER SCOPE south/lab INTERFACES INPUT(1)",
                "DEFINE SCOPE south/kind AS",
                "ALTER SCOPE DEFINITION south/other SET a = 1",
            ):
                with pytest.raises((NotAllowed, ScriptError)):
                    await alice.admin.execute(foreign)
            with pytest.raises(NotAllowed):
                await bob.admin.change(Redefine("north/kind", "DEFINE SCOPE north/kind AS\n    SET a = 1;"))
            with pytest.raises(NotAllowed):
                await bob.admin.change(SetOrigin("north/lab", "south/kind"))
            assert digest(await root.admin.graph()) == before
            graph = await root.admin.graph()
            assert set(graph.members("north")) == {"north/lab"}
            assert not graph.upward("north/lab"), "a domain groups scopes for people, and nothing passes through it"


@running
@pytest.mark.req("VIS-810")
async def test_what_joins_two_domains_needs_the_administrators_of_both() -> None:
    async with serve(options("a", access=access())) as server:
        async with (
            tidings.connect(url(server), name="root", token=OPERATOR) as root,
            tidings.connect(url(server), name="alice", token=ALICE) as alice,
            tidings.connect(url(server), name="bob", token=BOB) as bob,
        ):
            await root.admin.execute(
                f"DEPLOY AS north SET abstract = TRUE, administrators = 'alice' {R};"
                f"DEPLOY AS south SET abstract = TRUE, administrators = 'bob' {R};"
                f"DEPLOY AS north/lab {R}; DEPLOY AS south/lab FROM @carl {R}"
            )
            before = digest(await root.admin.graph())
            for client in (alice, bob):
                for text in (
                    "ALTER SCOPE north/lab ADD SUPERSCOPE FROM south/lab",
                    "ALTER SCOPE north/lab ADD FROM south/lab",
                    "ALTER SCOPE north/lab ADD SUPERSCOPE FROM south",
                ):
                    with pytest.raises(NotAllowed):
                        await client.admin.execute(text)
            with pytest.raises(NotAllowed):  # it would hear what a member of another domain publishes
                await alice.admin.execute("ALTER SCOPE north/lab ADD FROM @carl")
            assert digest(await root.admin.graph()) == before
            await root.admin.execute("ALTER SCOPE north SET administrators = ['alice', 'bob']")
            await bob.admin.execute("ALTER SCOPE north/lab ADD SUPERSCOPE FROM south/lab")
            assert set((await root.admin.graph()).superscopes("north/lab")) == {"south/lab"}
            await alice.admin.execute("ALTER SCOPE north/lab DEL SUPERSCOPE FROM south/lab")
            assert not (await root.admin.graph()).superscopes("north/lab"), "either side may end it"


FILE = f"""
DEFINE SCOPE d AS m: FROM @a INTERFACES OUTPUT(x);
DEPLOY AS top INTERFACES INPUT(1), OUTPUT(1) {R};
DEPLOY d AS one SUPERSCOPE FROM top SET city = 'Ulm' ROLES r {R};
DEPLOY d AS two SUPERSCOPE FROM top : {{ INTERFACES OUTPUT(y) }} {R};
ALTER SCOPE @a SET k = 1;
"""


@running
@pytest.mark.req("VIS-805")
async def test_a_fault_at_every_change_leaves_both_graphs_as_they_were() -> None:
    async with serve(options("a")) as server, tidings.connect(url(server), name="root") as root:
        await root.admin.execute(f"DEFINE SCOPE old AS FROM @z; DEPLOY old {R}")
        before = await root.admin.graph()
        changes = (await work_out(root.admin, [Source(FILE)], timeout=10)).changes
        assert len(changes) >= 10
        for at in range(len(changes) + 1):
            with pytest.raises(ScopeError, match="is not a member"):
                await root.admin.change(*changes[:at], Leave("@nobody", "old"), *changes[at:])
            after = await root.admin.graph()
            assert (after, digest(after)) == (before, digest(before))
        await root.admin.change(*changes, expected=before.version)
        assert {"d", "old"} == set((await root.admin.graph()).definitions)


@running
@pytest.mark.req("VIS-805")
async def test_a_deployment_finds_what_was_open_is_carried_as_it_says_and_is_one_change() -> None:
    wanted = "m: [1..] FROM MEMBERS(world) WHERE HAS INPUT(Quote) s: SUPERSCOPE FROM MEMBERS(world) WHERE top = 1"
    deploy = "DEPLOY d AS one INTEGRATED_ROUTING(gateway = 'a'); DEPLOY d AS two INTEGRATED_ROUTING"
    async with serve(options("a")) as server, tidings.connect(url(server), name="root") as root:
        await root.admin.execute(f"DEFINE SCOPE d AS {wanted} INTERFACES OUTPUT(Quote)")
        await root.admin.execute(f"DEPLOY AS high SET top = 1 {R}; DEPLOY AS low SET top = 0 {R}")
        before = await root.admin.graph()

        async def refused(text: str, reason: str) -> None:
            with pytest.raises(ScriptError, match=reason):
                await root.admin.execute(text)
            assert await root.admin.graph() == before

        await refused(deploy, "at least 1 components are needed here, and 0 fit")
        async with (
            tidings.connect(url(server), name="buyer") as buyer,
            tidings.connect(url(server), name="other") as other,
        ):
            await buyer.subscribe("type = 'Quote'")
            await other.subscribe("type = 'News'")
            await refused(f"{deploy}; DEPLOY d AS three BROKERSCOPE(x)", "no architecture BROKERSCOPE carries scopes")
            await refused(f"{deploy}; DEPLOY nothing {R}", "there is no definition 'nothing'")
            changed = await root.admin.execute(deploy)
        graph = await root.admin.graph()
        for scope, carried in (("one", (Placement.GATEWAY, "a")), ("two", (Placement.ONCE, ""))):
            assert graph.scopes[scope].labels == {"m": ("@buyer",), "s": ("high",)}
            assert (set(graph.members(scope)), set(graph.superscopes(scope))) == ({"@buyer"}, {"high"})
            edge = graph.membership(scope, "high")
            assert (edge.placement, edge.gateway) == carried
        was, transaction = await root.admin.revision(changed.version)
        assert digest(was) == digest(before)
        assert digest(apply(was, transaction.changes)) == digest(graph), "all of it came with one version"


@running
async def test_what_a_broker_is_sent_as_a_definition_must_be_one() -> None:
    async with serve(options("a")) as server, tidings.connect(url(server), name="root") as root:
        for text in (
            "nonsense",
            "DEFINE SCOPE e AS;",
            "DEFINE SCOPE d AS ;",
            "DEPLOY d INTEGRATED_ROUTING;",
            "x" * 20_000,
        ):
            with pytest.raises(ScopeError):
                await root.admin.change(Define("d", text))
        with pytest.raises(UnknownName, match="there is no definition 'd'"):
            await root.admin.change(Undefine("d"))
        await root.admin.change(Define("d", "DEFINE SCOPE d AS;"))
        await root.admin.change(Undefine("d"))
        assert not (await root.admin.graph()).definitions


@running
async def test_a_command_is_worked_out_anew_if_the_graph_has_moved_on_meanwhile() -> None:
    async with serve(options("a")) as server, tidings.connect(url(server), name="root") as root:
        await root.admin.execute(f"DEPLOY AS s {R}")
        async with tidings.connect(url(server), name="other") as other:
            await asyncio.gather(
                *(root.admin.execute(f"ALTER SCOPE s ADD FROM @r{number}") for number in range(2)),
                *(other.admin.execute(f"ALTER SCOPE s ADD FROM @o{number}") for number in range(2)),
            )
        assert set((await root.admin.graph()).members("s")) == {"@r0", "@r1", "@o0", "@o1"}


@running
async def test_extensions_are_used_where_a_script_is_worked_out() -> None:
    async with serve(options("a")) as server, tidings.connect(url(server), name="root") as root:
        await root.admin.change(
            CreateScope("big", attributes={"size": 9}), CreateScope("small", attributes={"size": 1})
        )
        large = Extensions(tests={"large": lambda one, given: one.attributes.get("size", 0) > 5})
        await root.admin.execute(f"DEPLOY AS s FROM MEMBERS(world) WHERE large() {R}", extensions=large)
        assert set((await root.admin.graph()).members("s")) == {"big"}


@running
async def test_a_label_of_a_membership_that_ended_is_forgotten() -> None:
    async with serve(options("a")) as server, tidings.connect(url(server), name="root") as root:
        await root.admin.execute(f"DEPLOY AS s m: FROM @a, @b {R}")
        await root.admin.change(Leave("@a", "s"))
        await root.admin.change(Join("@a", "s"))
        assert (await root.admin.graph()).scopes["s"].labels == {"m": ("@b",)}


@running
async def test_what_a_running_scope_is_and_the_layout_can_be_altered() -> None:
    async with serve(options("a")) as server, tidings.connect(url(server), name="root") as root:
        await root.admin.execute(
            f"DEPLOY AS S {R}; DEPLOY AS T {R}; DEPLOY AS x SUPERSCOPE FROM S m: FROM @a INTERFACES OUTPUT(p) {R}"
        )
        for text in (
            "ALTER SCOPE x INTERFACES INPUT(i), OUTPUT(o) MEMBERS: { INTERFACES OUTPUT(all) } "
            "m: { INTERFACES INPUT(one) }",
            "ALTER SCOPE x MAP OUTWARD { Rename('u', 'v') } ROLES r "
            "SET city = 'Ulm', ordered = TRUE, duplicates = 'event'",
            "ALTER SCOPE x SET administrators = ['ann'], trusted = ['a'], brokers = ['a']",
            "ALTER SCOPE x ADD FROM @b SUPERSCOPE FROM T : { INTERFACES OUTPUT(t) SET gateway = 'a' MAP OUTWARD {} }",
            "ALTER SCOPE x DEL FROM @a",
        ):
            await root.admin.execute(text)
        graph = await root.admin.graph()
        scope = graph.scopes["x"]
        assert (str(scope.interface.input), str(scope.interface.output)) == ("type = 'i'", "type = 'o'")
        assert str(scope.imposed.output) == "type = 'all'"
        assert (scope.roles, scope.attributes, scope.ordered) == (("r",), {"city": "Ulm"}, True)
        assert (scope.duplicates.name, scope.administrators) == ("EVENT", ("ann",))
        assert (scope.trusted, scope.brokers) == (("a",), {"a"})
        assert set(graph.members("x")) == {"@b"}
        assert set(graph.superscopes("x")) == {"S", "T"}
        mapping = graph.membership("x", "S").mapping
        assert mapping is not None
        assert mapping.outward.steps == (Rename("u", "v"),)
        edge = graph.membership("x", "T")
        assert (str(edge.selective.output), edge.gateway) == ("type = 't'", "a")
