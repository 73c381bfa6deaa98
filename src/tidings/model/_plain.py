"""One way to write each scalar: `3.0` and `3` are one value, so a canonical filter writes them alike."""

from __future__ import annotations

from ._values import INT_RANGE, Scalar


def plain(scalar: Scalar) -> Scalar:
    """The same value, as an int wherever it can be one.

    >>> plain(3.0), plain(2.5)
    (3, 2.5)
    """
    if type(scalar) is float and scalar.is_integer() and int(scalar) in INT_RANGE:
        return int(scalar)
    return scalar
