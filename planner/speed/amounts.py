"""Numbers or arrays of them, with the same formulas: numpy is loaded only where arrays come in."""

from __future__ import annotations

from typing import Any

Amount = Any  # a number, or a numpy array of them; arrays broadcast


def larger(first: Amount, second: Amount) -> Amount:
    """The larger of two amounts, each for each in arrays."""
    if isinstance(first, float | int) and isinstance(second, float | int):
        return max(first, second)
    import numpy as np

    return np.maximum(first, second)


def smaller(first: Amount, second: Amount) -> Amount:
    """The smaller of two amounts, each for each in arrays."""
    if isinstance(first, float | int) and isinstance(second, float | int):
        return min(first, second)
    import numpy as np

    return np.minimum(first, second)
