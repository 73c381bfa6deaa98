"""Succession: under which terms was decided for a group, what a new point takes over, and what is lost.

What is open is settled when a point gathers, by this rule:

    its broker has handed it over                         done
    it has not, or the member had gone                    it is taken back, and assigned to another member
    its broker cannot be asked, or has died since         nobody knows: it is lost, and the members are told a `Gap`

A term that some broker has heard of, and whose decisions no broker knows, is lost with its point. Such terms are
*ghosts*: what was out of reach when they were noticed may be among what they have decided. As long as they are
remembered, a broker that comes into reach makes them count again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tidings.broker import Facts, Lineage, Term
from tidings.model import EventKey

from ._limits import KEPT
from ._messages import Decided, Due, Known, Open, Taken, Terms


class Estate(NamedTuple):
    """What a new point takes over from those before it."""

    terms: Terms | None
    """What the members have in common; None: there are none any more, or never were."""
    facts: Facts
    owed: list[Due]
    """What was decided of events that are open for other reasons, or because somebody has not got it yet."""
    again: list[Open]
    """What was assigned and has certainly reached no member."""
    gone: list[EventKey]
    """What nobody knows about."""
    is_lost: bool
    """Whether something may have been decided that nobody in reach knows of."""
    is_new: bool
    """Whether there is nothing to go on with."""


class Succession:
    """The terms of one group, as one broker knows them."""

    def __init__(self) -> None:
        self.term: Term | None = None
        """Under which this broker decides, or has decided."""
        self.lineage = Lineage()
        self.ghosts: dict[Term, int] = {}
        """Each with when it was noticed, in microseconds since 1970 UTC."""
        self.reach: list[str] = []
        """With ghosts: the brokers that were there when it was to begin with what is published from then on."""

    def begin(self, told: Mapping[str, Known], broker: str, epoch: int, now: int) -> Estate:
        """A broker decides under a new term, with what all brokers in reach have told."""
        decided = latest(known.decided for known in told.values())
        heard = [known.heard for known in told.values() if known.heard is not None]
        self.lineage = Lineage(term for one in decided for term in (*one.lineage, one.term))
        lost = self._notice_losses(decided, heard, told, now)
        facts = Facts()
        for one in decided:
            facts.merge(Facts(one.facts))
        again, gone = undelivered([entry for one in decided for entry in one.open], told)
        self.term, self.lineage = self.lineage.next((*heard, *self.ghosts), broker, epoch)
        owed = [entry for one in decided for entry in one.owed]
        terms = next((one.terms for one in decided if not one.ended), None)
        is_new = lost or all(one.ended or one.anew for one in decided)
        return Estate(terms, facts, owed, again, gone, lost, is_new)

    def _notice_losses(self, decided: list[Decided], heard: list[Term], told: Mapping[str, Known], now: int) -> bool:
        """Whether something may have been decided that nobody here knows of."""
        known, ghosts = set(self.lineage.terms), dict(ghost for one in decided for ghost in one.ghosts)
        self.ghosts = {term: at for term, at in ghosts.items() if term not in known and at > now - KEPT}
        new = self.lineage.lost(heard) - self.ghosts.keys()
        certain = not self.ghosts or (len(decided) == 1 and set(told) <= set(decided[0].reach))
        lost = bool(new) or _out_of_date(decided, told) or not certain
        self.ghosts.update(dict.fromkeys(new, now))
        self.reach = sorted(told) if lost or not self.ghosts else decided[0].reach
        return lost


def latest(decided: Iterable[Decided | None]) -> list[Decided]:
    """Those that no other one has taken up already, the latest first."""
    known = [one for one in decided if one is not None]
    taken_up = {term for one in known for term in one.lineage if term != one.term}
    return sorted((one for one in known if one.term not in taken_up), key=lambda one: one.term, reverse=True)


def _out_of_date(decided: Iterable[Decided], told: Mapping[str, Known]) -> bool:
    """Whether somebody may have gone on with what was told, and cannot be heard."""
    there = {(broker, known.epoch) for broker, known in told.items()}
    return any(asker not in there for one in decided for asker in one.askers)


def undelivered(open: Collection[Open], told: Mapping[str, Known]) -> tuple[list[Open], list[EventKey]]:
    """What was assigned and has certainly reached no member; and what nobody knows about."""
    again: list[Open] = []
    gone: list[EventKey] = []
    for one in open:
        known = told.get(one.broker)
        if known is None or known.epoch != one.epoch:
            gone.append(one.event)
            continue
        taken = dict(known.taken).get(one.term, Taken(0))
        if one.number > taken.upto or one.number in taken.back:
            again.append(one)
    return again, gone
