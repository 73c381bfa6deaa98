"""What the extension offers. Its meaning is that of `bench._naive_index.NaiveIndex`."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

INTERFACE: int

Test = tuple[str, int, bool, int, int, tuple[object, ...]]
"""Name, operator, negated, kind, which bounds are open (1: the lower one, 2: the upper one), operands."""

def plain_kinds(attributes: dict[Any, Any], known: set[str], /) -> bool:
    """Whether all names are known and all values plain, as `tidings.model.has_plain_kinds` says it; False: ask that."""

class Engine:
    """Filters under numbers, and the question which of them match."""

    def __init__(self, location: type, stride: int, /) -> None:
        """`location` is the type of places; every `stride`-th match is sampled."""

    def add(self, key: Hashable, filter: object, conjunctions: Sequence[Sequence[Test]] | None, /) -> int:
        """Hold a filter, and give its number; without conjunctions, its `matches` is asked.

        `ValueError` if there is something in the operands that the engine cannot compare; then nothing has changed.
        """

    def remove(self, number: int, /) -> None:
        """Forget a filter."""

    def match(self, attributes: dict[str, Any], notification: object, /) -> list[Any] | None:
        """The keys whose filters match; None if there is something in the attributes that it cannot compare."""

    def match_body(self, body: bytes, /) -> list[Any] | None:
        """The same from an encoded notification, whose names and values it checks; None: it must be decoded."""

    def plane(self) -> Plane:
        """A data plane over these filters."""

    def items(self) -> list[tuple[Any, Any]]:
        """All keys with their filters."""

    def review(self, most: int, /) -> int:
        """Look for better homes for some conjunctions that wait for it; the number that still wait."""

    def statistics(self) -> dict[str, int]:
        """How much there is of what."""

Group = tuple[dict[Any, None], bytes, bytes, bool, bytes | None]
"""Links, what opens a frame for them, what closes it, whether these are neighbours, the routes that they are told."""
Plan = tuple[Any, bool, list[Group], bool]
"""The targets, whether the publisher is among them, the groups that get the same frame, whether it is a run alone."""
Checks = tuple[tuple[Plane, ...], Plane | None, Plane | None, Plane | bool | None]
"""What must match, what must announce it, what must not match, what is noted."""
Written = list[tuple[dict[Any, None], bytes, int, int, bytes]]
Fed = tuple[int, int, Written, bool, int, int, int, int, int, bytes, bytes, int, list[int]]
"""As `tidings.matching.Fed` names them."""

@final
class Plane:
    """From bytes to bytes, for publications that are plain; see `plane.cpp`."""

    def arm(self, head: bytes, version: bytes, routes: bytes, passing: bytes, before: bytes, after: bytes, /) -> None:
        """What all envelopes have in common: what comes before their number, the version of the graph, the routes.

        `passing` are the routes of what neighbours bring, if not empty; where there are scopes, its route is also known
        by what is `before` and `after` the name of its publisher.
        """

    def feed(
        self,
        data: bytes,
        at: int,
        link: object,
        most: int,
        version: int,
        plan: Callable[[list[Any], Any], Plan | None],
        special: Callable[[Any], list[Group] | bool | None] | None,
        publisher: bytes,
        last: int,
        known: int,
        now: int,
        qualities: bytes,
        checks: Checks | None,
        /,
    ) -> Fed | None:
        """Take a run of publications, whose parts begin at this place; None: the first one is not plain.

        At most `most` are taken. Plans are remembered while the `version` stays the same. `special` says whether
        somebody among the targets stands apart now: None, the groups without these, or False: Python does it all.
        `publisher` is its encoded name, `last` the broker's latest number, `known` the publisher's; `qualities` says
        what each of the four that can be asked for becomes, 255: Python decides.
        """

    def pass_on(
        self,
        data: bytes,
        at: int,
        link: object,
        most: int,
        version: int,
        plan: Callable[[list[Any], Any], Plan | None],
        special: Callable[[Any], list[Group] | bool | None] | None,
        hop: bytes,
        /,
    ) -> tuple[int, int, Written, bool, int, int, str, int, int] | None:
        """Pass on notifications of one origin that a neighbour brings, as `tidings.matching.PassedOn`; None: none.

        `hop` is that of the tree, encoded; the rest is as for `feed`.
        """

    def is_sound(self, data: bytes, limit: int, /) -> bool:
        """Whether all parts in these bytes have a kind that there is, and a size within the limit."""

    def plans(self) -> int:
        """How many plans are remembered."""

@final
class Receiver:
    """From the bytes that a broker sends to notifications, for deliveries that are plain; see `receiver.cpp`."""

    def __init__(self, notifications: type, decode: Callable[[bytes], dict[str, Any]], /) -> None:
        """`notifications` is the class that they get, with slots `_body` and `_looks`: a process has one.

        `decode` gives all attributes in a body.
        """

    def take(
        self, data: bytes, at: int, most: int, /
    ) -> tuple[int, bytes, bytes, str, int, int, int, str, list[int], list[Any]] | None:
        """The deliveries whose parts begin at this place, as `tidings.wire.Deliveries`; None: there are none."""

    def is_sound(self, data: bytes, limit: int, /) -> bool:
        """As for planes."""

Buffers = tuple[int, bytes | None, bytes, bytes | None] | None
"""How many are null, which are not, values or where each text begins, texts. None: all are null."""

@final
class Columns:
    """Rows of an archive, from the bytes of a log; see `columns.hpp`."""

    def __init__(self, origin: str, promoted: tuple[tuple[str, int], ...], with_body: bool, /) -> None:
        """`promoted` are names and forms, from 0: boolean, integer, float, text, bytes, time, place."""

    def add(self, batch: bytes, /) -> tuple[int, int, int] | None:
        """Hold all envelopes in an array of them: their number, the bytes of bodies, and of names.

        None: there is something odd, and nothing was added.
        """

    def take(self) -> tuple[int, list[Buffers], list[int]]:
        """The number of rows, their columns in the order of a row group, and which promoted ones are incomplete.

        Then there are no rows. Other threads may run meanwhile.
        """
