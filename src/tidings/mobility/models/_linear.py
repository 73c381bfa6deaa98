"""Small systems of linear equations, by elimination with pivoting."""

from __future__ import annotations

from collections.abc import Sequence

from tidings.model import TidingsError

_SMALLEST_PIVOT = 1e-12

Matrix = Sequence[Sequence[float]]


def solve(matrix: Matrix, right: Sequence[float]) -> list[float]:
    """The x with matrix * x = right. Raises `TidingsError` if there is not exactly one."""
    size = len(right)
    rows = [[*map(float, row), float(value)] for row, value in zip(matrix, right, strict=True)]
    scale = max((abs(value) for row in rows for value in row[:size]), default=1.0) or 1.0
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        if abs(rows[pivot][column]) < _SMALLEST_PIVOT * scale:
            raise TidingsError("these equations have no single solution; give independent ones")
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for row in range(column + 1, size):
            factor = rows[row][column] / rows[column][column]
            if factor:
                for at in range(column, size + 1):
                    rows[row][at] -= factor * rows[column][at]
    found = [0.0] * size
    for row in reversed(range(size)):
        known = sum(rows[row][at] * found[at] for at in range(row + 1, size))
        found[row] = (rows[row][size] - known) / rows[row][row]
    return found


def stationary(rates: Matrix) -> list[float]:
    """The distribution pi with pi * rates = 0, for a matrix of rates whose rows sum to 0."""
    size = len(rates)
    equations = [[rates[row][column] for row in range(size)] for column in range(size - 1)]
    return solve([*equations, [1.0] * size], [0.0] * (size - 1) + [1.0])
