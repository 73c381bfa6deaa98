"""Questions about the scope graph: what there is, who is there, who changed it, and who sees what."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable, Mapping

import msgspec

from tidings.model import ROOT_SCOPE, ArgumentRefused, Notification, ScopeError
from tidings.scopes import (
    AuditEntry,
    Census,
    Component,
    Counted,
    Explanation,
    Graph,
    Look,
    LookBack,
    Reading,
    Review,
    Reviewed,
    Revision,
    RuleCount,
    Seen,
    Transaction,
    explain,
    members_of,
    what_sees,
    who_sees,
)

from ._admin_arguments import AnyFilter, content_filter, texts_of
from ._admin_link import ADMIN_TIMEOUT, AdminLink
from ._arguments import choice_of, integer_of, shown

MAX_REVIEW = 1_000
"""The most entries that the log is asked for at a time."""


class Readings(list[Reading]):
    """Who sees what, as a list."""

    def __init__(self, readings: Iterable[Reading] = (), *, partial: bool = False) -> None:
        super().__init__(readings)
        self.partial = partial
        """Whether it was worked out on a part of the graph: there may be more in the scopes that are hidden."""


class Components(list[Component]):
    """The clients that are connected now, as a list."""

    def __init__(
        self, components: Iterable[Component] = (), *, silent: tuple[str, ...] = (), absent: tuple[str, ...] = ()
    ) -> None:
        super().__init__(components)
        self.silent = silent
        """The brokers that did not answer: their clients are missing from the list."""
        self.absent = absent
        """The brokers that are known and cannot be reached now: their clients are not connected."""


class GraphKind(enum.Enum):
    """Which graph is asked for."""

    INSTANTIATED = "instantiated"
    """What runs."""
    DESCRIPTIVE = "descriptive"
    """What is defined."""
    COMBINED = "combined"
    """Both, each scope a member of its definition."""


class AdminLooks(AdminLink):
    """Looks at the graph, as far as this client may see it."""

    async def graph(self, kind: GraphKind | str = GraphKind.INSTANTIATED, *, timeout: float = ADMIN_TIMEOUT) -> Graph:
        """Return the newest version of the scope graph, as far as this client may see it.

        For a client that may not see everything it is `partial`: there may be more.

        Of the `"instantiated"` graph, what runs; the `"descriptive"` one, the definitions as abstract scopes, joined
        with each other as far as that is unambiguous; or the `"combined"` one, in which each scope is a member of its
        definition, too.
        """
        kind = choice_of(GraphKind, kind, "kind of graph", ScopeError)
        seen = await self._ask(Look, timeout, "show the scope graph")
        assert isinstance(seen, Seen)
        graph = seen.graph.graph()
        if seen.partial:
            graph = graph.as_part()
        if kind is GraphKind.INSTANTIATED:
            return graph
        from tidings.scopes.language import combined, composed  # noqa: PLC0415 - who does not ask does not pay for it

        return composed(graph).graph if kind is GraphKind.DESCRIPTIVE else combined(graph)

    async def revision(self, version: int, *, timeout: float = ADMIN_TIMEOUT) -> tuple[Graph, Transaction]:
        """Return the graph before one version was made, and the transaction that made it.

        With `tidings.scopes.inverse`, the transaction can be undone. Brokers remember the latest versions; for clients
        that may change everything.
        """
        integer_of(version, "version", 1, 2**63 - 1)
        found = await self._ask(lambda id: LookBack(id, version), timeout, "show a version of the scope graph")
        assert isinstance(found, Revision)
        return found.before.graph(), found.transaction

    async def components(
        self,
        *,
        inputs: Iterable[AnyFilter] = (),
        outputs: Iterable[AnyFilter] = (),
        attributes: Iterable[str] | None = None,
        partial: bool = False,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Components:
        """Return the clients that are connected now, anywhere in the network, by name.

        Each tells for each of `inputs` whether its subscriptions cover that filter, and for each of `outputs` whether
        what it advertises does, or what it may publish, where nobody advertises. With `attributes`, only these
        attributes are told. If a broker does not answer, `ScopeError` is raised; with `partial`, its clients are
        missing. Clients that may change everything are told which brokers these are (`silent`), and which ones cannot
        be reached at all (`absent`).

        Clients that may change everything are told of all, administrators of scopes of the members of these scopes;
        others are refused with `NotAllowed`.
        """
        asked = Census(
            "",
            tuple(str(content_filter(one, "an input")) for one in inputs),
            tuple(str(content_filter(one, "an output")) for one in outputs),
            None if attributes is None else texts_of(attributes, "attributes"),
            partial,
        )
        counted = await self._ask(lambda id: msgspec.structs.replace(asked, request=id), timeout, "list the components")
        assert isinstance(counted, Counted)
        return Components(counted.components, silent=counted.silent, absent=counted.absent)

    async def members(
        self, scope: str = ROOT_SCOPE, *, partial: bool = False, timeout: float = ADMIN_TIMEOUT
    ) -> list[Component]:
        """Return the members of a scope, by name, with where they are connected; by default of the root scope.

        A client that nobody ever made a member of a scope is a member of the root scope while it is connected. Who is
        told, and what happens if a broker does not answer, is as in `components`.
        """
        connected = await self.components(partial=partial, timeout=timeout)
        graph = await self.graph(timeout=timeout)
        return members_of(graph, graph.scope(scope).id, connected)

    async def log(self, limit: int = 100, *, timeout: float = ADMIN_TIMEOUT) -> list[AuditEntry]:
        """Return the latest changes, made or refused, the oldest first.

        Clients that may change everything see all of them; others see the changes that they asked for themselves.
        """
        integer_of(limit, "limit", 1, 2**31)
        reviewed = await self._ask(lambda id: Review(id, min(limit, MAX_REVIEW)), timeout, "show the log")
        assert isinstance(reviewed, Reviewed)
        return list(reviewed.entries)

    async def rules(self, *, timeout: float = ADMIN_TIMEOUT) -> list[RuleCount]:
        """Return the rules of all scopes that this client administers, each with what it has done.

        They are counted since the authority started.
        """
        reviewed = await self._ask(lambda id: Review(id, rules=True), timeout, "show the rules")
        assert isinstance(reviewed, Reviewed)
        return list(reviewed.rules)

    async def explain(
        self, publisher: str, notification: Mapping[str, object], reader: str, *, timeout: float = ADMIN_TIMEOUT
    ) -> Explanation:
        """Explain why a client or scope sees a publication, or why not, as far as this client may see the graph."""
        if not isinstance(notification, Mapping):
            raise ArgumentRefused(f"notification={shown(notification)}; give a mapping of its attributes")
        published = Notification(notification)
        graph = await self.graph(timeout=timeout)
        return explain(graph, publisher, published, reader)

    async def who_sees(
        self, filter: AnyFilter = "TRUE", source: str | None = None, *, timeout: float = ADMIN_TIMEOUT
    ) -> Readings:
        """Return all clients that see publications which pass a filter, of one client or of anybody.

        Each entry has the filter of what its readers see and a publication that they do. Whether they subscribe is
        their own business. It is worked out from the graph as far as this client may see it, as `explain` is; if that
        is not all of it, the list is `partial`.
        """
        wanted = content_filter(filter, "what is published")
        graph = await self.graph(timeout=timeout)
        return Readings(await asyncio.to_thread(who_sees, graph, wanted, source), partial=graph.partial)

    async def what_sees(self, reader: str, filter: AnyFilter = "TRUE", *, timeout: float = ADMIN_TIMEOUT) -> Readings:
        """Return whose publications a client or scope sees, and which of those that pass a filter; as `who_sees`."""
        wanted = content_filter(filter, "what is published")
        graph = await self.graph(timeout=timeout)
        return Readings(await asyncio.to_thread(what_sees, graph, reader, wanted), partial=graph.partial)
