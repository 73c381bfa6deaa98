"""A conjunction: constraints that must all pass, grouped by attribute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ._constraint import Constraint
from ._terms import Terms, terms_of
from ._values import Value


class Conjunction:
    """Constraints joined by AND, each once, in a fixed order. Empty: everything passes."""

    __slots__ = ("_hash", "_terms", "_text", "by_name", "constraints")

    def __init__(self, constraints: Iterable[Constraint] = ()) -> None:
        unique = {str(constraint): constraint for constraint in constraints}
        texts = sorted(unique)
        self.constraints = tuple(map(unique.__getitem__, texts))
        self._text = " AND ".join(texts) or "TRUE"
        by_name: dict[str, tuple[Constraint, ...]] = {}
        for constraint in self.constraints:
            by_name[constraint.name] = (*by_name.get(constraint.name, ()), constraint)
        self.by_name = by_name
        """The constraints of each attribute."""
        self._hash = hash(self.constraints)
        self._terms: dict[str, Terms] | None = None

    @property
    def terms(self) -> dict[str, Terms]:
        """What is asked of each attribute, as the algebra sees it."""
        if self._terms is None:
            self._terms = {name: terms_of(constraints) for name, constraints in self.by_name.items()}
        return self._terms

    def passes(self, attributes: dict[str, Value]) -> bool:
        """Whether these attributes pass every constraint."""
        get = attributes.get
        return all(constraint.passes(get(constraint.name)) for constraint in self.constraints)

    def __and__(self, other: Conjunction) -> Conjunction:
        return Conjunction((*self.constraints, *other.constraints))

    def __iter__(self) -> Iterator[Constraint]:
        return iter(self.constraints)

    def __len__(self) -> int:
        return len(self.constraints)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conjunction) and self.constraints == other.constraints

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Conjunction({str(self)!r})"

    def __str__(self) -> str:
        return self._text
