"""What the model sees of a port: dimensionless features, kept up tick by tick on whole columns.

Rates are shares of the line rate, times are in seconds or in the port's own step periods, volumes
are relative to the port's own bursts or steps. Nothing is counted in samples or ticks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from classifier.averages import Averages
from classifier.bursts import ROW, Bursts, fields
from classifier.labels import IDLE_UTILIZATION
from classifier.names import LOOK_AHEAD, LOOK_BACK, NAMES, POOLED
from classifier.period import BLOCK, History, periods
from collector.measured import Measured
from collector.record import Bools, Floats

SIGNALS: Final = ("level", "lean", "skew", "active", "square", "starts", "change")
ACTIVE_SHARE: Final = 0.05
"""A port is active above this share of its own peak, and never below the idle limit."""
PEAK_SECONDS: Final = 60.0
SHORT_GAP: Final = 0.09
LONG_GAP: Final = 0.4
LONG_GAP_PERIODS: Final = 0.15
REFRESH_SECONDS: Final = 5.0
"""Every column's period is looked for anew this often, a slice of the columns at a time."""
BOUND: Final = 100.0
"""Only odd ratios reach it, such as a share of a pool that is all but silent."""
_TINY: Final = 1e-6

# Rows of the burst columns, in the order of `classifier.names`, and the burst fields behind them.
BURST_COLUMNS: Final = 16
_LOGS: Final = [0, 1, 2, 7, 8, 12]
_VALUES: Final = fields("volume", "volume", "last_volume", "gap", "gap", "length")
_AGAINST: Final = fields(
    "last_volume", "volume_mean", "volume_mean", "last_gap", "gap_mean", "last_length"
)
_OF_STEP: Final = [3, 4, 15]
_VOLUMES: Final = fields("volume", "last_volume", "volume_mean")
_OF_PERIOD: Final = [9, 11, 14]
_TIMES: Final = fields("gap", "length", "gap_mean")
_LEANS: Final = [5, 6]
_TILTED: Final = fields("lean", "last_lean")


@dataclass(frozen=True, slots=True)
class Observed:
    """One tick's features.

    busier: (P,) utilisation of the busier direction, NaN where unknown. history: (P,) seconds of
    history. period: (P,) seconds, NaN where none was found. rows_of: gives the (n, F) float32
    features of n ports; until the next tick, since most ports are idle and nobody asks for theirs.
    """

    busier: Floats
    history: Floats
    period: Floats
    rows_of: Callable[[NDArray[np.intp]], NDArray[np.float32]]

    @property
    def rows(self) -> NDArray[np.float32]:
        """(P, F) features of all ports."""
        return self.rows_of(np.arange(len(self.busier)))


