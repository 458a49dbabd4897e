"""From raw counters to what a tick measured: the state of every counter of every port."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.counters import CUMULATIVE, CUMULATIVE_INDEX, GAUGE_INDEX, GAUGES
from collector.deltas import SATURATED, Step, line_limits, step
from collector.intervals import Intervals, Timing
from collector.measured import Measured
from collector.ports import PortTable
from collector.record import Batch, Bools, Floats, Int32s, UInt64s
from collector.rounds import Round, rounds

CLEARED_OFTEN: Final = 1.5
"""Resets (decaying by a tenth a sample) above which somebody else keeps clearing the counters."""

_FROZEN: Final = (("rx_bytes", "rx_packets"), ("tx_bytes", "tx_packets"))
_FROZEN_AFTER: Final = 3
_MOST: Final = GAUGE_INDEX["queue_peak_bytes"]
_MEAN: Final = GAUGE_INDEX["queue_bytes"]
_SPEED: Final = GAUGE_INDEX["speed_bps"]


class Rates:
    """Turns the batches of a tick into a `Measured`.

    State is arrays over (counters, ports). A rate is the increase of the samples that ended in this
    tick over the time that they spanned, never over the nominal interval; differences are taken in
    uint64 before any float. What happened to dropped or repaired values is counted in `events`.
    """

    def __init__(self, ports: PortTable) -> None:
        self._ports = ports
        self._intervals = Intervals()
        self._size = 0
        shape = (len(CUMULATIVE), 0)
        self._value: UInt64s = np.zeros(shape, np.uint64)
        self._anchor = np.zeros(shape, np.int64)
        self._total: UInt64s = np.zeros(shape, np.uint64)
        self._present: Bools = np.zeros(shape, np.bool_)
        self._suspect: UInt64s = np.zeros(shape, np.uint64)
        self._suspect_at = np.zeros(shape, np.int64)
        self._rate: Floats = np.full(shape, np.nan)
        self._resets = np.zeros(shape, np.float32)
        self._gauge: Floats = np.full((len(GAUGES), 0), np.nan)
        self._gauge_at = np.zeros((len(GAUGES), 0), np.int64)
        self._frozen = np.zeros((len(_FROZEN), 0), np.int16)
        self.events: Counter[str] = Counter()

    def update(
        self, batches: Sequence[Batch], time: int, seconds: float, nominal_bps: Floats
    ) -> Measured:
        """Take one tick's batches.

        time: ns, the end of the tick. seconds: its length. nominal_bps: (<=P,) line rates from the
        topology, NaN where unknown; a port's own `speed_bps` gauge goes before it.
        """
        self._grow(len(self._ports))
        self._intervals.begin(time, seconds)
        before = Counter(self.events)
        speed = self._speed(nominal_bps)
        increase = np.zeros_like(self._rate)
        span = np.zeros_like(self._rate)
        touched = np.zeros_like(self._present)
        fresh = np.zeros(self._size, np.bool_)
        for batch in sorted(batches, key=lambda batch: int(batch.time[0])):
            self._gauges(batch)
            for part in rounds(batch, self._intervals.fast(batch.port), self._base):
                fresh[part.port] = True
                self._round(part, speed, increase, span, touched)
        with np.errstate(invalid="ignore"):
            measured = increase / span * 1e9
        self._rate = np.where(span > 0, measured, np.where(touched, np.nan, self._rate))
        self._withhold_frozen()
        return self._measured(time, seconds, fresh, self.events - before)

    def _measured(self, time: int, seconds: float, fresh: Bools, events: Counter[str]) -> Measured:
        age, live = self._intervals.liveness(time, seconds)
        self._rate[:, ~live] = np.nan
        usual = np.nan_to_num(self._intervals.usual, nan=1.0)
        expired = time - self._gauge_at > (15e9 * usual + 5e9)
        gauges = np.where(expired | ~live, np.nan, self._gauge)
        # The totals are copied because the next tick goes on counting in place.
        return Measured(
            time=time,
            seconds=seconds,
            rates=self._rate,
            totals=self._total.copy(),
            present=self._present.copy(),
            gauges=gauges,
            fresh=fresh,
            live=live,
            age=age,
            interval=self._intervals.usual.copy(),
            events=events,
        )

    def _base(self, counters: NDArray[np.intp], port: Int32s) -> tuple[UInt64s, Bools]:
        """(counters, rows) the last accepted values, and whether there are any."""
        cells = np.ix_(counters, port)
        return self._value[cells], self._present[cells]

    def _round(
        self, part: Round, speed: Floats, increase: Floats, span: Floats, touched: Bools
    ) -> None:
        """Account for at most one row per port: (counters, rows) against the state."""
        port, cells = part.port, np.ix_(part.counters, part.port)
        seen = part.valid & self._present[cells]
        before = self._value[cells]
        changed = (seen & (part.values != before)).any(axis=0)
        fell = (seen & (part.values < before)).any(axis=0)
        timing = self._intervals.step(part, changed, fell)
        for reason, count in timing.events.items():
            self.events[reason] += count
        if not timing.keep.all():
            rows = np.flatnonzero(timing.keep)
            part, timing = part.select(rows), timing.select(rows)
            port, cells = part.port, np.ix_(part.counters, part.port)
            seen, before = part.valid & self._present[cells], self._value[cells]
        limit, unseen = line_limits(part.names, speed[port], timing.since_change, timing.slack)
        narrow = np.array([name in part.narrow for name in part.names])[:, None]
        verdict = step(before, part.values, seen, limit, narrow, unseen, timing.broken)
        verdict = self._suspects(verdict, part, cells, timing, speed)
        self._apply(verdict, part, cells, timing, increase, span, touched)

    def _suspects(
        self,
        verdict: Step,
        part: Round,
        cells: tuple[NDArray[np.intp], ...],
        timing: Timing,
        speed: Floats,
    ) -> Step:
        """Let a level that was called impossible, and then goes on plausibly, become the base."""
        if not verdict.impossible.any():
            return verdict
        suspect, at = self._suspect[cells], self._suspect_at[cells]
        waited = np.where(at > 0, timing.local[None, :] - at, 0)
        limit, _ = line_limits(part.names, speed[part.port], timing.since_change, timing.slack)
        stays = (
            verdict.impossible & (at > 0) & (waited > 0) & (part.values >= suspect)
            & (part.values - suspect <= limit)
        )  # fmt: skip
        self.events["level_shift"] += int(stays.sum())
        fresh = verdict.impossible & ~stays
        self._suspect[cells] = np.where(fresh, part.values, suspect)
        self._suspect_at[cells] = np.where(fresh, timing.local[None, :], np.where(stays, 0, at))
        return Step(
            delta=verdict.delta,
            counts=verdict.counts,
            measures=verdict.measures,
            rebase=verdict.rebase | stays,
            impossible=fresh,
            reset=verdict.reset,
            wrapped=verdict.wrapped,
            ambiguous=verdict.ambiguous,
            saturated=verdict.saturated,
        )

    def _apply(
        self,
        verdict: Step,
        part: Round,
        cells: tuple[NDArray[np.intp], ...],
        timing: Timing,
        increase: Floats,
        span: Floats,
        touched: Bools,
    ) -> None:
        """Write one round's verdict into the state and the tick's sums."""
        present = self._present[cells]
        first = part.valid & ~present & (part.values != SATURATED)
        moves = (verdict.rebase & ~timing.held[None, :]) | first
        self._total[cells] += np.where(verdict.counts, verdict.delta, np.uint64(0))
        resets = self._resets[cells]
        if verdict.reset.any() or resets.any():
            resets = np.where(
                part.valid & present, resets * np.float32(0.9) + verdict.reset, resets
            )
            self._resets[cells] = resets
        cleared = resets > CLEARED_OFTEN
        # A gap, or the first change after one, carries a backlog: it counts, but has no rate.
        usable = verdict.measures & ~timing.gap[None, :] & ~timing.held[None, :] & ~cleared
        elapsed = timing.local[None, :] - self._anchor[cells]
        increase[cells] += np.where(usable, verdict.delta, np.uint64(0)).astype(np.float64)
        span[cells] += np.where(usable, elapsed, 0)
        touched[cells] |= part.valid & ~usable & ~timing.held[None, :]
        self._value[cells] = np.where(moves, part.values, self._value[cells])
        self._anchor[cells] = np.where(moves, timing.local[None, :], self._anchor[cells])
        self._present[cells] = present | first
        settled = verdict.rebase & (self._suspect_at[cells] > 0)
        if settled.any():
            self._suspect_at[cells] = np.where(settled, 0, self._suspect_at[cells])
        self._count(verdict, cleared & verdict.measures)

    def _count(self, verdict: Step, cleared: Bools) -> None:
        for reason in ("impossible", "reset", "wrapped", "ambiguous", "saturated"):
            count = int(np.count_nonzero(getattr(verdict, reason)))
            if count:
                self.events[reason] += count
        if cleared.any():
            self.events["cleared_elsewhere"] += int(cleared.sum())

    def _withhold_frozen(self) -> None:
        """A byte counter that stands still while its packets go on is broken, not idle."""
        for row, (octets, packets) in enumerate(_FROZEN):
            rate = self._rate[CUMULATIVE_INDEX[octets]]
            stuck = (rate == 0) & (self._rate[CUMULATIVE_INDEX[packets]] > 10)
            count = np.where(stuck, np.minimum(self._frozen[row] + 1, _FROZEN_AFTER), 0)
            self._frozen[row] = count
            frozen = count >= _FROZEN_AFTER
            if frozen.any():
                rate[frozen] = np.nan
                self.events["frozen"] += int(frozen.sum())

    def _gauges(self, batch: Batch) -> None:
        """Keep each gauge's value of the tick; NaN says nothing and changes nothing."""
        for name, column in batch.gauges.items():
            row = GAUGE_INDEX[name]
            told = ~np.isnan(column)
            port, values, at = batch.port[told], column[told], batch.time[told]
            if row in (_MOST, _MEAN) and len(port):
                sums = np.bincount(port, values, self._size)
                most = np.full(self._size, -np.inf)
                np.maximum.at(most, port, values)
                number = np.bincount(port, minlength=self._size)
                named = number > 0
                joined = most if row == _MOST else sums / np.maximum(number, 1)
                self._gauge[row, named] = joined[named]
            else:
                self._gauge[row, port] = values
            self._gauge_at[row, port] = at

    def _speed(self, nominal_bps: Floats) -> Floats:
        """(P,) line rate in force: the port's own word first, then the topology's."""
        nominal = np.full(self._size, np.nan)
        nominal[: len(nominal_bps)] = nominal_bps[: self._size]
        own = self._gauge[_SPEED]
        # A speed of 0 is how devices say that they do not know it.
        return np.where(own > 0, own, nominal)

    def _grow(self, ports: int) -> None:
        """Room for new ports; doubling keeps the copying linear."""
        self._intervals.grow(ports)
        if ports <= self._size:
            return
        more = ports - self._size
        for name in ("_value", "_anchor", "_total", "_present", "_suspect", "_suspect_at"):
            setattr(self, name, _widen(getattr(self, name), more, 0))
        for name in ("_resets", "_gauge_at", "_frozen"):
            setattr(self, name, _widen(getattr(self, name), more, 0))
        for name in ("_rate", "_gauge"):
            setattr(self, name, _widen(getattr(self, name), more, np.nan))
        self._size = ports


def _widen(array: NDArray[np.generic], more: int, fill: float) -> NDArray[np.generic]:
    return np.pad(array, ((0, 0), (0, more)), constant_values=fill)
