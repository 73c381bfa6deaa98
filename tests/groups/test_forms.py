"""Groups that see a publication in several forms, by mappings at the edges of scopes."""

from __future__ import annotations

import pytest

from tidings.sim import Scenario


@pytest.mark.parametrize("name", ["gs9100000", "gs9100015", "gs9300759"])
def test_several_forms_of_one_publication_under_way_to_one_broker_stop_nobody(name: str) -> None:
    # Only that no broker stops is judged: the checker does not know yet what forms a group is owed.
    assert not [one for one in Scenario.named(name).run().violations if "FeatureError" in str(one)]
