"""The laws of definitions: tested by `tidings aggregate check`, and again by the broker that takes a deployment."""

from ._check import SECONDS, Checked, check, fingerprint

__all__ = ["SECONDS", "Checked", "check", "fingerprint"]
