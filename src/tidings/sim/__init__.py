"""A network of production brokers in virtual time, and the tools that judge what it did."""

from . import _topologies as topologies
from ._actions import Action, Verb, take
from ._census import Census, State
from ._checker import Checker, check
from ._client import SimClient
from ._closed_loop import ClosedLoop
from ._contracts import Anomaly, broadcast, kafka
from ._disk import SimDisk
from ._excuses import Excuse, Excuses
from ._fault_plan import Fault, Trouble
from ._invariants import broken_invariants, overgrown, waste
from ._network import Network, NeverQuiet
from ._observer import Violation
from ._oracles import Delivery, delivered, flat, necessary_links
from ._pipes import Weather
from ._promises import Outcome, PromiseError, Promises
from ._reality import OutsideWorld
from ._runtime import SimRuntime
from ._scenario import Result, Scenario
from ._scheduler import Scheduler
from ._search import Finding, Search
from ._service import Service, Workplace
from ._temporal import LIVENESS, SAFETY, satisfies
from ._topologies import Shape
from ._trace import Op, Record, Trace, describe
from ._trace_file import read as read_trace
from ._world import BrokenPromises, NeverEnds, StandingFaults, World

__all__ = [
    "LIVENESS",
    "SAFETY",
    "Action",
    "Anomaly",
    "BrokenPromises",
    "Census",
    "Checker",
    "ClosedLoop",
    "Delivery",
    "Excuse",
    "Excuses",
    "Fault",
    "Finding",
    "Network",
    "NeverEnds",
    "NeverQuiet",
    "Op",
    "Outcome",
    "OutsideWorld",
    "PromiseError",
    "Promises",
    "Record",
    "Result",
    "Scenario",
    "Scheduler",
    "Search",
    "Service",
    "Shape",
    "SimClient",
    "SimDisk",
    "SimRuntime",
    "StandingFaults",
    "State",
    "Trace",
    "Trouble",
    "Verb",
    "Violation",
    "Weather",
    "Workplace",
    "World",
    "broadcast",
    "broken_invariants",
    "check",
    "delivered",
    "describe",
    "flat",
    "kafka",
    "necessary_links",
    "overgrown",
    "read_trace",
    "satisfies",
    "take",
    "topologies",
    "waste",
]
