"""States: what one broker keeps of one subject, small enough for many thousands of them.

Most subjects are asked for by one neighbour and nobody else. So there is no table of links in a state, and what clients
of this broker ask for is kept only if one does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from ._forms import Form
from ._shares import Policy
from ._subject import Subject

L = TypeVar("L")
"""A link to a neighbour: anything that can be a key."""

UNKNOWN: Any = object()
"""What is known of the own clients before they were looked at."""


class Terms(NamedTuple):
    """How the values of a subject are treated."""

    form: Form
    policy: Policy


class Request(Generic[L]):
    """What one client asks for. Compared by identity."""

    __slots__ = ("bound", "complete", "id", "link", "state", "told")

    def __init__(self, link: Any, id: str, bound: float) -> None:
        self.link = link
        self.id = id
        self.bound = bound
        self.told: Any = None
        self.complete: bool | None = None
        """None: it has been told nothing yet."""
        self.state: State[L]


class Side(Generic[L]):
    """One subject on one link, in both directions."""

    __slots__ = (
        "answers",
        "asked",
        "complete",
        "got",
        "link",
        "number",
        "sent",
        "sent_complete",
        "slack",
        "told",
        "want",
    )

    def __init__(self, link: L) -> None:
        self.link = link
        self.want: float | None = None
        self.answers = 0
        """The number of the neighbour's ask."""
        self.slack: float = 0
        self.sent: Any = None
        self.sent_complete: bool | None = None
        """None: it has been told nothing yet."""
        self.asked: float | None = None
        self.number = 0
        """The number of the ask of this broker."""
        self.got: Any = None
        self.complete = False
        self.told = 0
        """How often the neighbour has told something."""


class Root(Generic[L]):
    """What clients of this broker ask for of one subject."""

    __slots__ = ("bound", "requests", "slack")

    def __init__(self) -> None:
        self.requests: dict[Request[L], None] = {}
        self.bound: float = 0
        """The tightest bound of the requests."""
        self.slack: float = 0


class State(Generic[L]):
    """Everything about one subject at one broker. Compared by identity."""

    __slots__ = ("_sides", "local", "root", "source", "subject", "terms")

    def __init__(self, subject: Subject, terms: Terms) -> None:
        self.subject = subject
        self.terms = terms
        self.local: Any = UNKNOWN
        """The local partial."""
        self.source: Any = None
        """What the broker keeps in order to know the local partial; the engine does not look at it."""
        self.root: Root[L] | None = None
        self._sides: Side[L] | tuple[Side[L], ...] = ()
        """What is said on each link: most often on one."""

    @property
    def form(self) -> Form:
        """How values travel."""
        return self.terms.form

    @property
    def policy(self) -> Policy:
        """How bounds are divided."""
        return self.terms.policy

    @property
    def ready(self) -> bool:
        """Whether the local partial is known."""
        return self.local is not UNKNOWN

    def __iter__(self) -> Iterator[Side[L]]:
        """What is said on each link."""
        sides = self._sides
        return iter(sides if isinstance(sides, tuple) else (sides,))

    @property
    def sides(self) -> Mapping[L, Side[L]]:
        """What is said on each link, by link; for those who look from outside."""
        return {side.link: side for side in self}

    def side(self, link: L) -> Side[L] | None:
        """What is said on one link, if something is."""
        sides = self._sides
        if isinstance(sides, tuple):
            return next((side for side in sides if side.link is link), None)
        return sides if sides.link is link else None

    def add(self, link: L) -> Side[L]:
        """Something is said on a link, on which nothing was."""
        side: Side[L] = Side(link)
        self._keep(*self, side)
        return side

    def remove(self, link: L) -> None:
        """Nothing is said on a link any more, if something was."""
        self._keep(*(side for side in self if side.link is not link))

    def _keep(self, *sides: Side[L]) -> None:
        self._sides = sides[0] if len(sides) == 1 else sides

    @property
    def requests(self) -> Mapping[Request[L], None]:
        """What clients ask for."""
        return self.root.requests if self.root is not None else {}

    @property
    def root_bound(self) -> float:
        """The tightest bound of the requests."""
        return self.root.bound if self.root is not None else 0

    @property
    def root_slack(self) -> float:
        """What clients may be told wrongly, beside what neighbours may."""
        return self.root.slack if self.root is not None else 0

    def total(self, but: L | None = None) -> Any:
        """What is known, without what one neighbour has told."""
        form = self.terms.form
        known = [side.got for side in self if side.got is not None and side.link is not but]
        return form.total((self.local if self.ready else form.zero(), *known))
