"""The census: a wave that asks every broker which clients are connected there, and what is known of them.

Theory of operation
-------------------
A border broker starts the wave for a client that may ask, one at a time for each client. A broker that it visits looks
at its clients in portions, each in a turn of its own, so that traffic goes on meanwhile, and the answers of all are put
together on the way back. A wave that did not reach everybody, or found more than fits into one answer, is incomplete:
its answer names some components and not others, so nothing may be concluded from those that are missing. Those who
answered say so by name, so the others can be named. A broker that has crashed is in no tree, and is not asked; it is
named as absent, if this broker has heard of it or the graph speaks of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import msgspec

from tidings.broker import Link
from tidings.model import Filter, FilterError, NotAllowed, ScopeError, TidingsError
from tidings.scopes._attributes import Attributes, attributes_of
from tidings.scopes._components import Component, covered
from tidings.scopes._graph import client_node
from tidings.scopes._messages import Answer, Census, Counted
from tidings.scopes.mappings._constant import dec_hook, enc_hook

from ._rights import administers_some_of

if TYPE_CHECKING:
    from ._service import Scopes

MAX_ANSWER = 2_000_000
"""The most bytes of components in one answer."""
MAX_FILTERS = 64
"""The most filters that one question asks about, inputs and outputs together."""
MAX_COST = 1_000
"""The most that the filters of one question may cost together, as `Filter.cost` counts it."""
MAX_TEXT = 16_384
"""The most characters of the filters of one question."""
STEPS = 50
"""The filters that are looked at in one turn, about."""

MISSING = (
    "{} did not tell which clients are connected there, so the answer would not be whole; try again, or take what is "
    "there (partial)"
)
MAX_NAMED = 10
"""The most brokers that an error names; more are counted."""


class _Part(msgspec.Struct):
    """The answer of some brokers."""

    components: list[msgspec.Raw] = []
    cut: bool = False
    """Whether there were more than fit."""
    brokers: list[str] = []
    """Who has answered."""


class _Asked(msgspec.Struct):
    inputs: tuple[Filter, ...]
    outputs: tuple[Filter, ...]
    attributes: tuple[str, ...] | None


_encoder = msgspec.msgpack.Encoder(enc_hook=enc_hook)
_parts = msgspec.msgpack.Decoder(_Part)
_asked = msgspec.msgpack.Decoder(_Asked, dec_hook=dec_hook)
_components = msgspec.msgpack.Decoder(Component, dec_hook=dec_hook)


class Takers:
    """Who is taking a census at this broker."""

    def __init__(self, service: Scopes) -> None:
        self._service = service
        self._busy: set[Link] = set()

    def asked(self, link: Link, question: Census, administrator: bool) -> None:
        """A client asks which components there are. What it may not know is left out."""
        service, who = self._service, client_node(link.name)
        try:
            _check(service, link, question, administrator, link in self._busy)
            body = _encoder.encode(_read_question(question))
        except (ScopeError, FilterError) as error:
            kind = type(error) if isinstance(error, ScopeError) else ScopeError
            service.send(link, Answer(question.request, error=kind.__name__, reason=str(error)))
            return

        def done(answer: bytes, complete: bool) -> None:
            self._busy.discard(link)
            if service.context.client(link.name) is not link:
                return
            part = _read(answer)
            silent = () if complete else _silent(service, part)
            if (not complete or part.cut) and not question.partial:
                reason = _incomplete(part, silent if administrator else ())
                service.send(link, Answer(question.request, error="ScopeError", reason=reason))
                return
            found = sorted((_components.decode(one) for one in part.components), key=lambda one: one.node)
            if not administrator:
                graph = service.graph
                found = [one for one in found if one.node == who or administers_some_of(graph, link.name, one.node)]
            missing = (silent, _absent(service)) if administrator else ((), ())
            service.send(link, Counted(question.request, tuple(found), complete and not part.cut, *missing))

        self._busy.add(link)
        service.context.wave("census", body, done)


def _check(service: Scopes, link: Link, question: Census, administrator: bool, busy: bool) -> None:
    """Raise `ScopeError` for those who may not ask, or ask too much. No filter is read for that."""
    if not administrator and not any(link.name in scope.administrators for scope in service.graph.scopes.values()):
        raise NotAllowed(f"'{link.name}' administers no scope, so it is not told who is connected; ask one who does")
    if busy:
        raise ScopeError(f"'{link.name}' has asked which components there are already; wait for that answer")
    filters = (*question.inputs, *question.outputs)
    if len(filters) > MAX_FILTERS:
        raise ScopeError(f"at most {MAX_FILTERS} filters can be asked about at once; ask more than once")
    size = sum(map(len, filters))
    if size > MAX_TEXT:
        raise ScopeError(
            f"the filters that are asked about have {size:,} characters, at most {MAX_TEXT:,} together; ask more than "
            "once"
        )


def _read_question(question: Census) -> _Asked:
    inputs, outputs = (tuple(map(Filter.parse, some)) for some in (question.inputs, question.outputs))
    cost = sum(one.cost for one in (*inputs, *outputs))
    if cost > MAX_COST:
        raise ScopeError(
            f"the filters that are asked about cost {cost:,}, at most {MAX_COST:,} together; ask more than once"
        )
    return _Asked(inputs, outputs, question.attributes)


def _silent(service: Scopes, part: _Part) -> tuple[str, ...]:
    """The brokers in the tree that have not answered."""
    return tuple(sorted(service.context.tree.parents.keys() - {*part.brokers}))


def _absent(service: Scopes) -> tuple[str, ...]:
    """The brokers that are not in the tree, and that somebody has heard of."""
    graph = service.graph
    spoken_of = {broker for brokers in graph.anchors.values() for broker in brokers}
    spoken_of |= {broker for scope in graph.scopes.values() for broker in scope.brokers}
    return tuple(sorted((service.context.known_brokers | spoken_of) - service.context.tree.parents.keys()))


def _incomplete(part: _Part, silent: tuple[str, ...]) -> str:
    if part.cut:
        return (
            f"{len(part.components):,} components and more are connected, too many for one answer; ask for fewer of "
            "their attributes, or take what is there (partial)"
        )
    if not silent:
        return MISSING.format("some brokers")
    more = f" and {len(silent) - MAX_NAMED} more" if len(silent) > MAX_NAMED else ""
    return MISSING.format(f"broker{'s'[: len(silent) > 1]} {', '.join(map(repr, silent[:MAX_NAMED]))}{more}")


class CensusWave:
    """How a broker answers."""

    def __init__(self, service: Scopes) -> None:
        self._service = service

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Look at the clients here, portion by portion; answer when all have been looked at."""
        try:
            asked = _asked.decode(body)
        except (msgspec.MsgspecError, TidingsError):
            self._service.context.refused()
            answer(None)
            return
        part, size = _Part(brokers=[self._service.context.name]), 0
        looks = self._looks(asked)

        def portion() -> None:
            nonlocal size
            for _ in range(STEPS):
                try:
                    found = next(looks)
                except StopIteration:
                    answer(_encoder.encode(part))
                    return
                if found is not None:
                    raw = msgspec.Raw(_encoder.encode(found))
                    size += len(raw)
                    part.cut = part.cut or size > MAX_ANSWER
                    if not part.cut:
                        part.components.append(raw)
            self._service.context.call_later(0, portion)

        portion()

    def _looks(self, asked: _Asked) -> Iterator[Component | None]:
        """The components here, one by one; each None is a bit of work done."""
        context = self._service.context
        for link in list(context.clients):
            if link.principal != link.name:
                continue  # it stands for a client, which is told where it is connected itself
            inputs = yield from self._covered(link, asked.inputs, output=False)
            outputs = yield from self._covered(link, asked.outputs, output=True)
            if context.client(link.name) is link:  # it may have gone meanwhile
                yield self._component(link, asked.attributes, inputs, outputs)

    def _component(
        self, link: Link, names: tuple[str, ...] | None, inputs: tuple[bool, ...], outputs: tuple[bool, ...]
    ) -> Component:
        graph, node = self._service.graph, client_node(link.name)
        attributes = attributes_of(link.attributes).merged(graph.attributes(node))
        if names is not None:
            attributes = Attributes({name: attributes[name] for name in names if name in attributes})
        return Component(node, self._service.context.name, attributes, graph.roles(node), inputs, outputs)

    def _covered(
        self, link: Link, filters: tuple[Filter, ...], *, output: bool
    ) -> Generator[None, None, tuple[bool, ...]]:
        """For each filter, whether an interface of a client covers it."""
        found = []
        for one in filters:
            verdict = False
            for step in self._verdicts(link, one, output):
                verdict = bool(step)
                yield None
            found.append(verdict)
        return tuple(found)

    def _verdicts(self, link: Link, asked: Filter, output: bool) -> Iterator[bool | None]:
        context = self._service.context
        if not output:
            return covered(asked, [one.filter for one in context.subscribed(link)])
        if context.routing.advertisements:
            return covered(asked, [one.filter for one in context.advertised(link)])
        return iter((_may_publish(link, asked),))  # nobody advertises here: what it may publish is what it has

    def combine(self, answers: list[bytes]) -> bytes:
        """All components; each is connected at one broker."""
        whole, size = _Part(), 0
        for part in map(_read, answers):
            whole.cut = whole.cut or part.cut
            whole.brokers += part.brokers
            for raw in part.components:
                size += len(raw)
                whole.cut = whole.cut or size > MAX_ANSWER
                if not whole.cut:
                    whole.components.append(raw)
        return _encoder.encode(whole)


def _may_publish(link: Link, asked: Filter) -> bool:
    if link.guard is None:
        return True
    try:
        link.guard.check_advertise(asked)
    except TidingsError:
        return False
    return True


def _read(answer: bytes) -> _Part:
    return _parts.decode(answer) if answer else _Part()
