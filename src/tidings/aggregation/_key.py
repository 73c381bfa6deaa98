"""From what is asked about to what is compared with subscriptions."""

from __future__ import annotations

from tidings.broker import MAX_COST, check_filter, check_place
from tidings.model import ROOT_SCOPE, AggregateError, Filter
from tidings.wire import checked_body

from ._counting import Key
from ._subject import Subject
from ._windows import is_question, question_of


def subject_of(aggregate: str, version: str, key: str, probe: bytes, scope: str) -> Subject:
    """The subject of a request, with its filter in canonical form; `TidingsError` if there cannot be one."""
    if scope != ROOT_SCOPE:
        raise AggregateError(f"scope '{scope:.80}': counts are kept for the root scope only; leave the scope out")
    if is_question(aggregate):
        if key or probe:
            raise AggregateError("a question has its own filter; write it as WHERE at its end")
        return Subject(question_of(aggregate).name, version, "", b"", scope)
    if probe:
        if key:
            raise AggregateError("a filter and a probe; give one of them")
        checked_body(probe)
        return Subject(aggregate, version, "", probe, scope)
    filter = Filter.parse(key or "TRUE", most=MAX_COST)
    check_filter(filter)
    check_place(filter)
    return Subject(aggregate, version, str(filter.canonical()), b"", scope)


def key_of(subject: Subject) -> Key:
    """What subscriptions are compared with."""
    if subject.probe:
        return Key(None, checked_body(subject.probe))
    return Key(Filter.parse(subject.key))
