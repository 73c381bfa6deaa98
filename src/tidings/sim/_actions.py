"""Steps: what can happen in a scenario, as data."""

from __future__ import annotations

import enum
from typing import NamedTuple

from tidings.aggregation.deploying import Signed
from tidings.model import ROOT_SCOPE, Filter, Notification
from tidings.scopes import AnyChange, Mode
from tidings.wire import Past, Quality, Work

from ._habits import Habit
from ._network import Network


class Verb(enum.Enum):
    """The actions that a step can take."""

    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    ADVERTISE = "advertise"
    UNADVERTISE = "unadvertise"
    PUBLISH = "publish"
    MOVE = "move"
    ROAM = "roam"
    """Vanish, or have vanished, and come to another broker."""
    VANISH = "vanish"
    DETACH = "detach"
    CUT = "cut"
    HEAL = "heal"
    CRASH = "crash"
    RESTART = "restart"
    FILL = "fill"
    EMPTY = "empty"
    CHANGE = "change"
    JOIN = "join"
    LEAVE = "leave"
    ENLIST = "enlist"
    QUIT = "quit"
    DIE = "die"
    """Let the process of a client die, with all that it knows of acknowledged groups; MOVE brings it back."""
    WATCH = "watch"
    """Watch an aggregate, or another one under the same id."""
    TUNE = "tune"
    """Give a watch another bound."""
    UNWATCH = "unwatch"
    REACT = "react"
    """From now on, publish something in reaction to what passes a filter."""
    DEPLOY = "deploy"
    """Make a statement about something deployed: install a version, or end one."""


class Action(NamedTuple):
    """One action at one time, in microseconds after the start."""

    at: int
    verb: Verb
    who: tuple[str, ...]
    """A client, a broker, or the two ends of a link."""
    id: str = ""
    filter: Filter | None = None
    notification: Notification | None = None
    quality: Quality = Quality.DEFAULT
    receive_own: bool = True
    past: Past | None = None
    changes: tuple[AnyChange, ...] = ()
    mode: Mode = Mode.RELAXED
    aggregate: str = ""
    bound: float = 0
    scope: str = ROOT_SCOPE
    away: bool = False
    group: str = ""
    times: int = 0
    statement: Signed | None = None
    work: Work | None = None
    habit: Habit | None = None


def take(network: Network, step: Action) -> None:
    """Take a step; one that no longer makes sense, because a broker is dead, does nothing."""
    match step.verb:
        case Verb.CUT:
            network.cut(*step.who)
        case Verb.HEAL:
            network.heal(*step.who)
        case Verb.CRASH:
            network.crash(*step.who)
        case Verb.RESTART:
            network.restart(*step.who)
        case Verb.FILL:
            network.fill(*step.who)
        case Verb.EMPTY:
            network.fill(*step.who, full=False)
        case Verb.CHANGE:
            if step.who[0] in network.brokers:
                network.change(step.who[0], step.changes, step.mode)
        case _:
            _act(network, step)


def _act(network: Network, step: Action) -> None:
    client = network.clients[step.who[0]]
    match step.verb:
        case Verb.SUBSCRIBE:
            assert step.filter is not None
            client.subscribe(step.filter, id=step.id, receive_own=step.receive_own, past=step.past)
        case Verb.UNSUBSCRIBE:
            client.unsubscribe(step.id)
        case Verb.JOIN:
            assert step.filter is not None
            client.join(step.group, step.filter, id=step.id)
        case Verb.LEAVE:
            client.leave(step.id)
        case Verb.ENLIST:
            assert step.filter is not None
            assert step.work is not None
            assert step.habit is not None
            client.enlist(step.group, step.filter, id=step.id, work=step.work, most=step.times, habit=step.habit)
        case Verb.QUIT:
            client.quit(step.id)
        case Verb.DIE:
            client.die()
        case Verb.ADVERTISE:
            assert step.filter is not None
            client.advertise(step.filter, id=step.id)
        case Verb.UNADVERTISE:
            client.unadvertise(step.id)
        case Verb.PUBLISH:
            client.publish(step.notification, quality=step.quality)
        case Verb.WATCH:
            filter = str(step.filter) if step.filter is not None else ""
            client.watch(
                step.aggregate,
                filter,
                id=step.id,
                max_error=step.bound,
                probe=step.notification,
                scope=step.scope,
                away=step.away,
            )
        case Verb.TUNE if step.id in client.watches:
            client.watches[step.id].tune(step.bound)
        case Verb.UNWATCH:
            client.unwatch(step.id)
        case Verb.REACT:
            assert step.filter is not None
            assert step.notification is not None
            client.react(step.filter, step.notification, step.times)
        case Verb.DEPLOY:
            assert step.statement is not None
            client.deploy(step.statement)
        case Verb.DETACH:
            client.detach()
        case Verb.VANISH:
            client.vanish()
        case Verb.ROAM if step.who[1] in network.brokers:
            client.vanish()
            client.attach(step.who[1])
        case Verb.MOVE if step.who[1] in network.brokers:
            client.detach()
            client.attach(step.who[1])
