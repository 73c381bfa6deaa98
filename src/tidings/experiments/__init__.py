"""The documents' experiments, and what their results are compared with."""

from .side_by_side import Client, System, World

__all__ = ["Client", "System", "World"]
