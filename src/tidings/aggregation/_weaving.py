"""Weaving: which steps of the broker are advised, and what waits for that.

Theory of operation
-------------------
Nothing is woven until this broker is asked for something, by a client or a neighbour. The first ask weaves; as soon as
the steps are advised, the tables are looked at, and from then on changes are counted. The last ask that ends unweaves.

    began    a subject is asked for; it begins as soon as every step is advised that is wanted
    woven    some steps are advised; if no others are about to be, everything begins that waits
    ended    a subject is no longer asked for; it does not begin any more

What happened between an ask and its weaving is made good then: a client may have left, the tree may have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tidings.broker import Advice, Joinpoint

from ._subject import Subject


class Loom(Protocol):
    """Who advises the steps: `tidings.broker.Context`."""

    def weave(self, advice: Mapping[Joinpoint, Advice], woven: Callable[[], None], /) -> None:
        """Advise these steps from the next turn on, and call `woven` then."""
        ...

    def unweave(self, *joinpoints: Joinpoint) -> None:
        """Advise these steps no longer, from the next turn on."""
        ...


class Weaving:
    """The steps that aggregation advises at one broker."""

    def __init__(
        self,
        loom: Loom,
        wanted: Callable[[], Mapping[Joinpoint, Advice]],
        *,
        make_good: Callable[[], None],
        begin: Callable[[Subject], None],
    ) -> None:
        """`wanted`: what must be advised for what is asked now; `make_good` catches up with what has happened since
        the first ask; `begin` begins to count, or to measure, a subject if it is still asked for."""
        self._loom = loom
        self._wanted = wanted
        self._make_good = make_good
        self._begin = begin
        self._advised: set[Joinpoint] = set()
        """The steps that are advised, or will be between this turn and the next."""
        self._weaves = 0
        """How often something is about to be woven."""
        self._unbegun: dict[Subject, None] = {}
        """What is asked for, and waits for its steps to be advised."""

    def __len__(self) -> int:
        return len(self._advised)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is advised, and nothing waits for that."""
        return not (self._advised or self._unbegun)

    def is_waiting(self, subject: Subject) -> bool:
        """Whether a subject waits for its steps to be advised."""
        return subject in self._unbegun

    def began(self, subject: Subject) -> None:
        """A subject is asked for."""
        self._unbegun[subject] = None
        self.reweave()
        if not self._weaves:
            self._begin_all()

    def ended(self, subject: Subject) -> None:
        """A subject is no longer asked for."""
        self._unbegun.pop(subject, None)

    def reweave(self) -> None:
        """Advise what must be advised, and nothing else."""
        wanted = self._wanted()
        if gone := [step for step in self._advised if step not in wanted]:
            self._advised.difference_update(gone)
            self._loom.unweave(*gone)
        if new := {step: advice for step, advice in wanted.items() if step not in self._advised}:
            self._advised.update(new)
            self._weaves += 1
            self._loom.weave(new, self._woven)

    def _woven(self) -> None:
        """Steps are advised: if they all are, make good what has happened since the first ask, and begin."""
        self._weaves -= 1
        if not self._weaves:
            self._make_good()
            self._begin_all()

    def _begin_all(self) -> None:
        unbegun, self._unbegun = self._unbegun, {}
        for subject in unbegun:
            self._begin(subject)
