"""One way to write each scalar: `3.0` and `3` are one value, so a canonical filter writes them alike."""

from __future__ import annotations

from ._values import INT_RANGE, Scalar


def plain(scalar: Scalar) -> Scalar:
    """The same value, as an int if that is not longer to write, else as a float.

    >>> plain(3.0), plain(2.5), plain(10**18)
    (3, 2.5, 1e+18)
    """
    if type(scalar) is float and scalar.is_integer() and int(scalar) in INT_RANGE:
        whole, broken = int(scalar), scalar
    elif type(scalar) is int and float(scalar) == scalar:
        whole, broken = scalar, float(scalar)
    else:
        return scalar
    return whole if len(repr(whole)) <= len(repr(broken)) else broken
