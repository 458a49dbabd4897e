"""The newest value of every gauge of every port."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from collector.counters import GAUGE_INDEX, GAUGES
from collector.record import Batch, Bools, Floats, Int32s

_MOST: Final = GAUGE_INDEX["queue_peak_bytes"]
_MEAN: Final = GAUGE_INDEX["queue_bytes"]


class Gauges:
    """Arrays of (gauges, ports), row order `GAUGES`: the value, and when it was told."""

    def __init__(self) -> None:
        self._value: Floats = np.full((len(GAUGES), 0), np.nan)
        self._at = np.zeros((len(GAUGES), 0), np.int64)

    def grow(self, ports: int) -> None:
        """Room for `ports` ports."""
        more = ports - self._value.shape[1]
        if more > 0:
            self._value = np.pad(self._value, ((0, 0), (0, more)), constant_values=np.nan)
            self._at = np.pad(self._at, ((0, 0), (0, more)))

    def newest(self, name: str) -> Floats:
        """(P,) the last value told, however old; NaN where there was none."""
        row: Floats = self._value[GAUGE_INDEX[name]]
        return row

    def values(self, time: int, live: Bools, usual: Floats) -> Floats:
        """(gauges, P) values that still hold at `time` (ns).

        usual: (P,) seconds between samples. A gauge that has not been told for fifteen of them is
        no longer known.
        """
        patience = 15e9 * np.where(np.isnan(usual), 1.0, usual) + 5e9
        return np.where((time - self._at > patience) | ~live, np.nan, self._value)

    def update(self, batches: Sequence[Batch]) -> None:
        """Take a tick's batches; NaN says nothing and changes nothing."""
        for name in sorted({name for batch in batches for name in batch.gauges}):
            row = GAUGE_INDEX[name]
            parts = [batch for batch in batches if name in batch.gauges]
            values = np.concatenate([batch.gauges[name] for batch in parts])
            port = np.concatenate([batch.port for batch in parts])
            time = np.concatenate([batch.time for batch in parts])
            told = np.isfinite(values) & (time >= self._at[row, port])
            if (time[1:] < time[:-1]).any():
                order = np.argsort(time, kind="stable")
                values, port, time, told = values[order], port[order], time[order], told[order]
            values, port, time = values[told], port[told], time[told]
            if row in (_MOST, _MEAN):
                named, joined = self._joined(row, port, values)
                self._value[row, named] = joined
            else:
                self._value[row, port] = values
            self._at[row, port] = np.maximum(self._at[row, port], time)

    def _joined(self, row: int, port: Int32s, values: Floats) -> tuple[Bools, Floats]:
        """Which ports have the gauge in this tick, and their largest or mean value."""
        size = self._value.shape[1]
        number = np.bincount(port, minlength=size)
        named = number > 0
        if row == _MEAN:
            return named, np.bincount(port, values, size)[named] / number[named]
        most = np.full(size, -np.inf)
        np.maximum.at(most, port, values)
        return named, most[named]
