"""Plans of graphs with mappings of every kind: of scopes, and of clients whose memberships change, all is said."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from scopes.planning_world import outcome
from scopes.test_comparison import SAMPLES, Oracle, nodes, worlds

from tidings.model import Notification
from tidings.scopes import Doubt, Graph, Outcome, Pair, SightChange
from tidings.scopes._flow import Effort
from tidings.scopes._planning import THOROUGH_EFFORT, _Look


def between(entry: SightChange | Doubt) -> list[Pair]:
    """The pairs that an entry is about; those outside all scopes are one node here."""
    pairs = itertools.product(entry.sources or (entry.source,), entry.targets or (entry.target,))
    return [Pair(source, target) for source, target in pairs if source != target]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(mapped=True))
def test_everything_is_said_of_scopes_and_nothing_is_invented(world: tuple[Graph, Graph]) -> None:
    before, after = world
    look = _Look(before, after, Effort(THOROUGH_EFFORT), by_client=False)
    for _ in look.steps():
        pass
    assert not look.left
    old, new = Oracle(before), Oracle(after)

    def happens(pair: Pair, publication: Notification) -> Outcome | None:
        return outcome(set(old.forms(pair, publication)), set(new.forms(pair, publication)))

    known: dict[Pair, set[Outcome]] = {}
    for one in look.found:
        for pair in between(one):
            known.setdefault(pair, set()).add(one.outcome)
            assert happens(pair, Notification(dict(one.witness))) is one.outcome, one
    for doubt in look.doubts:
        for pair in between(doubt):
            known.setdefault(pair, set()).update(doubt.outcomes)
    for pair in itertools.starmap(Pair, itertools.permutations(nodes(before, after), 2)):
        for publication in SAMPLES:
            found = happens(pair, publication)
            assert found is None or found in known.get(pair, ()), f"{pair} {publication}: {found} was not said"
