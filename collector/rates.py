"""From raw counters to what a tick measured: the state of every counter of every port."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.block import Block, join
from collector.counters import CUMULATIVE, CUMULATIVE_INDEX
from collector.deltas import SATURATED, Step, line_limits, step
from collector.gauges import Gauges
from collector.intervals import Intervals, Timing
from collector.measured import Measured
from collector.record import Batch, Bools, Floats, Int32s, Int64s, UInt64s
from collector.refresh import reach_back
from collector.rounds import rounds
from collector.topology import speed_in_force

CLEARED_OFTEN: Final = 1.5
"""Resets (decaying by a tenth a sample) above which somebody else keeps clearing the counters."""

DOUBTED: Final = 3
"""Steps beyond the line rate, each rising further, after which a port's speed is not believed."""

FORGOTTEN: Final = 0.01
"""Decayed resets below this are as good as none."""

_FROZEN: Final = (("rx_bytes", "rx_packets"), ("tx_bytes", "tx_packets"))
_FROZEN_AFTER: Final = 3
_BACKLOG_NS: Final = 3_000_000_000


@dataclass(frozen=True, slots=True)
class _Sums:
    """A tick's increases and the ns they took, per counter and port, and what spoilt a rate."""

    increase: Floats
    span: Floats
    spoilt: Bools

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> "_Sums":
        return cls(np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_))


