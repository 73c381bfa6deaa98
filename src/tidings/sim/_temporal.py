"""Always, eventually, next: the specification of an event system as formulas over a trace.

A formula is judged at a position of a *word*, which is a trace whose every step knows what an outside observer knows
just before it: the active subscriptions of each client and what has been published. `[]P` holds if P holds at this
and every later position, `<>P` if at some, `oP` if at the next one; behind the last step lies the empty suffix, where
no action is. Quantified variables are bound by `when`: *if this step is such an action, then for it ...*, so
that a quantifier stands inside the temporal operators around it.

This is the definition, to be read beside spec and document. It takes quadratic time; `check` says the same in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tidings.model import Matches, Notification

from ._trace import Op, Record


class Moment(NamedTuple):
    """An action, and the observer's variables just before it."""

    action: Record
    subscriptions: Mapping[tuple[str, str], Matches]
    """S: the active subscriptions by (client, id)."""
    published: Mapping[tuple[str, int], Notification]
    """P: what was published, by (publisher, number)."""


Word: TypeAlias = Sequence[Moment]
Formula: TypeAlias = Callable[[Word, int], bool]


def word(records: Sequence[Record]) -> list[Moment]:
    """A trace with the observer's variables."""
    subscriptions: dict[tuple[str, str], Matches] = {}
    published: dict[tuple[str, int], Notification] = {}
    steps = []
    for record in records:
        steps.append(Moment(record, dict(subscriptions), dict(published)))
        if record.op is Op.SUB and record.filter is not None:
            subscriptions[record.component, record.subscription] = record.filter
        elif record.op is Op.UNSUB:
            subscriptions.pop((record.component, record.subscription), None)
        elif record.op is Op.PUB and record.notification is not None:
            published[record.publisher, record.publication] = record.notification
    return steps


# --- the operators ------------------------------------------------------------------------------------


def always(formula: Formula) -> Formula:
    """`[]P`: it holds at every suffix."""
    return lambda word, at: all(formula(word, later) for later in range(at, len(word)))


def eventually(formula: Formula) -> Formula:
    """`<>P`: it holds at some suffix."""
    return lambda word, at: any(formula(word, later) for later in range(at, len(word)))


def next_step(formula: Formula) -> Formula:
    """`oP`: it holds at the suffix without the first action."""
    return lambda word, at: formula(word, min(at + 1, len(word)))


def action(test: Callable[[Record], bool]) -> Formula:
    """The suffix starts with such an action."""
    return lambda word, at: at < len(word) and test(word[at].action)


def when(op: Op, body: Callable[[Record], Formula]) -> Formula:
    """For all variables of an action: if the suffix starts with it, the body holds for them."""
    return lambda word, at: at >= len(word) or word[at].action.op is not op or body(word[at].action)(word, at)


def negation(formula: Formula) -> Formula:
    """It does not hold."""
    return lambda word, at: not formula(word, at)


def both(*formulas: Formula) -> Formula:
    """All of them hold."""
    return lambda word, at: all(formula(word, at) for formula in formulas)


def either(*formulas: Formula) -> Formula:
    """At least one of them holds."""
    return lambda word, at: any(formula(word, at) for formula in formulas)


# --- the simple event system ----------------------------------------------------------------------------


def _the_same(notify: Record) -> Formula:
    who = (notify.component, notify.subscription, notify.publisher, notify.publication)
    return action(lambda r: r.op is Op.NOTIFY and (r.component, r.subscription, r.publisher, r.publication) == who)


def _was_published(notify: Record) -> Formula:
    key = (notify.publisher, notify.publication)
    return lambda word, at: word[at].published.get(key) == notify.notification is not None


def _is_wanted(notify: Record) -> Formula:
    def wanted(word: Word, at: int) -> bool:
        filter = word[at].subscriptions.get((notify.component, notify.subscription))
        return filter is not None and notify.notification is not None and filter.matches(notify.notification)

    return wanted


def _reaches(settled: Record, publication: Record) -> Formula:
    return action(
        lambda r: (
            r.op is Op.NOTIFY
            and (r.component, r.subscription) == (settled.component, settled.subscription)
            and (r.publisher, r.publication) == (publication.publisher, publication.publication)
        )
    )


def _passes(settled: Record, publication: Record) -> Formula:
    def passes(word: Word, at: int) -> bool:
        filter = word[at].subscriptions.get((settled.component, settled.subscription))
        return filter is not None and publication.notification is not None and filter.matches(publication.notification)

    return passes


def _is_ended(settled: Record) -> Formula:
    return action(
        lambda r: r.op is Op.UNSUB and (r.component, r.subscription) == (settled.component, settled.subscription)
    )


SAFETY: Formula = always(
    when(
        Op.NOTIFY,
        lambda notify: both(
            next_step(always(negation(_the_same(notify)))),
            _was_published(notify),
            _is_wanted(notify),
        ),
    )
)
"""`[](notify(Y,n) => o[] not notify(Y,n) and n in P and some F in S_Y passes n)`"""

LIVENESS: Formula = always(
    when(
        Op.SETTLED,
        lambda settled: either(
            always(
                when(
                    Op.PUB,
                    lambda publication: either(
                        negation(_passes(settled, publication)), eventually(_reaches(settled, publication))
                    ),
                )
            ),
            eventually(_is_ended(settled)),
        ),
    )
)
"""`[](sub(Y,F) => <>[] for all X,n: (pub(X,n) and F passes n => <>notify(Y,n)) or <>unsub(Y,F))`

A finite trace shows where the `<>` in front of `[]` is fulfilled: at the step `settled(Y,F)`."""


def satisfies(records: Sequence[Record], formula: Formula) -> bool:
    """Return whether a trace, from its beginning, satisfies a formula."""
    return formula(word(records), 0)
