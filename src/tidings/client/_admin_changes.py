"""Changes of the scope graph, one method for each: what scopes there are, and who is a member of which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidings.model import Duplicates
from tidings.scopes import (
    BORDER_CHECK,
    BORDER_SIGN,
    CLOSED,
    OPEN,
    SESSION_ID,
    SESSION_MODE,
    Anchor,
    AnyChange,
    CreateScope,
    DestroyScope,
    Forget,
    Impose,
    Join,
    Leave,
    Mode,
    Placement,
    PolicyKind,
    PolicyUse,
    SessionMode,
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
)

from ._admin_arguments import (
    AnyFilter,
    AnyInterface,
    AnyMapping,
    attributes_of,
    interface_of,
    kind_of,
    mapping_of,
    placement_of,
    rule_of,
    texts_of,
)
from ._admin_link import ADMIN_TIMEOUT, AdminLink, Changed
from ._arguments import choice_of


class AdminChanges(AdminLink):
    """Changes the graph."""

    # --- scopes ---------------------------------------------------------------------------------------

    async def create_scope(
        self,
        name: str,
        *,
        within: str | None = None,
        input: AnyFilter | None = None,
        output: AnyFilter | None = None,
        imposed: AnyInterface | None = None,
        abstract: bool = False,
        attributes: Mapping[str, object] | None = None,
        roles: Iterable[str] = (),
        hidden: bool = False,
        trusted: Iterable[str] = (),
        administrators: Iterable[str] = (),
        admission: Iterable[str] = (),
        duplicates: Duplicates | str = Duplicates.DEFAULT,
        ordered: bool = False,
        credentials: Iterable[str] = (),
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Create a scope. By default it lets nothing in (`input`) and nothing out (`output`).

        With `within`, it is a member of that scope, and is called `within/name`; `credentials` admit it there.
        `admission` lists secrets, one of which a new member must present; the graph keeps only their digests. `trusted`
        names the only brokers that may carry the scope; while the tree needs another one, its traffic stands still.
        `duplicates` says what counts as a second copy for members that do not choose. With `ordered`, members get the
        publications of one publisher in order even where these take detours by gateways; members wait for them.
        """
        id = name if within is None else f"{within}/{name}" if within else name
        create = CreateScope(
            id,
            interface_of({"input": input, "output": output}, CLOSED),
            interface_of(imposed, OPEN),
            abstract,
            attributes_of(attributes or {}),
            texts_of(administrators, "administrators"),
            hidden,
            texts_of(trusted, "trusted"),
            tuple(map(credential, texts_of(admission, "admission"))),
            rule_of(duplicates),
            ordered,
            texts_of(roles, "roles"),
        )
        changes: tuple[AnyChange, ...] = (create,) if within is None else (create, Join(id, within))
        return await self.change(*changes, mode=mode, credentials=credentials, timeout=timeout)

    async def destroy_scope(
        self, scope: str, *, cascade: bool = False, mode: Mode | str = Mode.RELAXED, timeout: float = ADMIN_TIMEOUT
    ) -> Changed:
        """Destroy a scope; with `cascade` its memberships end with it, without `cascade` it must have none."""
        return await self.change(DestroyScope(scope, cascade), mode=mode, timeout=timeout)

    async def set_interface(
        self,
        scope: str,
        *,
        input: AnyFilter | None = None,
        output: AnyFilter | None = None,
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set what a scope lets in from its superscopes and out to them; a direction that is left out is closed."""
        interface = interface_of({"input": input, "output": output}, CLOSED)
        return await self.change(SetInterface(scope, interface), mode=mode, timeout=timeout)

    async def impose(
        self,
        scope: str,
        *,
        input: AnyFilter = "TRUE",
        output: AnyFilter = "TRUE",
        member: str | None = None,
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set what a scope lets its members get (`input`) and publish (`output`): all of them, or one."""
        interface = interface_of({"input": input, "output": output}, OPEN)
        return await self.change(Impose(scope, interface, member), mode=mode, timeout=timeout)

    async def extend(self, scope: str, broker: str, *, timeout: float = ADMIN_TIMEOUT) -> Changed:
        """Let a broker carry a scope even while it has no members of it, so that the first member need not wait."""
        return await self.change(Anchor(scope, broker, stay=True), timeout=timeout)

    async def retract(self, scope: str, broker: str, *, timeout: float = ADMIN_TIMEOUT) -> Changed:
        """Let a broker carry a scope only for as long as it has to; the opposite of `extend`."""
        return await self.change(Unanchor(scope, broker, stay=True), timeout=timeout)

    async def set_delivery(
        self,
        scope: str,
        *,
        duplicates: Duplicates | str | None = None,
        ordered: bool | None = None,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set how members get what reaches a scope, as in `create_scope`; None changes nothing."""
        rule = None if duplicates is None else rule_of(duplicates)
        return await self.change(SetDelivery(scope, rule, ordered), timeout=timeout)

    async def set_policy(
        self,
        node: str,
        kind: PolicyKind | str,
        policy: str | None = None,
        parameters: Mapping[str, object] | None = None,
        *,
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set which of those that may get something do get it: a `publishing`, `delivery` or `internal` policy.

        `policy` is a name of docs/policies.md, or one that is registered in all brokers; `parameters` are what it is
        told. Without a name, the component has no policy of this kind any longer.
        """
        use = None if policy is None else PolicyUse(policy, attributes_of(parameters or {}))
        return await self.change(SetPolicy(node, kind_of(kind), use), mode=mode, timeout=timeout)

    async def set_attributes(
        self, node: str, attributes: Mapping[str, object], *, timeout: float = ADMIN_TIMEOUT
    ) -> Changed:
        """Set attributes of a scope or a client; an attribute whose value is None is removed, others stay.

        What is set here stays when the client disconnects, and wins over what the client brings when it connects.
        """
        return await self.change(SetAttributes(node, attributes_of(attributes)), timeout=timeout)

    async def make_session(
        self,
        scope: str,
        id: str = "auto",
        *,
        mode: SessionMode | str = SessionMode.DEFAULT,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Make a scope a session scope: reactions to what is in it appear in no other session scope.

        With mode "origin_only" they appear in the scope that handed over what they react to, and nowhere else. Ids are
        unique; the broker chooses one unless you do.
        """
        mode = choice_of(SessionMode, mode, "mode of a session")
        said = {SESSION_ID: id, SESSION_MODE: None if mode is SessionMode.DEFAULT else mode.value}
        return await self.set_attributes(scope, said, timeout=timeout)

    async def end_session(self, scope: str, *, timeout: float = ADMIN_TIMEOUT) -> Changed:
        """Make a session scope a scope like others; reactions to what was in it appear in no session scope."""
        return await self.set_attributes(scope, {SESSION_ID: None, SESSION_MODE: None}, timeout=timeout)

    async def guard_border(
        self, scope: str, *, sign: str | None = None, check: str | None = None, timeout: float = ADMIN_TIMEOUT
    ) -> Changed:
        """Have what leaves a scope signed, what comes in checked, or both, by keys of its gateways with these names.

        What is not given is no longer done. Everything that passes the border must cross at one broker.
        """
        return await self.set_attributes(scope, {BORDER_SIGN: sign, BORDER_CHECK: check}, timeout=timeout)

    async def set_roles(self, node: str, *roles: str, timeout: float = ADMIN_TIMEOUT) -> Changed:
        """Set the roles of a scope or a client, in place of those that it had."""
        return await self.change(SetRoles(node, texts_of(roles, "roles")), timeout=timeout)

    async def set_administration(
        self,
        scope: str,
        *,
        administrators: Iterable[str] | None = None,
        admission: Iterable[str] | None = None,
        trusted: Iterable[str] | None = None,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set the administrators of a scope, the secrets that admit new members, and the brokers that it trusts.

        A new member must present one of the secrets. None changes nothing.
        """
        secrets = None if admission is None else tuple(map(credential, texts_of(admission, "admission")))
        clients = None if administrators is None else texts_of(administrators, "administrators")
        brokers = None if trusted is None else texts_of(trusted, "trusted")
        return await self.change(SetAdministration(scope, clients, secrets, brokers), timeout=timeout)

    # --- members --------------------------------------------------------------------------------------

    async def join(
        self,
        member: str,
        scope: str,
        *,
        selective: AnyInterface | None = None,
        imposed: AnyInterface | None = None,
        mapping: AnyMapping | None = None,
        placement: Placement | str = Placement.ONCE,
        gateway: str = "",
        credentials: Iterable[str] = (),
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Make a client (`"@name"`) or a scope a member of a scope."""
        join = Join(
            member,
            scope,
            interface_of(selective, OPEN),
            interface_of(imposed, OPEN),
            mapping_of(mapping),
            placement_of(placement),
            gateway,
        )
        return await self.change(join, mode=mode, credentials=credentials, timeout=timeout)

    async def leave(
        self, member: str, scope: str, *, mode: Mode | str = Mode.RELAXED, timeout: float = ADMIN_TIMEOUT
    ) -> Changed:
        """End a membership."""
        return await self.change(Leave(member, scope), mode=mode, timeout=timeout)

    async def forget(self, client: str, *, mode: Mode | str = Mode.RELAXED, timeout: float = ADMIN_TIMEOUT) -> Changed:
        """Put a client that has left its last scope into the root scope again, as if it had never left it."""
        return await self.change(Forget(client), mode=mode, timeout=timeout)

    async def set_selective(
        self,
        member: str,
        scope: str,
        *,
        input: AnyFilter = "TRUE",
        output: AnyFilter = "TRUE",
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set what a member lets pass between itself and one of its superscopes."""
        interface = interface_of({"input": input, "output": output}, OPEN)
        return await self.change(SetSelective(member, scope, interface), mode=mode, timeout=timeout)

    async def set_mapping(
        self,
        member: str,
        scope: str,
        mapping: AnyMapping | None,
        *,
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set how notifications are mapped between a member and a superscope; None leaves them unchanged."""
        return await self.change(SetMapping(member, scope, mapping_of(mapping)), mode=mode, timeout=timeout)

    async def set_placement(
        self,
        member: str,
        scope: str,
        placement: Placement | str,
        gateway: str = "",
        *,
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set at which brokers notifications cross between a scope and a superscope."""
        change = SetPlacement(member, scope, placement_of(placement), gateway)
        return await self.change(change, mode=mode, timeout=timeout)
