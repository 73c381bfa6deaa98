"""A policy at work: asked about one candidate at a time, or, at a deciding point, about all; and trusted with nothing.

A policy that raises, or names somebody who is no candidate, denies; the log says why, at most once a minute for each
policy, and the broker counts it. One that takes longer than `SLOW` is logged and counted, too; its answer counts.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, TypeAlias

from tidings.broker import Choice
from tidings.model import Identity, Notification
from tidings.scopes._graph import Graph

from ._policy import MAX_STATE, Load, Policy, PolicyContext, PolicyKind, PolicyUse, Wait
from ._registry import compares, forgotten, made

SLOW = 0.05
"""Seconds after which an answer of a policy is reported: everybody else waits for it."""
QUIET = 60.0
"""Seconds for which the same policy is not logged again."""
MAX_RUNNING = 4_096
"""The most policies that are set up at a time in one process; the one that was asked least recently is shut down."""

NOBODY = Choice(())

log = logging.getLogger("tidings.scopes")


class Counted(NamedTuple):
    """What went wrong with policies in this process, since it started."""

    failed: int
    """How often one denied because it raised, named a stranger or is not registered."""
    slow: int
    """How often one took too long."""


class Running:
    """One policy of one component."""

    failed = 0
    slow = 0
    """Over all policies of this process, as `failed` is."""

    def __init__(self, use: PolicyUse, kind: PolicyKind, component: str) -> None:
        self._use, self._kind, self._component = use, kind, component
        self.compares = compares(use)
        """Whether it is asked at a deciding point, by `chosen`, and nowhere else."""
        self._policy: Policy | None = None
        self._unfit = ""
        self._logged = 0.0
        self.clock = time.monotonic
        """What measures how long an answer takes; nothing is decided by it."""
        self._set_up()

    def _set_up(self) -> None:
        try:
            self._policy = made(self._use, self._kind, self._component)
        except Exception as error:  # whatever it raises, nobody gets anything
            self._unfit = str(error) or type(error).__name__

    def due(
        self, notification: Notification, candidate: str, graph: Graph, identity: Identity, path: tuple[str, ...]
    ) -> int | None:
        """When a candidate gets a notification, in microseconds since 1970 UTC, 0 for at once; None: not at all."""
        if self._policy is None and not self._unfit:
            self._set_up()  # it was shut down, and is asked again
        if self._policy is None:
            return self._denied(self._unfit)
        context = PolicyContext(
            self._kind, self._component, self._use.parameters, graph=graph, identity=identity, path=path
        )
        began = self.clock()
        try:
            chosen = self._policy.select(notification, (candidate,), context)
            strangers = [one for one in chosen if one != candidate]
            when: object = self._policy.not_before(notification, context) if chosen and not strangers else 0
        except Exception as error:  # whatever it raises, nobody gets anything
            return self._denied(f"it raised {type(error).__name__}: {error!s:.200}")
        self._timed(began)
        if strangers:
            return self._denied(f"it chose {strangers[0]!r:.60}, and could only choose '{candidate}'")
        if isinstance(when, bool) or not isinstance(when, int) or when < 0:
            return self._denied(f"its time is {when!r:.60}, and no number of microseconds")
        return when if chosen else None

    def chosen(
        self,
        notification: Notification,
        eligible: Collection[str],
        graph: Graph,
        identity: Identity,
        path: tuple[str, ...],
        *,
        load: Callable[[str], Load],
        waited: bool = False,
    ) -> Choice:
        """The candidates that get a notification, of all that would. For a policy that compares."""
        if self._policy is None and not self._unfit:
            self._set_up()
        if self._policy is None:
            self._denied(self._unfit)
            return NOBODY
        context = PolicyContext(
            self._kind, self._component, self._use.parameters, graph=graph, identity=identity, path=path, load=load
        )
        context.waited = waited
        began = self.clock()
        try:
            chosen = tuple(dict.fromkeys(self._policy.select(notification, eligible, context)))
        except Wait:
            self._timed(began)
            return Choice((), waits=True)
        except Exception as error:  # whatever it raises, nobody gets anything
            self._denied(f"it raised {type(error).__name__}: {error!s:.200}")
            return NOBODY
        self._timed(began)
        if not set(eligible).issuperset(chosen):
            self._denied(f"it chose {list(chosen)!r:.60}, and could only choose of {len(eligible):,} candidates")
            return NOBODY
        return Choice(chosen, self._policy.asks_again, wakes=context.woken)

    def remember(self) -> bytes:
        """What the next deciding point has to know."""
        try:
            state = b"" if self._policy is None else self._policy.remember()
        except Exception as error:  # the next one begins as at first
            self._say(f"raised {type(error).__name__} when it was to remember: {error!s:.200}")
            return b""
        if len(state) > MAX_STATE:
            self._say(
                f"remembers {len(state):,} bytes, more than {MAX_STATE:,}; the next deciding point begins as at first"
            )
            return b""
        return state

    def restart(self, states: Iterable[bytes]) -> None:
        """Begin as at first, and then go on with what other deciding points have remembered."""
        self.shutdown()
        self._set_up()
        for state in states if self._policy is not None else ():
            try:
                self._policy.recall(state)  # type: ignore[union-attr]
            except Exception as error:  # it comes from another broker
                self._say(f"cannot go on with what another broker remembered: {type(error).__name__}: {error!s:.200}")

    def _timed(self, began: float) -> None:
        if (took := self.clock() - began) > SLOW:
            Running.slow += 1
            self._say(f"took {took * 1000:,.0f} ms, more than {SLOW * 1000:,.0f} ms; everybody waits for it meanwhile")

    def _denied(self, why: str) -> int | None:
        Running.failed += 1
        self._say(f"denies, because {why}")
        return None

    def _say(self, what: str) -> None:
        now = self.clock()
        if not self._logged or now - self._logged >= QUIET:
            self._logged = now
            whose = f"'{self._component}'" if self._component else "the root scope"
            log.warning("%s policy '%s' of %s %s", self._kind.value, self._use.name, whose, what)

    def shutdown(self) -> None:
        """It is not needed any longer."""
        policy, self._policy, self._unfit = self._policy, None, ""
        if policy is not None:
            try:
                policy.shutdown()
            except Exception as error:  # it has done its work
                self._say(f"raised {type(error).__name__} when it was shut down: {error!s:.200}")


PolicyKey: TypeAlias = tuple[str, PolicyKind, PolicyUse]
"""Whose policy it is, of which kind, and which."""
_running: OrderedDict[tuple[PolicyKey, str], Running] = OrderedDict()
"""By policy and, of one that keeps a state, the broker that asks it."""


def running(use: PolicyUse, kind: PolicyKind, component: str, at: str = "") -> Running:
    """The policy of a component, set up when it is first asked for; at a deciding point, that of this broker."""
    key = ((component, kind, use), at)
    known = _running.get(key)
    if known is None:
        while len(_running) >= MAX_RUNNING:
            _running.popitem(last=False)[1].shutdown()
        known = _running[key] = Running(use, kind, component)
    _running.move_to_end(key)
    return known


def counted() -> Counted:
    """What went wrong with policies in this process."""
    return Counted(Running.failed, Running.slow)


def shut_down(uses: Iterable[PolicyKey]) -> None:
    """Shut down policies that no component has any longer. One that is asked again is set up again."""
    ended = set(uses)
    for key in [key for key in _running if key[0] in ended] if ended else ():
        _running.pop(key).shutdown()


def shut_down_all() -> None:
    """Shut down every policy of this process: whoever asks next begins without a state, as after a start."""
    shut_down([key for key, _ in _running])


def uses_in(graph: Graph) -> set[PolicyKey]:
    """The policies that a graph gives to components."""
    found = {(id, PolicyKind(kind), use) for id, scope in graph.scopes.items() for kind, use in scope.policies.items()}
    return found | {
        (node, PolicyKind.PUBLISHING, client.publishing)
        for node, client in graph.clients.items()
        if client.publishing is not None
    }


def _forget(name: str) -> None:
    shut_down([key for key, _ in _running if key[2].name == name])


forgotten.append(_forget)
