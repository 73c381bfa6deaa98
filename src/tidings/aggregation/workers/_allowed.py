"""What code of tenants may import."""

from __future__ import annotations

ALLOWED = (
    *("bisect", "collections", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "hashlib"),
    *("heapq", "itertools", "json", "math", "operator", "re", "statistics", "string", "typing"),
    *("tidings.aggregation.definitions", "tidings.model"),
)
"""The modules that code of a tenant may import: they are loaded before the walls go up."""
