"""An interface: what may cross the border of a member, in each direction.

INPUT is always towards the member, OUTPUT from the member to its superscope, whoever set the interface.
"""

from __future__ import annotations

import msgspec

from tidings.model import EVERYTHING, NOTHING, Filter, FilterTooLarge


class Interface(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may come in to a member, and what may go out from it.

    >>> quotes = Interface.parse(input="type = 'order'", output="type = 'quote'")
    >>> quotes.output.matches({"type": "quote", "price": 5}), quotes.input.matches({"type": "quote"})
    (True, False)
    """

    input: Filter = EVERYTHING
    """Towards the member."""
    output: Filter = EVERYTHING
    """From the member to the superscope."""

    @classmethod
    def parse(cls, *, input: str = "TRUE", output: str = "TRUE") -> Interface:
        """The interface that two filter texts mean; a direction that is left out is open."""
        return cls(Filter.parse(input), Filter.parse(output))

    @property
    def is_open(self) -> bool:
        """Whether everything may cross, in both directions, and the interface says so plainly."""
        return _is_everything(self.input) and _is_everything(self.output)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can cross, in either direction."""
        return not (self.input.canonical().conjunctions or self.output.canonical().conjunctions)


OPEN = Interface(EVERYTHING, EVERYTHING)
"""Everything, both ways."""
CLOSED = Interface(NOTHING, NOTHING)
"""Nothing, either way."""


def both(*filters: Filter, most: int | None = None) -> tuple[Filter, bool]:
    """The filter that passes what all of these pass, and whether it is exact.

    A conjunction of disjunctions is multiplied out and may grow beyond the limits of a filter, or cost more than `most`
    (see `Filter.cost`). Then the factors that do not fit are left out: what comes back passes everything that passes
    all of them, and more, so it may be announced for routing, but it must not decide what crosses a border.

    >>> both(Filter.parse("a = 1"), Filter.parse("b = 2 OR c = 3"))
    (Filter.parse('(a = 1 AND b = 2) OR (a = 1 AND c = 3)'), True)
    """
    joined, exact = EVERYTHING, True
    for one in sorted(filters, key=_size):  # the small ones first: they say much in few words, and always fit
        try:
            more = joined & one
        except FilterTooLarge:
            exact = False
            continue
        if most is None or more.cost <= most:
            joined = more
        else:
            exact = False
    return joined, exact


def _size(one: Filter) -> tuple[int, int]:
    return len(one.conjunctions), sum(map(len, one.conjunctions))


def _is_everything(one: Filter) -> bool:
    return any(not conjunction.constraints for conjunction in one.conjunctions)
