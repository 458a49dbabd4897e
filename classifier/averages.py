"""Exponentially weighted means over several time constants at once, on whole columns."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.record import Floats

SECONDS: Final[tuple[float, ...]] = (0.25, 1.0, 3.0, 10.0, 30.0)
"""Time constants of the means, in seconds; never in samples or ticks."""
BLOCK: Final = 4096
"""Columns that are moved on at once: what they need in between fits a cache."""


class Averages:
    """Means of K signals over the time constants SECONDS, for C columns.

    A mean over the time constant tau moves by 1 - exp(-dt/tau) of the difference, which is exact
    for a signal that is constant over dt, whatever dt is. Means are divided by the weight that
    has come in so far, so that the first seconds are not pulled towards zero.
    """

    def __init__(self, signals: int, columns: int) -> None:
        self._sum = np.zeros((len(SECONDS), signals, columns))
        self._weight = np.zeros((len(SECONDS), columns))
        self._tau = np.array(SECONDS)[:, None]

    def grow(self, columns: int) -> None:
        """Make room for further columns; they start without history."""
        extra = columns - self._weight.shape[1]
        self._sum = np.pad(self._sum, ((0, 0), (0, 0), (0, extra)))
        self._weight = np.pad(self._weight, ((0, 0), (0, extra)))

    def update(self, signals: Floats, elapsed: Floats) -> None:
        """Take in (K, C) signals that held for (C,) seconds; 0 seconds leaves a column as it is."""
        for start in range(0, len(elapsed), BLOCK):
            part = slice(start, start + BLOCK)
            step = -np.expm1(-elapsed[part] / self._tau)
            move = signals[:, part] - self._sum[:, :, part]
            move *= step[:, None, :]
            self._sum[:, :, part] += move
            self._weight[:, part] += step * (1.0 - self._weight[:, part])

    def means(self, columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """(time constants, K, n) means of some columns; 0 before the first sample."""
        weight = self._weight.take(columns, axis=1)
        means: Floats = self._sum.take(columns, axis=2)
        means /= np.where(weight > 0, weight, 1.0)[:, None, :]
        return means

    def mean(self, constant: int, signal: int) -> NDArray[np.float64]:
        """(C,) means of one signal over one time constant."""
        weight = self._weight[constant]
        means: Floats = self._sum[constant, signal] / np.where(weight > 0, weight, 1.0)
        return means
