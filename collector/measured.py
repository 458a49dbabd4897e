"""What one tick measured on every port: the hand-over from rates to everything downstream."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.counters import CUMULATIVE_INDEX, GAUGE_INDEX
from collector.record import Bools, Floats, UInt64s


@dataclass(frozen=True, slots=True)
class Measured:
    """Columns over ports (P = number of interned ports); arrays are read-only for consumers.

    time: ns, end of the tick. seconds: length of the tick.
    rates: (counters, P) per second over the samples of this tick, row order `CUMULATIVE`; NaN where
        the port has no such counter or the tick brought no trustworthy value.
    totals: (counters, P) uint64, monotone: repaired for wraps and resets.
    present: (counters, P) the port has delivered this counter at least once.
    gauges: (gauges, P) value in this tick, row order `GAUGES`; NaN where unknown or stale. The mean
        of the tick's samples for `queue_bytes`, the largest for `queue_peak_bytes`, else the last.
    fresh: (P,) a sample arrived within this tick.
    live: (P,) the port is known and not stale; everything else about a dead port is meaningless.
    age: (P,) seconds from the port's last sample to the end of the tick, NaN if never.
    interval: (P,) seconds, the port's own usual sampling interval, NaN if not yet known.
    events: reason -> how many values this tick dropped or repaired (reset, wrap, duplicate, ...).
    """

    time: int
    seconds: float
    rates: Floats
    totals: UInt64s
    present: Bools
    gauges: Floats
    fresh: Bools
    live: Bools
    age: Floats
    interval: Floats
    events: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.live)

    def rate(self, name: str) -> NDArray[np.float64]:
        """(P,) per second of one canonical counter."""
        row: Floats = self.rates[CUMULATIVE_INDEX[name]]
        return row

    def total(self, name: str) -> NDArray[np.uint64]:
        """(P,) repaired running total of one canonical counter."""
        row: UInt64s = self.totals[CUMULATIVE_INDEX[name]]
        return row

    def gauge(self, name: str) -> NDArray[np.float64]:
        """(P,) last value of one canonical gauge."""
        row: Floats = self.gauges[GAUGE_INDEX[name]]
        return row
