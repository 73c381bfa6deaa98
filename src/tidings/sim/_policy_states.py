"""What policies that are asked at a deciding point say, from their documentation: the checker's own.

Brokers ask the policies of `tidings.scopes.policies`; these share nothing with them. A state is told of the same
publications in the same order, and goes on with those of the points before it, so the two must agree about each. Of
`one-of-n`, and of `top-k` by load, only the number of those that are chosen is known.

    top-k         the first by rank, then by name
    rate-limit    those that were given fewer than `count` of all that was published less than `seconds` before or after
    state         everybody or nobody, as the last thing said that opens or closes it; which itself everybody gets
    release       as the first verdict says that came while it waited, or that was published no earlier
    acknowledged  everybody, when such verdicts of enough others have come
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tidings.model import NOTHING, Filter, Notification
from tidings.scopes import PolicyUse


class Asked(NamedTuple):
    """What a policy is asked about."""

    notification: Notification
    publisher: str
    event: tuple[str, int, int]
    at: int
    """When it was published, in microseconds since 1970 UTC."""
    candidates: frozenset[str]
    attributes: Callable[[str], Mapping[str, Any]]
    """What the graph says about a client."""
    waited: bool
    """Whether it waited at this point before."""


class State(Protocol):
    """One policy at one deciding point."""

    def says(self, asked: Asked) -> frozenset[str] | None:
        """Who gets it; None: it cannot be decided yet. What is asked may change the state."""
        ...

    def goes_on_with(self, before: State) -> None:
        """Take up the state of a point before; of several, the latest first."""
        ...


def state_of(use: PolicyUse) -> State | None:
    """A policy that begins; None: its answers cannot be foretold."""
    match use.name:
        case "single":
            return _Ranked(1, "")
        case "top-k" if "attribute" in use.parameters:
            return _Ranked(int(use.parameters["k"]), use.parameters["attribute"])
        case "rate-limit":
            return _Rate(int(use.parameters["count"]), round(use.parameters["seconds"] * 1_000_000))
        case "state":
            filters = (_filter(use, "opens"), _filter(use, "closes"))
            return _Door(*filters, use.parameters.get("by", ""), use.parameters.get("initially", False))
        case "release":
            return _Held(_filter(use, "commit"), _filter(use, "abort"), 0, use.parameters["by"], _held(use))
        case "acknowledged":
            count = int(use.parameters.get("count", 1))
            return _Held(_filter(use, "acknowledgement"), NOTHING, count, use.parameters["by"], _held(use))
    return None


def most(use: PolicyUse) -> int | None:
    """How many a policy chooses at most; None: any number."""
    return {"one-of-n": 1, "single": 1, "top-k": int(use.parameters.get("k", 0))}.get(use.name)


def _filter(use: PolicyUse, name: str) -> Filter:
    return Filter.parse(use.parameters.get(name, "FALSE"))


def _held(use: PolicyUse) -> Filter:
    return Filter.parse(use.parameters.get("filter", "TRUE"))


@dataclass
class _Ranked:
    count: int
    attribute: str

    def says(self, asked: Asked) -> frozenset[str]:
        def rank(client: str) -> float:
            value = asked.attributes(client).get(self.attribute)
            return value if isinstance(value, int | float) and not isinstance(value, bool) else float("-inf")

        best = sorted(asked.candidates, key=lambda one: (-rank(one), one))
        return frozenset(best[: self.count])

    def goes_on_with(self, before: State) -> None:
        """It has no state."""


@dataclass
class _Rate:
    count: int
    within: int
    given: dict[str, set[tuple[int, tuple[str, int, int]]]] = field(default_factory=dict)
    """By client, when it was published, and what."""

    def says(self, asked: Asked) -> frozenset[str]:
        this = (asked.at, asked.event)
        chosen = set()
        for client in asked.candidates:
            had = self.given.setdefault(client, set())
            if this in had or sum(abs(at - asked.at) < self.within for at, _ in had) < self.count:
                had.add(this)
                chosen.add(client)
        return frozenset(chosen)

    def goes_on_with(self, before: State) -> None:
        assert isinstance(before, _Rate)
        for client, had in before.given.items():
            self.given.setdefault(client, set()).update(had)


@dataclass
class _Door:
    opens: Filter
    closes: Filter
    by: str
    initially: bool
    open: dict[str, bool] = field(default_factory=dict)

    def says(self, asked: Asked) -> frozenset[str]:
        value = repr(asked.notification.get(self.by)) if self.by else ""
        opens, closes = self.opens.matches(asked.notification), self.closes.matches(asked.notification)
        if opens or closes:
            self.open[value] = opens
            return asked.candidates
        return asked.candidates if self.open.get(value, self.initially) else frozenset()

    def goes_on_with(self, before: State) -> None:
        assert isinstance(before, _Door)
        self.open = before.open | self.open


class _Verdict(NamedTuple):
    at: int
    who: str
    commits: bool


@dataclass
class _Held:
    commit: Filter
    abort: Filter
    count: int
    """How many others must have said so; 0: one, and it may be the publisher itself."""
    by: str
    filter: Filter
    said: dict[str, list[_Verdict]] = field(default_factory=dict)
    """By value, in the order in which it came, here or at the points before."""
    came: list[tuple[str, _Verdict]] = field(default_factory=list)
    """What came here."""
    since: dict[tuple[tuple[str, int, int], Notification], int] = field(default_factory=dict)
    """What waits here, and how much had come before it."""

    def says(self, asked: Asked) -> frozenset[str] | None:
        value = repr(asked.notification.get(self.by))
        commits, aborts = self.commit.matches(asked.notification), self.abort.matches(asked.notification)
        if commits or aborts:
            verdict = _Verdict(asked.at, asked.publisher, not aborts)
            self.came.append((value, verdict))
            self._note(value, verdict)
            return asked.candidates
        if not self.filter.matches(asked.notification):
            return asked.candidates
        this = (asked.event, asked.notification)
        since = self.since.setdefault(this, 0 if asked.waited else len(self.came))
        meanwhile = {verdict for about, verdict in self.came[since:] if about == value}
        count = [one for one in self.said.get(value, ()) if one in meanwhile or one.at >= asked.at]
        if self.count:
            decided = True if len({one.who for one in count} - {asked.publisher}) >= self.count else None
        else:
            decided = count[0].commits if count else None
        if decided is None:
            return None
        del self.since[this]
        return asked.candidates if decided else frozenset()

    def _note(self, value: str, verdict: _Verdict) -> None:
        said = self.said.setdefault(value, [])
        if verdict not in said:
            said.append(verdict)

    def goes_on_with(self, before: State) -> None:
        assert isinstance(before, _Held)
        for value, said in before.said.items():
            for verdict in said:
                self._note(value, verdict)
