"""A network of production brokers in virtual time, and the tools that judge what it did."""

from . import _topologies as topologies
from ._census import Announcing, Census, Debt, Delivering, State
from ._checker import Checker, check
from ._client import SimClient
from ._disk import SimDisk
from ._excuses import Excuse, Excuses
from ._invariants import broken_invariants, overgrown, waste
from ._network import Network, NeverQuiet, SimRuntime, Weather
from ._observer import Violation
from ._oracles import Delivery, delivered, flat, necessary_links
from ._promises import Outcome, PromiseError, Promises
from ._scenario import Result, Scenario
from ._scheduler import Scheduler
from ._steps import Step, Verb, take
from ._temporal import LIVENESS, SAFETY, satisfies
from ._topologies import Shape
from ._trace import Op, Record, Trace, describe

__all__ = [
    "LIVENESS",
    "SAFETY",
    "Announcing",
    "Census",
    "Checker",
    "Debt",
    "Delivering",
    "Delivery",
    "Excuse",
    "Excuses",
    "Network",
    "NeverQuiet",
    "Op",
    "Outcome",
    "PromiseError",
    "Promises",
    "Record",
    "Result",
    "Scenario",
    "Scheduler",
    "Shape",
    "SimClient",
    "SimDisk",
    "SimRuntime",
    "State",
    "Step",
    "Trace",
    "Verb",
    "Violation",
    "Weather",
    "broken_invariants",
    "check",
    "delivered",
    "describe",
    "flat",
    "necessary_links",
    "overgrown",
    "satisfies",
    "take",
    "topologies",
    "waste",
]
