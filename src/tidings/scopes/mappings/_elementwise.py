"""A step that takes every scalar of one attribute to another scalar, and lists element by element.

Its relations to filters follow from what it says of scalars:

    image(x)         the scalar that x becomes; None where the step is undefined
    preimages(y)     every scalar that becomes y, where they are known and few
    pulled(range)    what must lie in a range before, so that it lies in this one after
    pushed(range)    where it lies after, if it lies in this one before

Numbers are equal across int and float, but their images need not be: 1 becomes '1' and 1.0 becomes '1.0'. So
wherever a constraint names a number, all its `twins` are meant.

Where source and target are two names, a filter has two readings: of what was converted, and of what stays as it is
because its source is missing. Both are alternatives of the translated filter; whether the source is there tells them
apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidings.model import Conjunction, Constraint, Filter, Kind, Negated, Scalar
from tidings.model.operators import Exists, IsNull, Range

from ._step import Attributes, MappingFailed, Step
from ._translate import Answer, absent, listed, rewritten, within_limits, without

MAX_VALUES = 16
"""The most values of an `IN` that are taken back one by one; more are taken as the range that they span."""


class Elementwise(Step, frozen=True):
    """A step on the scalars of `source`, which are called `target` afterwards."""

    @property
    def source(self) -> str:
        """The attribute before."""
        raise NotImplementedError

    @property
    def target(self) -> str:
        """The attribute after; where the source is there, one that had this name before gives way to it."""
        raise NotImplementedError

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        """The kind of scalars before and after; other kinds are blocked."""
        raise NotImplementedError

    def image(self, scalar: Any) -> Scalar | None:
        """What a scalar of the right kind becomes; None where that is undefined."""
        raise NotImplementedError

    def preimages(self, value: Any) -> Sequence[Scalar] | None:
        """All scalars whose image equals this value; None if they are too many, or not known."""
        return None

    def pulled(self, range: Range) -> Answer:
        """A constraint on the source that passes whatever comes to lie in the range."""
        return Exists(self.source)

    def pushed(self, range: Range) -> Answer:
        """A constraint on the target that passes whatever lay in the range."""
        return Exists(self.target)

    def run(self, attributes: Attributes) -> Attributes:
        """The attributes with the images in place of the scalars, in their order; as they are without the source."""
        if self.source not in attributes:
            return attributes
        result: Attributes = {}
        for name, value in attributes.items():
            if name == self.source:
                many = type(value) is tuple
                result[self.target] = tuple(map(self._mapped, value)) if many else self._mapped(value)  # type: ignore[arg-type]
            elif name != self.target:
                result[name] = value
        return result

    def _mapped(self, scalar: Scalar) -> Scalar:
        image = self.image(scalar)
        if image is None:
            raise MappingFailed(
                f"{type(self).__name__}: '{self.source}' is {scalar!r:.60}, which it is not defined for"
            )
        return image

    def wanted(self, filter: Filter) -> Filter:
        """The filter, with constants of the target taken back to the source; itself, where there is no source."""
        if self.source == self.target:
            return rewritten(filter, self.source.__eq__, self._asked)
        return within_limits(self._alternatives(filter), lambda: without(filter, self._touches))

    def _alternatives(self, filter: Filter) -> Iterator[Conjunction]:
        for conjunction in filter.conjunctions:
            if not all(map(absent, conjunction.by_name.get(self.source, ()))):
                continue  # converted or missing, the source is not there afterwards
            others = [one for one in conjunction if not self._touches(one.name)]
            asked = conjunction.by_name.get(self.target, ())
            if not asked:
                yield Conjunction(others)
                continue
            if not any(map(absent, asked)):
                answers = [self._asked(one) for one in asked]
                if not any(one is False for one in answers):
                    yield Conjunction((*others, *(one for one in answers if isinstance(one, Constraint))))
            yield Conjunction((*others, *asked, IsNull(self.source)))

    def offered(self, filter: Filter) -> Filter:
        """The filter, with constants of the source taken to the target; itself, where there may be no source."""
        if self.source == self.target:
            return rewritten(filter, self.source.__eq__, self._said)
        return within_limits(self._outcomes(filter), lambda: without(filter, self._touches))

    def _outcomes(self, filter: Filter) -> Iterator[Conjunction]:
        gone = IsNull(self.source)
        for conjunction in filter.conjunctions:
            others = [one for one in conjunction if not self._touches(one.name)]
            said = conjunction.by_name.get(self.source, ())
            if not any(map(absent, said)):
                answers = [self._said(one) for one in said] or [Exists(self.target)]
                if not any(one is False for one in answers):
                    yield Conjunction((*others, gone, *(one for one in answers if isinstance(one, Constraint))))
            if all(map(absent, said)):
                yield conjunction & Conjunction([gone])

    def _touches(self, name: str) -> bool:
        return name in (self.source, self.target)

    def _asked(self, constraint: Constraint) -> Answer:
        """What the source must be, so that the target passes."""
        if absent(constraint):
            return IsNull(self.source)
        kind = self.kinds[1]
        if isinstance(constraint, Negated):
            return self._not_asked(constraint.inner, kind)
        if constraint.kind not in (None, kind):
            return False
        if constraint.values is not None:
            return self._asked_for(constraint.values)
        return self.pulled(constraint) if type(constraint) is Range else Exists(self.source)

    def _asked_for(self, values: Sequence[Any]) -> Answer:
        """The sources of one of these values."""
        found: list[Scalar] = []
        for value in values[: MAX_VALUES + 1]:
            sources = self.preimages(value)
            if sources is None or len(values) > MAX_VALUES:
                return self.pulled(Range(self.target, min(values), max(values)))
            found += sources
        return listed(self.source, found)

    def _not_asked(self, inner: Constraint, kind: Kind) -> Answer:
        """The sources of what does not pass `inner`: all but those that are certain to become what does."""
        certain: list[Scalar] = []
        if inner.kind is kind and inner.values is not None and len(inner.values) <= MAX_VALUES:
            for value in inner.values:
                for source in self.preimages(value) or ():
                    images = list(map(self.image, twins(source)))
                    if all(image is None or inner.holds(image) for image in images):
                        certain.append(source)
        excluded = listed(self.source, certain)
        # Of values that do not compare a list passes, too: all that is known is that the attribute is there.
        return Negated(excluded) if isinstance(excluded, Constraint) else Exists(self.source)

    def _said(self, constraint: Constraint) -> Answer:
        """What the target is, where the source passes."""
        if absent(constraint):
            return IsNull(self.target)
        kind = self.kinds[0]
        if isinstance(constraint, Negated) or constraint.kind is None:
            return Exists(self.target)  # several scalars may have one image, so exclusions say nothing
        if constraint.kind is not kind:
            return False
        if constraint.values is not None:
            images = (self.image(twin) for value in constraint.values for twin in twins(value))
            return listed(self.target, (image for image in images if image is not None))
        return self.pushed(constraint) if type(constraint) is Range else Exists(self.target)


def twins(scalar: Scalar) -> Iterator[Scalar]:
    """All scalars that are equal to this one, itself included."""
    yield scalar
    if type(scalar) is float:
        if scalar == 0:
            yield -scalar
        if scalar.is_integer() and -(2**63) <= scalar < 2**63:
            yield int(scalar)
    elif type(scalar) is int and float(scalar) == scalar:
        yield float(scalar)
        if scalar == 0:
            yield -0.0