class Features:
    """Incremental features of all ports; column 0 is the pool, the mean port of the fabric."""

    def __init__(self) -> None:
        self._size = 1
        self._time = np.zeros(1, dtype=np.int64)
        self._out = np.full(1, np.nan)
        self._in = np.full(1, np.nan)
        self._flow = np.zeros((2, 1))
        self._level = np.zeros(1)
        self._peak = np.zeros(1)
        self._active = np.zeros(1, dtype=np.bool_)
        self._period = np.full(1, np.nan)
        self._strength = np.zeros(1)
        self._averages = Averages(len(SIGNALS), 1)
        self._bursts = Bursts(1)
        self._history = History(1)
        self._due = 0.0

    def update(
        self, measured: Measured, speed_bps: Floats, inward: Bools | None = None
    ) -> Observed:
        """Take in one tick.

        speed_bps: (P,) line rates, NaN where unknown. inward: (P,) True where tx runs towards the
        host (a switch port facing one), so that out always means: out of the host.
        """
        self._grow(len(measured) + 1)
        elapsed = self._take(measured, speed_bps, inward)
        self._pool(measured, elapsed)
        self._advance(measured, elapsed)
        self._find_periods(measured)
        return Observed(
            busier=np.maximum(self._out[1:], self._in[1:]),
            history=self._history.seconds()[1:],
            period=self._period[1:],
            rows_of=self._rows,
        )

    def _grow(self, size: int) -> None:
        """Make room for new ports, at most once a tick however many came."""
        if size <= self._size:
            return
        more = size - self._size
        for name in ("_out", "_in", "_period"):
            setattr(self, name, np.pad(getattr(self, name), (0, more), constant_values=np.nan))
        for name in ("_time", "_level", "_peak", "_active", "_strength"):
            setattr(self, name, np.pad(getattr(self, name), (0, more)))
        for part in (self._averages, self._bursts, self._history):
            part.grow(size)
        self._size = size

    def _take(self, measured: Measured, speed_bps: Floats, inward: Bools | None) -> Floats:
        """Read the tick into utilisations; returns (C,) seconds that each column moves on by."""
        with np.errstate(invalid="ignore", divide="ignore"):
            out = measured.rate("tx_bytes") * 8 / speed_bps
            inn = measured.rate("rx_bytes") * 8 / speed_bps
        if inward is not None:
            out, inn = np.where(inward, inn, out), np.where(inward, out, inn)
        known = measured.fresh & measured.live & np.isfinite(out) & np.isfinite(inn)
        since = np.where(self._time[1:] > 0, (measured.time - self._time[1:]) * 1e-9, 0.0)
        since = np.where(since > 0, since, measured.seconds)
        elapsed = np.zeros(self._size)
        elapsed[1:] = np.where(known, since, 0.0)
        self._time[1:] = np.where(measured.fresh, measured.time, self._time[1:])
        # A port that is not fresh keeps its last value; one without a value has none.
        seen = measured.fresh | ~measured.live
        self._out[1:] = np.where(seen, np.where(known, out, np.nan), self._out[1:])
        self._in[1:] = np.where(seen, np.where(known, inn, np.nan), self._in[1:])
        return elapsed

    def _pool(self, measured: Measured, elapsed: Floats) -> None:
        """Column 0: the mean over ports that carry traffic at all."""
        out, inn = self._out[1:], self._in[1:]
        used = np.isfinite(out) & (self._peak[1:] > IDLE_UTILIZATION)
        number = np.count_nonzero(used)
        if not number:
            self._out[0] = self._in[0] = 0.0
            return
        self._out[0] = out[used].mean()
        self._in[0] = inn[used].mean()
        elapsed[0] = measured.seconds

    def _advance(self, measured: Measured, elapsed: Floats) -> None:
        """Move every mean, burst and history on by one tick."""
        known = elapsed > 0
        self._flow = np.stack((self._out, self._in))
        self._flow[~np.isfinite(self._flow)] = 0.0
        out, inn = self._flow
        level, lean = (out + inn) / 2, (out - inn) / 2
        busier = np.maximum(out, inn)
        fade = np.exp(-elapsed / PEAK_SECONDS)
        self._peak = np.where(known, np.maximum(self._peak * fade, busier), self._peak)
        active = busier >= np.maximum(ACTIVE_SHARE * self._peak, IDLE_UTILIZATION)
        starts = known & active & ~self._active
        with np.errstate(divide="ignore", invalid="ignore"):
            rising = np.where(starts, 1.0 / elapsed, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.where(known, np.abs(level - self._level) / elapsed, 0.0)
        signals = np.stack((level, lean, np.abs(lean), active, level**2, rising, change))
        self._averages.update(signals, elapsed)
        long_gap = np.where(
            np.isfinite(self._period), np.maximum(LONG_GAP_PERIODS * self._period, 0.15), LONG_GAP
        )
        ends = np.stack((np.full(self._size, SHORT_GAP), long_gap))
        self._bursts.update(active, level * elapsed, lean * elapsed, elapsed, ends)
        self._history.update(measured.time, level, elapsed)
        self._active = np.where(known, active, self._active)
        self._level = np.where(known, level, self._level)

    def _find_periods(self, measured: Measured) -> None:
        """Look for the periods of the slice of columns whose turn it is."""
        # Few columns are cheaper in one go than in slices.
        pieces = max(1, min(20, self._size // 512))
        before, self._due = self._due, self._due + measured.seconds / REFRESH_SECONDS
        slots = np.arange(int(before * pieces), int(self._due * pieces))[:pieces] % pieces
        if not len(slots):
            return
        turn = np.sort(np.concatenate([np.arange(slot, self._size, pieces) for slot in slots]))
        turn = turn[(self._peak[turn] > IDLE_UTILIZATION) | (turn == 0)]
        for start in range(0, len(turn), BLOCK):
            part = turn[start : start + BLOCK]
            self._period[part], self._strength[part] = periods(self._history.levels(part))

    def _rows(self, ports: NDArray[np.intp]) -> NDArray[np.float32]:
        """(n, F) features of some ports; column 0 of each block below is the pool."""
        columns = np.concatenate(([0], ports + 1))
        means = self._averages.means(columns)
        own = np.concatenate(
            (
                self._scales(columns, means),
                self._burst_columns(columns, means),
                self._step_columns(columns),
            )
        )
        own = np.minimum(np.maximum(own, -BOUND), BOUND)
        rows = np.empty((len(ports), len(NAMES)), dtype=np.float32)
        rows[:, : len(own)] = own[:, 1:].T
        rows[:, len(own) : len(own) + len(POOLED)] = own[list(POOLED), 0]
        rows[:, len(own) + len(POOLED) :] = self._relative(columns, means).T
        return rows

    def _scales(self, columns: NDArray[np.intp], means: Floats) -> Floats:
        """The moment, and the means over the time constants."""
        level, lean, skew, active, square, starts, change = means.transpose(1, 0, 2)
        peak = np.maximum(self._peak[columns], _TINY)
        out, inn = self._flow.take(columns, axis=1)
        now = (out + inn) / 2
        level_or_tiny = level + _TINY
        return np.concatenate(
            (
                [now / peak, (out - inn) / (out + inn + _TINY), peak],
                level / peak,
                lean / level_or_tiny,
                skew / level_or_tiny,
                active,
                np.sqrt(np.maximum(square - level**2, 0)) / level_or_tiny,
                change[2:] / level_or_tiny[2:],
                starts[2:],
                level[:-1] / level_or_tiny[1:],
            )
        )

    def _burst_columns(self, columns: NDArray[np.intp], means: Floats) -> Floats:
        """Where the port is within its burst and block, against the ones before."""
        period = self._period[columns]
        period = np.where(np.isfinite(period), period, 3.0)
        step = np.maximum(means[3, 0] * period, _TINY)
        state = self._bursts.state.take(columns, axis=2)
        mean = np.maximum(state[ROW["volume_mean"]], _TINY)
        result = np.empty((BURST_COLUMNS, *mean.shape))
        result[_LOGS] = _log(state[_VALUES], state[_AGAINST])
        result[_OF_STEP] = state[_VOLUMES] / step
        result[_OF_PERIOD] = state[_TIMES] / period
        result[_LEANS] = state[_TILTED] / (state[_VOLUMES[:2]] + _TINY)
        result[10] = np.log(state[ROW["length"]] + 0.05)
        result[13] = np.sqrt(np.maximum(state[ROW["volume_square"]] - mean**2, 0)) / mean
        count, last = state[ROW["count"], 0], state[ROW["last_count"], 0]
        levels = result.transpose(1, 0, 2).reshape(2 * BURST_COLUMNS, -1)
        return np.concatenate((levels, np.stack((count, _log(count, last), last))))

    def _step_columns(self, columns: NDArray[np.intp]) -> Floats:
        """The step period, and what moved around the same place one step ago."""
        known = np.isfinite(self._period[columns])
        period = np.where(known, self._period[columns], 1.0)
        ago = np.concatenate(
            (
                [np.zeros(len(columns)), period],
                np.multiply.outer(np.array(LOOK_BACK), period),
                period - np.multiply.outer(np.array(LOOK_AHEAD), period),
            )
        )
        volume = self._history.at(ago, columns)
        last = np.maximum(volume[0] - volume[1], _TINY)
        back = (volume[0] - volume[2 : 2 + len(LOOK_BACK)]) / last
        ahead = (volume[2 + len(LOOK_BACK) :] - volume[1]) / last
        # What is still to come of a block, by the step before, against what the block has moved.
        blocks = self._bursts.field("volume", 1)[columns]
        parts = np.concatenate((back, ahead, ahead - back, [blocks / last]))
        period = np.where(known, np.log(period), 2.0)
        strength = self._strength[columns]
        return np.concatenate(([period, strength], np.where(known, parts, -1.0)))

    def _relative(self, columns: NDArray[np.intp], means: Floats) -> Floats:
        """These ports against the pool: their load, their level and their role."""
        level = means[:, 0]
        pooled = np.maximum(level[:, :1], _TINY)
        share = level[:, 1:] / pooled
        busiest = self._averages.mean(3, 0)[1:].max(initial=_TINY)
        out, inn = self._flow[:, columns[1:]]
        lean = (out - inn) / (out + inn + _TINY)
        # A server is busier than its workers, and its out is their in.
        role = np.where(share[3] > 1.5, -1.0, 1.0)
        fast = means[1, 1, 1:] / (level[1, 1:] + _TINY)
        other = np.stack(
            (
                *(share[1:4]),
                level[3, 1:] / busiest,
                np.broadcast_to(busiest / pooled[3, 0], share[3].shape),
                lean * role,
                fast * role,
            )
        )
        bounded: Floats = np.minimum(other, BOUND)
        return bounded


def _log(value: Floats, against: Floats) -> NDArray[np.float64]:
    """Logarithm of a ratio, bounded: 0 means equal."""
    ratio: Floats = np.log((value + 1e-4) / (against + 1e-4))
    return np.minimum(np.maximum(ratio, -4.0), 4.0)
