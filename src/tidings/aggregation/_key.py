"""From what is asked about to what is compared with subscriptions."""

from __future__ import annotations

from tidings.broker import MAX_COST, check_filter, check_place
from tidings.model import AggregateError, Filter
from tidings.wire import checked_body

from ._subject import Subject
from ._windows import is_question, question_of
from .definitions import Key

MAX_SCOPE = 1_000
"""The most characters of the name of a scope."""


def subject_of(aggregate: str, version: str, key: str, probe: bytes, scope: str, *, away: bool) -> Subject:
    """The subject of a request, with its filter in canonical form; `TidingsError` if there cannot be one."""
    if len(scope) > MAX_SCOPE:
        raise AggregateError(f"a scope with a name of {len(scope):,} characters; at most {MAX_SCOPE:,} are allowed")
    if is_question(aggregate):
        if key or probe:
            raise AggregateError("a question has its own filter; write it as WHERE at its end")
        if away:
            raise AggregateError("a question is about what is published, so nobody who is away counts; leave it out")
        return Subject(question_of(aggregate).name, version, "", b"", scope)
    if probe:
        if key:
            raise AggregateError("a filter and a probe; give one of them")
        checked_body(probe)
        return Subject(aggregate, version, "", probe, scope, away)
    filter = Filter.parse(key or "TRUE", most=MAX_COST)
    check_filter(filter)
    check_place(filter)
    return Subject(aggregate, version, str(filter.canonical()), b"", scope, away)


def key_of(subject: Subject) -> Key:
    """What subscriptions are compared with."""
    if subject.probe:
        return checked_body(subject.probe)
    return Filter.parse(subject.key)
