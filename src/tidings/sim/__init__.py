"""A network of production brokers in virtual time, and the tools that judge what it did."""

from ._client import SimClient
from ._disk import SimDisk
from ._network import Network, SimRuntime, Weather
from ._scheduler import Scheduler
from ._trace import Op, Record, Trace

__all__ = ["Network", "Op", "Record", "Scheduler", "SimClient", "SimDisk", "SimRuntime", "Trace", "Weather"]
