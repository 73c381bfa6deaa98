"""Tidings: content-based publish/subscribe that remembers, moves and knows its borders."""

__version__ = "0.1.0.dev0"