class Rates:
    """Turns the batches of a tick into a `Measured`.

    State is arrays over (counters, ports). A rate is the increase of the samples that ended in this
    tick over the time that they spanned, never over the nominal interval; differences are taken in
    uint64 before any float. What happened to dropped or repaired values is counted in `events`.
    """

    def __init__(self) -> None:
        self._intervals = Intervals()
        self._size = 0
        shape = (len(CUMULATIVE), 0)
        self._value: UInt64s = np.zeros(shape, np.uint64)
        self._anchor = np.zeros(shape, np.int64)
        self._total: UInt64s = np.zeros(shape, np.uint64)
        self._present: Bools = np.zeros(shape, np.bool_)
        self._suspect: UInt64s = np.zeros(shape, np.uint64)
        self._suspect_at = np.zeros(shape, np.int64)
        self._backlog_until = np.zeros(shape, np.int64)
        self._rate: Floats = np.full(shape, np.nan)
        self._resets = np.zeros(shape, np.float32)
        self._gauges = Gauges()
        self._frozen = np.zeros((len(_FROZEN), 0), np.int16)
        self._doubt = np.zeros((1, 0), np.int8)
        self._odd = False
        self.events: Counter[str] = Counter()

    def update(
        self, batches: Sequence[Batch], time: int, seconds: float, nominal_bps: Floats
    ) -> Measured:
        """Take one tick's batches.

        time: ns, the end of the tick. seconds: its length. nominal_bps: (P,) line rates from the
        topology, NaN where unknown; a port's own `speed_bps` gauge goes before it.
        """
        seen = [int(batch.port.max()) + 1 for batch in batches]
        self._grow(max([len(nominal_bps), *seen]))
        self._intervals.begin(time, seconds)
        before = Counter(self.events)
        self._gauges.update(batches)
        speed = self._speed(nominal_bps)
        # The rates of the tick before belong to its consumers; they are never written again.
        self._rate = self._rate.copy()
        fresh = np.zeros(self._size, np.bool_)
        if batches:
            block, twice = join(batches)
            self._count_event("duplicate", twice)
            fresh[block.port] = True
            self._account(block, speed)
        return self._measured(time, seconds, fresh, self.events - before)

    def _account(self, block: Block, speed: Floats) -> None:
        """All rows of a tick, and then the rates of the counters that they hold."""
        sums = _Sums.zeros((len(block.counters), self._size))
        for part in rounds(block, self._intervals.fast(block.port), self._base):
            self._round(part, speed, sums)
        known = sums.span > 0
        with np.errstate(invalid="ignore"):
            measured = sums.increase / sums.span * 1e9
        old = np.where(sums.spoilt, np.nan, self._rate[block.counters])
        self._rate[block.counters] = np.where(known, measured, old)
        self._withhold_frozen({name: known[row] for row, name in enumerate(block.names)})

    def _measured(self, time: int, seconds: float, fresh: Bools, events: Counter[str]) -> Measured:
        age, live = self._intervals.liveness(time, seconds)
        self._rate[:, ~live] = np.nan
        # The totals are copied because the next tick goes on counting in place.
        return Measured(
            time=time,
            seconds=seconds,
            rates=self._rate,
            totals=self._total.copy(),
            present=self._present.copy(),
            gauges=self._gauges.values(time, live, self._intervals.usual),
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

    def _round(self, part: Block, speed: Floats, sums: _Sums) -> None:
        """Account for at most one row per port: (counters, rows) against the state."""
        port, cells = part.port, np.ix_(part.counters, part.port)
        seen = part.valid & self._present[cells]
        before, anchor = self._value[cells], self._anchor[cells]
        newest = np.where(seen, anchor, 0).max(axis=0, initial=0)
        changed = (seen & (part.values != before)).any(axis=0)
        fell = (seen & (part.values < before)).any(axis=0)
        timing = self._intervals.step(part, changed, fell, newest)
        for reason, count in timing.events.items():
            self._count_event(reason, count)
        if not timing.keep.all():
            rows = np.flatnonzero(timing.keep)
            part, timing = part.select(rows), timing.select(rows)
            port, cells = part.port, np.ix_(part.counters, part.port)
            seen, before, anchor = seen[:, rows], before[:, rows], anchor[:, rows]
        elapsed = timing.local - anchor
        limit, unseen = line_limits(part.names, speed[port], elapsed / 1e9, timing.slack)
        if not (self._odd or timing.odd or fell.any() or part.narrow.any()):
            delta = np.where(seen, part.values - before, np.uint64(0))
            if not (delta > limit).any() and not (part.valid & ~seen).any():
                measured = seen & ~timing.held
                self._advance(part, cells, timing, delta, np.where(measured, elapsed, 0), sums)
                return
        limit, elapsed = reach_back(part, seen, before, limit, elapsed, timing, speed[port])
        verdict = step(before, part.values, seen, limit, part.narrow, unseen, timing.broken)
        verdict = self._suspects(verdict, part, cells, timing, speed)
        self._apply(verdict, part, cells, timing, elapsed, sums)

    def _advance(
        self,
        part: Block,
        cells: tuple[NDArray[np.intp], ...],
        timing: Timing,
        delta: UInt64s,
        elapsed: Int64s,
        sums: _Sums,
    ) -> None:
        """Nothing odd happened and nothing odd is remembered: every counter only went on.

        delta, elapsed: (counters, rows), both 0 where there is no reading or it is held.
        """
        self._total[cells] += delta
        self._value[cells] += delta
        sums.increase[:, part.port] += delta
        sums.span[:, part.port] += elapsed
        self._anchor[cells] = np.where(elapsed > 0, timing.local, self._anchor[cells])

    def _suspects(
        self,
        verdict: Step,
        part: Block,
        cells: tuple[NDArray[np.intp], ...],
        timing: Timing,
        speed: Floats,
    ) -> Step:
        """Let a level that was called impossible, and then goes on plausibly, become the base."""
        if not verdict.impossible.any():
            return verdict
        suspect, at = self._suspect[cells], self._suspect_at[cells]
        waited = np.where(at > 0, timing.local[None, :] - at, 0)
        limit, _ = line_limits(part.names, speed[part.port], waited / 1e9, timing.slack)
        stays = (
            verdict.impossible & (at > 0) & (waited > 0) & (part.values >= suspect)
            & (part.values - suspect <= limit)
        )  # fmt: skip
        self.events["level_shift"] += int(stays.sum())
        fresh = verdict.impossible & ~stays
        self._doubt_speed(part.port, fresh & (at > 0) & (part.values > suspect))
        self._suspect[cells] = np.where(fresh, part.values, suspect)
        self._suspect_at[cells] = np.where(fresh, timing.local[None, :], np.where(stays, 0, at))
        return replace(verdict, rebase=verdict.rebase | stays, impossible=fresh)

    def _doubt_speed(self, port: Int32s, beyond: Bools) -> None:
        """Counters that go on rising faster than the line can carry prove the speed wrong.

        Some are wrong by nature: a shaper limits only what leaves the port.
        """
        doubt = self._doubt[0, port]
        doubted = np.minimum(doubt + beyond.any(axis=0), DOUBTED).astype(np.int8)
        self._doubt[0, port] = doubted
        self._count_event("speed_doubted", int(((doubted == DOUBTED) & (doubt < DOUBTED)).sum()))

    def _apply(
        self,
        verdict: Step,
        part: Block,
        cells: tuple[NDArray[np.intp], ...],
        timing: Timing,
        elapsed: Int64s,
        sums: _Sums,
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
        backlog = self._backlog(part, cells, timing)
        usable = verdict.measures & ~backlog & ~timing.held[None, :] & ~cleared
        port = part.port
        sums.increase[:, port] += np.where(usable, verdict.delta, np.uint64(0))
        sums.span[:, port] += np.where(usable, elapsed, 0)
        sums.spoilt[:, port] |= part.valid & ~usable & ~timing.held[None, :]
        self._value[cells] = np.where(moves, part.values, self._value[cells])
        self._anchor[cells] = np.where(moves, timing.local[None, :], self._anchor[cells])
        self._present[cells] = present | first
        settled = verdict.rebase & (self._suspect_at[cells] > 0)
        if settled.any():
            self._suspect_at[cells] = np.where(settled, 0, self._suspect_at[cells])
        self._count(verdict, cleared & verdict.measures)
        self._odd = bool(
            self._suspect_at.any() or self._backlog_until.any() or (self._resets > FORGOTTEN).any()
        )

    def _backlog(self, part: Block, cells: tuple[NDArray[np.intp], ...], timing: Timing) -> Bools:
        """(counters, rows) the increase is what piled up during a gap: it counts, without a rate.

        The first reading after a gap may still be the old one, so the first change soon after is
        backlog as well.
        """
        until = self._backlog_until[cells]
        if not (timing.gap.any() or until.any()):
            return np.zeros_like(part.valid)
        backlog: Bools = timing.gap[None, :] | (timing.local[None, :] <= until)
        moved = part.valid & (part.values != self._value[cells])
        opened = np.where(timing.gap, timing.local + _BACKLOG_NS, 0)[None, :]
        over = moved | (timing.local > np.maximum(until, opened))
        self._backlog_until[cells] = np.where(over, 0, np.maximum(until, opened))
        return backlog

    def _count_event(self, reason: str, count: int) -> None:
        if count:
            self.events[reason] += count

    def _count(self, verdict: Step, cleared: Bools) -> None:
        for reason in ("impossible", "reset", "wrapped", "ambiguous", "saturated", "jitter"):
            self._count_event(reason, int(np.count_nonzero(getattr(verdict, reason))))
        self._count_event("cleared_elsewhere", int(cleared.sum()))

    def _withhold_frozen(self, known: Mapping[str, Bools]) -> None:
        """A byte counter that stands still while its packets go on is broken, not idle."""
        for row, (octets, packets) in enumerate(_FROZEN):
            if octets not in known or packets not in known:
                continue
            rate = self._rate[CUMULATIVE_INDEX[octets]]
            stuck = (rate == 0) & (self._rate[CUMULATIVE_INDEX[packets]] > 10)
            if not (stuck.any() or self._frozen[row].any()):
                continue
            told = known[octets]
            longer = np.minimum(self._frozen[row] + 1, _FROZEN_AFTER)
            self._frozen[row] = np.where(told, np.where(stuck, longer, 0), self._frozen[row])
            frozen = told & (self._frozen[row] >= _FROZEN_AFTER)
            rate[self._frozen[row] >= _FROZEN_AFTER] = np.nan
            self._count_event("frozen", int(frozen.sum()))

    def _speed(self, nominal_bps: Floats) -> Floats:
        """(P,) line rate in force: the port's own word first, then the topology's."""
        nominal = np.full(self._size, np.nan)
        nominal[: len(nominal_bps)] = nominal_bps
        known = speed_in_force(self._gauges.newest("speed_bps"), nominal)
        return np.where(self._doubt[0] >= DOUBTED, np.nan, known)

    def _grow(self, ports: int) -> None:
        """Room for new ports, at most once a tick however many came."""
        self._intervals.grow(ports)
        self._gauges.grow(ports)
        if ports <= self._size:
            return
        more = ports - self._size
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray):
                fill = np.nan if name == "_rate" else 0
                setattr(self, name, np.pad(array, ((0, 0), (0, more)), constant_values=fill))
        self._size = ports
