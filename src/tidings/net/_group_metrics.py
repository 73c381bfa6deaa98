"""What `tidings group show` says of each group that this broker decides for, as metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidings.wire import GroupStatus

MAX_GROUP_LABELS = 100
"""The most groups that are labelled by name, those that come first; the others are summed up."""
_LABELS = ("owner", "group", "acknowledged")
_OTHERS = ("", "(others)", "")

_GAUGES = {
    "members": "Members of a group.",
    "waiting": "What has come for a group, and is in the hands of no member.",
    "held": "What is in the hands of members of a group, or under way to them.",
}
_COUNTERS = {
    "taken": "What has come for a group.",
    "handled": "What members of a group have handled.",
    "redelivered": "Jobs that were given to a member another time.",
    "dead_letters": "Jobs that became dead letters.",
    "losses": "Losses that members of a group were told.",
}


def group_metrics(groups: Sequence[GroupStatus], is_hidden: Callable[[str], bool], now: int) -> Iterator[Metric]:
    """The metrics of these groups; those that belong to hidden scopes are summed up with those beyond the limit.

    `now` is in microseconds since 1970 UTC.
    """
    labelled: dict[tuple[str, str, str], list[GroupStatus]] = {}
    for group in groups:
        label = (group.owner, group.name, str(group.acknowledged).lower())
        scope = group.name.rpartition("/")[0]
        apart = len(labelled) < MAX_GROUP_LABELS and not (scope and is_hidden(scope))
        labelled.setdefault(label if apart else _OTHERS, []).append(group)
    for name, text in _GAUGES.items():
        gauge = GaugeMetricFamily(f"tidings_group_{name}", text, labels=_LABELS)
        for label, there in labelled.items():
            gauge.add_metric(label, sum(getattr(group, name) for group in there))
        yield gauge
    for name, text in _COUNTERS.items():
        counter = CounterMetricFamily(f"tidings_group_{name}", text, labels=_LABELS)
        for label, there in labelled.items():
            counter.add_metric(label, sum(getattr(group, name) for group in there))
        yield counter
    text = "For how long the oldest job has not been handled."
    oldest = GaugeMetricFamily("tidings_group_oldest_seconds", text, labels=_LABELS)
    for label, there in labelled.items():
        oldest.add_metric(label, _age(there, now))
    yield oldest
    yield GaugeMetricFamily("tidings_groups", "Groups that this broker decides for.", value=len(groups))


def _age(groups: Iterable[GroupStatus], now: int) -> float:
    return max([(now - group.oldest) / 1_000_000 for group in groups if group.oldest], default=0.0)
