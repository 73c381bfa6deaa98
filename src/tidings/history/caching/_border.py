"""Border broker caching: the border broker remembers what its own clients want, and nobody else is asked.

When a client subscribes into the past, its border broker takes the subscription, looks up what it remembers and sends
it, in one turn: what is new comes behind it on the same link. So nothing is ever held, and nobody counts. Beyond the
border broker the subscription is a plain one. Inner brokers have a cache, too: they may become border brokers.
"""

from __future__ import annotations

from tidings.history._combinations import Requirement
from tidings.history._strategy_options import IndexScope
from tidings.wire import Ending

from ._access import Access
from ._gathering import Item
from ._provider import Question
from ._strategy import CachingStrategy, Changes


class BorderBrokerCaching(CachingStrategy):
    """The past that the border broker remembers."""

    kind = "border"
    requirements = frozenset({Requirement.FILTER_IDENTITY, Requirement.EVERY_SUBSCRIPTION, Requirement.CLOCKS})
    index_scope = IndexScope.ATTACHED

    def opened(self, access: Access, changes: Changes) -> None:
        """Deliver what is here."""
        found = self.cache.find(Question(filter=access.filter, limit=access.limit, since=access.since))
        access.old = [Item(cell.envelope, cell.link) for cell in found]
        access.finish(Ending.SATISFIED if access.is_satisfied else Ending.ANSWERED)
