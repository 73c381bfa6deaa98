"""Excuses: everything that the judges of a run let pass, each with its reason and the words that it rests on.

A loss can hide behind an excuse. So there is none that is not in this list, each names the cell or the words of a page
of the documentation that allow it, and a run counts what each has covered: things that would be violations without it.
The table in docs/simulator.md is this list; tests compare them, and look for the words.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

PROMISES = "docs/promises.md"


class Ground(NamedTuple):
    """Why something is excused."""

    what: str
    """What is excused."""
    why: str
    words: str
    """The words, or the row of the table of promises, that say so."""
    page: str = PROMISES


class Excuse(enum.Enum):
    """What may be let pass."""

    PROMISED_NOTHING = Ground(
        "what a cell promises `nothing` for, under the faults that bear on it",
        "that is what the cell says",
        "`nothing`: there is no promise; the application has to expect silence.",
    )
    NOT_TAKEN = Ground(
        "delivery of what was refused or never acknowledged",
        "its publisher was not told that it was taken",
        "For `accepted` and `stored`, only an acknowledged publication counts.",
    )
    REFUSED_THE_SECOND_TIME = Ground(
        "delivery of what was refused, if it was handed over again",
        "its first broker may have taken it",
        "if the second broker refuses it, the first may have published it all the same.",
    )
    NO_ANSWER_WHILE_AWAY = Ground(
        "no answer to a client that has no broker at the end, or whose process has ended",
        "it cannot be told",
        "is acknowledged or refused while its client stays connected.",
    )
    SUBSCRIBER_AWAY = Ground(
        "no delivery to a client that has no broker at the end",
        "it cannot be reached",
        "Nothing is promised to a client that stays without a broker.",
    )
    OWN_AND_MOVED = Ground(
        "where there are scopes: its own publications in changed forms, for a publisher that has moved since",
        "they come only where they come as they were published",
        "A publisher that has moved since gets its own publications only where they arrive as they were published.",
    )
    LATER_VERSION = Ground(
        "where there are scopes: a form that a later version of the graph no longer shows",
        "the graph may have changed before it arrived",
        "from the version that was active at the publisher's broker to the newest before it could arrive.",
    )
    ENDLESS_GAP = Ground(
        "a loss in a later epoch than the `Gap` without an end that was told before it, if the origin was gone",
        "that is what such a `Gap` means",
        "it stands for everything that follows, in this epoch of the origin and in later ones, until something of "
        "that origin is delivered again.",
    )
    NUMBER_UNKNOWN = Ground(
        "a loss, if a `Gap` of its origin was told since and its acknowledgement says only that it is known",
        "which number it had is not in the trace",
        "If that broker has taken it before, it may be acknowledged without its number; a `Gap` that this broker's "
        "crash leaves may contain it.",
    )
    GONE_AGAIN = Ground(
        "a second `Gap` without an end that begins behind the first one, though nothing was delivered between them",
        "the origin was heard of in between, but had nothing for this subscription",
        "If the origin is gone again, another `Gap` begins where it was last heard of.",
    )
    TROUBLE_ELSEWHERE = Ground(
        "where there are scopes, or no links are named: a loss or a `Gap` as if the origin was gone, after a minute "
        "without ten seconds in which the subscriber's broker reached every other",
        "a trace does not say which broker is the authority",
        "Where there are scopes, a scope that its broker cannot get from the authority for a minute has the same "
        "effect, and to the checker any broker may be the authority.",
    )
    ORDER_AT_A_GATEWAY = Ground(
        "the order, where something crosses at a gateway and some scope is not ordered",
        "what takes a detour is overtaken",
        "Its order is never promised, unless the scope that it enters is `ordered`.",
    )
    ORDER_WITH_DELAYS = Ground(
        "the order, where a policy keeps something back for a while",
        "what waits is overtaken",
        "Where a policy delays, order is not promised.",
    )
    ORDER_WITH_CHOICES = Ground(
        "the order, where a policy gives something to one of several",
        "what goes by a deciding point is overtaken",
        "Where a policy chooses one of several, order is not promised.",
    )
    GAP_OF_A_CHOICE = Ground(
        "a `Gap` told to a member of a scope that chooses one of several, unless nothing has ever changed",
        "who decides may have died, or have come to be after something was published",
        "the members are told a `Gap` without an end that may contain things that have arrived.",
    )
    MAPPED_AND_DELAYED = Ground(
        "a `Gap` for what a policy kept back, if a mapping had changed it and the graph changed while it waited",
        "what was published is not there to be judged again",
        "unless a mapping has changed it and an edge of its way has changed meanwhile: then it is a `Gap`, "
        "also for somebody to whom the same form has come by another way, and another `Gap` may contain it if its "
        "origin crashes.",
    )
    ID_USED_AGAIN = Ground(
        "the same again for a new subscription under an id, if it or an earlier one of this id reached into the past",
        "it is another subscription",
        "A subscription that begins again under an id is a new one: if it or the earlier one reaches into the past, "
        "it may get again what the earlier one has got.",
    )
    DECIDED_APART = Ground(
        "a second member of a group that gets the same, if brokers were apart when the first one got it and the one "
        "that had decided so died since, or if it was in one of three parts and the two others became one without it",
        "who knows of the first one is dead, or in a third part",
        "If a part of the network is cut off, gives something to a member there, and the broker that decided so dies, "
        "another member may get it, too.",
    )
    PAST_INTERRUPTED = Ground(
        "the exact past, and its report, if the client lost or left its broker before all of it had come",
        "the rest comes as recovery, unmarked",
        "If its client loses or leaves its broker before all of the past has arrived, the rest follows, unmarked, and "
        "perhaps no report.",
    )
    PAST_CHANGED = Ground(
        "the exact past of a subscription whose filter was changed before what was under way had come",
        "which filter a broker judged by is not in the trace",
        "If its filter is changed meanwhile, the past is that of either filter, within the bound of either.",
    )
    PAST_OUT_OF_TIME = Ground(
        "a past whose timer ran out, if a fault happened or the subscription brought a timeout below ten seconds",
        "a strict past waits for everybody",
        "if its timer runs out first, it goes live with what has been found",
    )
    PAST_NOT_STRICT = Ground(
        "the exact past of a subscription that asked for best effort, and went on when it had enough",
        "it said that it does not want to wait",
        "a strict subscription into the [past](history.md)",
    )
    PAST_CAPPED = Ground(
        "the exact past beyond what one subscription may get",
        "its report says so",
        "Everything beyond `max_answer` is cut off, and the report says so.",
    )
    PAST_COPIES = Ground(
        "the exact past where something in it has several forms, or was taken by several brokers",
        "a bound counts forms, and which of the copies comes is not said",
        "If a publication has several forms, or was handed over again and taken by two brokers, it is not defined "
        "which of them count.",
    )
    PAST_LOST = Ground(
        "the past that a crash of its origin, or a `Gap` that was told, has taken",
        "it was in memory only",
        "Publications that an origin held only in memory are in no past after its crash.",
    )
    MERGED_IMPERFECTLY = Ground(
        "notifications that a merged filter lets through and nobody wants",
        "that is the bargain of imperfect merging",
        "mergers that may accept more, down to `precision`",
        "docs/architecture.md",
    )
    UNMENDED_SCOPES = Ground(
        "the invariants of brokers, where there are scopes and something stays broken for ever",
        "a change of the graph may be under way for ever",
        "While the authority cannot be reached, changes are refused and traffic continues under the graph as it is.",
    )


class Excuses(Counter[Excuse]):
    """How often each was used."""

    def grant(self, excuse: Excuse, found: Iterable[object]) -> None:
        """Let these pass."""
        self.update(excuse for _ in found)

    def __str__(self) -> str:
        """One line for people; empty if none was used."""
        return ", ".join(f"{excuse.name.lower()} {count}" for excuse, count in sorted(self.items(), key=_name))


def _name(used: tuple[Excuse, int]) -> str:
    return used[0].name
