"""The settings of aggregation."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ._riding import Riding
from ._shares import Policy
from .deploying import Signer


class Isolation(enum.Enum):
    """What must stand around code before it runs."""

    ONE = "one"
    """A filter of system calls; namespaces as well, where the system grants them."""
    BOTH = "both"
    """Both; where the system does not grant namespaces, no code runs."""


@dataclass(frozen=True, slots=True)
class AggregationOptions:
    """What a broker does for aggregates, and how much of it."""

    enabled: bool = True
    """Whether this broker answers questions, and contributes to those of others."""
    ride_within: float = 0.005
    """Seconds that an update waits for a message to ride on."""
    ride_on: Riding = Riding.EVERYTHING
    """On which messages updates ride."""
    share: Policy = Policy.UNIFORM
    """How the bounds of counts are divided: not `WHOLE`, since their errors add up."""
    max_keys: int = 100_000
    """The most subjects that are watched at this broker, by its clients or through it."""
    max_watches: int = 10_000
    """The most watches of all clients of one identity."""
    export: tuple[str, ...] = ()
    """What metrics show: names, each perhaps with a filter, and questions."""
    export_keys: int = 1_000
    """The most numbers that metrics show of it."""
    threshold: int = 5
    """Smaller numbers, but 0, are withheld from clients that are no administrators."""
    requests_per_minute: int = 60
    """How many watches the clients of one identity may begin in a minute, unless they are administrators."""
    identity: bool = False
    """Whether administrators may ask for the names of this broker's clients."""
    network: str = ""
    """What signatures call this network; it must have a name where there are signers."""
    signer: tuple[Signer, ...] = ()
    """Whose code this broker takes."""
    max_deployed: int = 100
    """The most versions of one tenant that run at a time."""
    deployments_per_second: float = 10.0
    """How often clients of this broker may deploy and end something of one tenant."""
    isolation: Isolation = Isolation.ONE
    """What must stand around code."""
    max_workers: int = 16
    """The most tenants whose code runs here: each has a process."""
    batch_seconds: float = 0.5
    """How long code may take for one batch of records."""
