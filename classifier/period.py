"""The step period of a port, by autocorrelation of its recent activity."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from collector.record import Floats, Int64s

RESOLUTION: Final = 0.1
"""Seconds per cell of the history, whatever the tick is."""
CELLS: Final = 256
SHORTEST: Final = 0.3
"""Seconds; steps shorter than about three cells cannot be told from noise."""
REPEATS: Final = 2.5
"""How many periods the history must hold before one is believed."""
DIVISOR: Final = 0.85
"""A whole fraction of the best lag wins if it correlates at least this well relative to it."""
STRENGTH: Final = 0.3
"""Autocorrelation below which there is no period."""
BLOCK: Final = 1024
"""Columns that are worked on at once: what they need in between fits a cache."""
LAGS: Final = int((CELLS - 2) / REPEATS) + 2
"""Lags that can matter: the longest that the history holds often enough, and its neighbour."""
_TRANSFORM: Final = fft.next_fast_len(CELLS + LAGS, real=True)
"""Cells and zeros: long enough that no lag up to LAGS wraps around."""
_NS: Final = round(RESOLUTION * 1e9)
_MASK: Final = CELLS - 1
"""Cell numbers run on; CELLS is a power of two, so that a mask finds their place in the ring."""


class History:
    """Running volume of C columns at fixed points in time: a ring of CELLS cells of RESOLUTION.

    `total` is the (C,) volume up to each column's own `time` (ns, 0 before the first sample).
    """

    def __init__(self, columns: int) -> None:
        self.total = np.zeros(columns)
        self.time = np.zeros(columns, dtype=np.int64)
        self.began = np.zeros(columns, dtype=np.int64)
        self._ring = np.zeros((columns, CELLS), dtype=np.float64)

    def grow(self, columns: int) -> None:
        """Make room for further columns; they start without history."""
        extra = columns - len(self.total)
        self.total = np.pad(self.total, (0, extra))
        self.time = np.pad(self.time, (0, extra))
        self.began = np.pad(self.began, (0, extra))
        self._ring = np.pad(self._ring, ((0, extra), (0, 0)))

    def update(self, now: int, level: Floats, elapsed: Floats) -> None:
        """Take in (C,) levels that held for (C,) seconds up to `now`; 0 seconds: nothing new."""
        start = now - np.round(elapsed * 1e9).astype(np.int64)
        known = elapsed > 0
        newest = now // _NS
        cells = min(int(newest - (start.min(initial=now)) // _NS), CELLS)
        cell = newest - np.arange(cells)
        for first in range(0, len(level) if cells else 0, BLOCK):
            part = slice(first, first + BLOCK)
            since = (cell * _NS - start[part, None]) * 1e-9
            value = self.total[part, None] + level[part, None] * since
            ring = self._ring[part]
            within = known[part, None] & (since > 0)
            ring[:, cell & _MASK] = np.where(within, value, ring[:, cell & _MASK])
        self.total += level * elapsed
        self.began = np.where(known & (self.began == 0), start, self.began)
        self.time = np.where(known, now, self.time)

    def seconds(self) -> NDArray[np.float64]:
        """(C,) seconds of history."""
        return (self.time - self.began).astype(np.float64) * 1e-9

    def at(self, ago: Floats, columns: Int64s) -> NDArray[np.float64]:
        """(K, n) volume up to `ago` (K, n) seconds before the newest sample of n columns."""
        time, total = self.time[columns], self.total[columns]
        oldest = np.minimum(self.seconds()[columns], (CELLS - 2) * RESOLUTION)
        now = time * (1e-9 / RESOLUTION)
        place = now - np.minimum(np.maximum(ago, 0.0), oldest) / RESOLUTION
        cell = np.floor(place)
        newest = (time // _NS).astype(np.float64)
        number = cell.astype(np.int64)
        ring, row = self._ring.reshape(-1), columns * CELLS
        low = ring.take(row + (number & _MASK))
        high = ring.take(row + (number + 1 & _MASK))
        # The cell after the newest one is not written yet: the running total stands for it.
        last = cell >= newest
        share = np.where(last, (place - cell) / np.maximum(now - newest, 1e-9), place - cell)
        share = np.minimum(np.maximum(share, 0.0), 1.0)
        result: Floats = low + share * (np.where(last, total, high) - low)
        return result

    def levels(self, columns: Int64s) -> NDArray[np.float32]:
        """(columns, CELLS - 2) mean level per cell, oldest first; 0 before the history began."""
        newest = self.time[columns] // _NS
        order = (newest[:, None] - np.arange(CELLS - 2, -1, -1)) & _MASK
        volume = self._ring[columns[:, None], order]
        # Single precision is plenty for finding a peak, and half the work.
        step: NDArray[np.float32] = (np.diff(volume, axis=1) / RESOLUTION).astype(np.float32)
        held = np.minimum(self.seconds()[columns] / RESOLUTION, CELLS - 2).astype(np.int64) - 1
        step[np.arange(CELLS - 2) < (CELLS - 2 - held)[:, None]] = np.nan
        return step


def periods(levels: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Period in seconds and its autocorrelation, per row; (NaN, 0) where there is none.

    Rows are smoothed over 0.25 s first and the highest peak is taken, not the first high one: the
    first locks on the layers inside a step.
    """
    held = np.isfinite(levels)
    number = np.count_nonzero(held, axis=1, keepdims=True)
    count = np.maximum(number, 1).astype(np.float32)
    filled = np.where(held, levels, 0).astype(np.float32, copy=False)
    filled[:, 1:-1] = (filled[:, :-2] * 0.75 + filled[:, 1:-1] + filled[:, 2:] * 0.75) * 0.4
    filled *= held
    centred = (filled - filled.sum(axis=1, keepdims=True) / count) * held
    spectrum = fft.rfft(centred, _TRANSFORM, axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    lags = fft.irfft(power, _TRANSFORM, axis=1)[:, :LAGS]
    lag = np.arange(LAGS, dtype=np.float32)
    variance = lags[:, :1] / count
    overlap = np.maximum(count - lag, 1)
    ratio = lags / overlap / np.where(variance > 1e-12, variance, np.inf)
    peak = np.zeros_like(ratio, dtype=bool)
    peak[:, 1:-1] = (ratio[:, 1:-1] > ratio[:, :-2]) & (ratio[:, 1:-1] >= ratio[:, 2:])
    peak &= (lag * RESOLUTION >= SHORTEST) & (lag * REPEATS <= count)
    best = np.where(peak, ratio, -1.0).argmax(axis=1)
    row = np.arange(len(ratio))
    best = _fundamental(ratio, peak, best)
    middle = ratio[row, best]
    found = peak[row, best] & (middle >= STRENGTH)
    before, after = ratio[row, best - 1], ratio[row, np.minimum(best + 1, LAGS - 1)]
    bend = before - 2 * middle + after
    shift = np.where(bend < 0, 0.5 * (before - after) / np.where(bend < 0, bend, -1.0), 0.0)
    return (
        np.where(found, (best + shift.astype(np.float64)) * RESOLUTION, np.nan),
        np.where(found, np.minimum(middle, 1.0), 0.0).astype(np.float64),
    )


def _fundamental(
    ratio: Floats, peak: NDArray[np.bool_], best: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The smallest whole fraction of the best lag that is nearly as good a peak itself.

    Only whole fractions count: a step repeats at its multiples, a layer fits one by chance only.
    """
    row = np.arange(len(ratio))
    beside = np.arange(-1, 2)
    for divisor in range(2, 9):
        limit = DIVISOR * ratio[row, best]
        lag = np.maximum(np.rint(best / divisor).astype(np.intp)[:, None] + beside, 0)
        good = peak[row[:, None], lag] & (ratio[row[:, None], lag] >= limit[:, None])
        first = good.argmax(axis=1)
        best = np.where(good[row, first], lag[row, first], best)
    return best
