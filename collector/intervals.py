"""The time between a port's samples, and whether it may be divided by.

Per port: duplicates and late samples, steps of the device's clock, gaps in the collection, marks of
lost continuity, and counters that the device refreshes more slowly than they are read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.block import Block
from collector.record import Bools, Floats, Int32s, Int64s

FAST: Final = 0.1
"""Seconds; the samples of ports that are read more often than this may telescope within a tick."""

LONGEST_HOLD: Final = 3.0
"""Seconds for which an unchanged counter may be thought of as not yet refreshed."""

LONGEST_REFRESH: Final = 2.5
"""Seconds between two refreshes of a device's counters that are still taken for such."""

_CLOCK_TOLERANCE: Final = 2.0
_LATEST_DELIVERY: Final = 60.0
_MEMORY: Final = np.float32(0.98)


@dataclass(frozen=True, slots=True)
class Timing:
    """What a round's rows (n) mean in time.

    keep: the row is neither a duplicate nor late. local: ns on the port's own unbroken time line.
    slack: seconds by which a time stamp is uncertain. quiet: seconds since a counter last moved.
    reach: how much further back an increase may go, since that move was only seen late. gap: the
    collection stood still before this row. held: the device, slower to refresh than we read, has
    not refreshed its counters. broken: the device reports that continuity was lost.
    events: what was noticed -> rows.
    """

    keep: Bools
    local: Int64s
    slack: Floats
    reach: Floats
    quiet: Floats
    gap: Bools
    held: Bools
    broken: Bools
    events: Mapping[str, int]

    @property
    def odd(self) -> bool:
        """Whether any row's time needs more than dividing by it."""
        return bool(self.gap.any() or self.broken.any())

    def select(self, rows: NDArray[np.intp]) -> "Timing":
        """The same for some of the rows."""
        return Timing(
            keep=self.keep[rows],
            local=self.local[rows],
            slack=self.slack[rows],
            reach=self.reach[rows],
            quiet=self.quiet[rows],
            gap=self.gap[rows],
            held=self.held[rows],
            broken=self.broken[rows],
            events=self.events,
        )


class Intervals:
    """Arrays over ports: when each was last sampled, last changed, and how often it usually is."""

    def __init__(self) -> None:
        self._start = self._end = 0
        self._time = np.zeros(0, np.int64)
        self._received = np.zeros(0, np.int64)
        self._local = np.zeros(0, np.int64)
        self._changed_at = np.zeros(0, np.int64)
        self._mark = np.zeros(0, np.int64)
        self._seen_at = np.zeros(0, np.int64)
        self._changed = np.zeros(0, np.bool_)
        self._stalls = np.zeros(0, np.float32)
        self._resumed = np.zeros(0, np.float32)
        self._runs = np.zeros(0, np.float32)
        self._refresh = np.zeros(0, np.float64)
        self._wobble = np.zeros(0, np.float64)
        self._reading = np.zeros(0, np.float64)
        self._changes = np.zeros(0, np.float32)
        self.usual: Floats = np.full(0, np.nan)

    def grow(self, ports: int) -> None:
        """Room for `ports` ports."""
        more = ports - len(self._time)
        if more <= 0:
            return
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray):
                fill = np.nan if name == "usual" else 0
                setattr(self, name, np.pad(array, (0, more), constant_values=fill))

    def begin(self, time: int, seconds: float) -> None:
        """A tick begins: it ends at `time` (ns)."""
        self._start, self._end = time - round(seconds * 1e9), time

    def fast(self, port: Int32s) -> Bools:
        """(rows,) whether each row's port is known to be sampled fast."""
        quick: Bools = self.usual[port] < FAST
        return quick

    def liveness(self, time: int, seconds: float) -> tuple[Floats, Bools]:
        """(P,) seconds since the last sample, and whether that is recent enough to speak of now."""
        never = self._seen_at == 0
        age = np.where(never, np.nan, (time - self._seen_at) / 1e9)
        usual = np.where(np.isnan(self.usual), 2.0, self.usual)
        patience = np.maximum(5 * usual, 3 * seconds) + 0.5
        return age, ~never & (age <= patience)

    def slow(self, port: Int32s) -> Bools:
        """(n,) the counters stand still between refreshes that are longer than the readings.

        Read a few times per refresh, an unchanged reading is nearly always followed by a changed
        one, which true silence is not, and a fair share of the readings are unchanged. Read many
        times per refresh, the changes come as regularly as a clock, several readings apart.
        """
        stalls, resumed, refresh = self._stalls[port], self._resumed[port], self._refresh[port]
        often = stalls >= 0.15 * self._runs[port]
        few = (stalls >= 4) & (resumed >= 0.7 * stalls) & often & (self.usual[port] >= FAST)
        regular = (self._changes[port] >= 6) & (self._wobble[port] < 0.2 * refresh)
        many = regular & (refresh >= 3 * self._reading[port])
        verdict: Bools = few | many
        return verdict

    def step(self, part: Block, changed: Bools, fell: Bools, newest: Int64s) -> Timing:
        """Advance the ports of a round.

        changed, fell: (n,) some counter moved, moved down. newest: (n,) local time of the newest
        base among the row's own counters, 0 where it has none: a row that is late for its port may
        still be news for its counters, when another source reads the rest of them.
        """
        port = part.port
        first = self._time[port] == 0
        news = ~first & self._news(part, newest)
        elapsed, events = self._elapsed(part, first, changed, fell, news)
        keep = first | (elapsed > 0) | news
        seconds = np.where(first, 0.0, elapsed / 1e9)
        usual = self.usual[port]
        local = np.where(first, part.time, self._local[port] + elapsed)
        gap = ~first & (seconds / part.folded > 5 * usual + 0.1)
        if gap.any():
            events["gap"] = int(gap.sum())
        broken = self._broken(part, first)
        slow = self.slow(port)
        quiet = (local - self._changed_at[port]) / 1e9
        reach = np.minimum(np.where(np.isnan(usual), 1.0, usual), LONGEST_REFRESH)
        hold = np.minimum(1.2 * self._refresh[port] + usual, LONGEST_HOLD)
        held = slow & ~changed & ~gap & ~broken & (quiet <= hold)
        timing = Timing(
            keep=keep,
            local=local,
            slack=0.02 + 0.1 * reach,
            reach=reach,
            quiet=np.minimum(quiet, seconds + LONGEST_HOLD),
            gap=gap,
            held=held & ~first,
            broken=broken,
            events=events,
        )
        self._learn(part, timing, first, changed, seconds, quiet)
        return timing

    def _news(self, part: Block, newest: Int64s) -> Bools:
        """(n,) not younger than the port's last row, but younger than its own counters' bases."""
        told = part.time - self._time[part.port]
        news: Bools = (told <= 0) & (newest < self._local[part.port] + told)
        return news

    def _elapsed(
        self, part: Block, first: Bools, changed: Bools, fell: Bools, news: Bools
    ) -> tuple[Int64s, dict[str, int]]:
        """(n,) ns since each port's last sample; 0 marks a row to drop. And why rows were dropped.

        The device's own clock is believed while it agrees with ours. Where it repeats (the time of
        the last change), steps or runs back, the time of arrival counts; a sample that is older and
        whose counters are lower is simply late.
        """
        port = part.port
        told = part.time - self._time[port]
        duplicate = ~first & (told == 0) & ~news
        late = ~first & (told < 0) & ~news
        jump = np.zeros(len(port), np.bool_)
        elapsed = told
        if part.received.any():
            arrived = part.received - self._received[port]
            known = (
                ~first & ~news & (self._received[port] != 0) & (part.received != 0) & (arrived > 0)
            )
            late &= ~known | fell
            duplicate &= ~known | (~changed & (arrived < 0.5e9 * self.usual[port]))
            tolerance = np.maximum(_CLOCK_TOLERANCE * 1e9, 0.5 * arrived)
            off = np.where(
                part.alone,
                np.abs(told - arrived) > tolerance,
                told - arrived > _LATEST_DELIVERY * 1e9,
            )
            jump = known & ((told <= 0) | off) & ~late & ~duplicate
            elapsed = np.where(jump, arrived, told)
        elapsed = np.where(late | duplicate | first, 0, elapsed)
        reasons = {"duplicate": duplicate, "out_of_order": late, "clock_jump": jump}
        return elapsed, {why: int(rows.sum()) for why, rows in reasons.items() if rows.any()}

    def _broken(self, part: Block, first: Bools) -> Bools:
        """(n,) a mark that moved, or a first mark that is younger than the sample before it."""
        if not part.mark.any():
            return np.zeros(len(part), np.bool_)
        old = self._mark[part.port]
        moved = (part.mark != 0) & (part.mark != old)
        self._mark[part.port] = np.where(moved, part.mark, old)
        broken: Bools = moved & ~first & ((old != 0) | (part.mark > self._time[part.port]))
        return broken

    def _learn(
        self,
        part: Block,
        timing: Timing,
        first: Bools,
        changed: Bools,
        seconds: Floats,
        quiet: Floats,
    ) -> None:
        """Remember the round for the next one."""
        keep = timing.keep & (first | (seconds > 0))
        port, first, changed = part.port[keep], first[keep], changed[keep]
        local, seconds, quiet = timing.local[keep], seconds[keep], quiet[keep]
        reading = self._reading[port]
        self._reading[port] = np.where(reading == 0, seconds, reading + 0.1 * (seconds - reading))
        self._time[port] = part.time[keep]
        self._received[port] = part.received[keep]
        self._local[port] = local
        self._seen_at[port] = np.clip(part.time[keep], self._start, self._end)
        each, usual = seconds / part.folded[keep], self.usual[port]
        # A single gap hardly moves what is usual; a source that really slowed down soon does.
        calm = np.minimum(each, 10 * np.where(np.isnan(usual), each, usual) + 1)
        pull = np.where(timing.gap[keep], 0.2, 0.1)
        moved = np.where(np.isnan(usual), each, usual + pull * (calm - usual))
        self.usual[port] = np.where(first, usual, moved)
        learns = ~first & (part.folded[keep] == 1) & ~(usual < FAST)
        self._learn_refresh(port, changed & ~first, quiet, learns)
        self._changed[port] = changed | first
        self._changed_at[port] = np.where(changed | first, local, self._changed_at[port])

    def _learn_refresh(self, port: Int32s, changed: Bools, quiet: Floats, counts: Bools) -> None:
        """Count how often a standstill ends at the very next reading, and how long one lasts."""
        self._learn_rhythm(port, changed, quiet)
        if not counts.any():
            return
        memory = np.where(counts, _MEMORY, np.float32(1))
        still = counts & ~self._changed[port]
        self._runs[port] = self._runs[port] * memory + counts
        self._stalls[port] = self._stalls[port] * memory + still
        self._resumed[port] = self._resumed[port] * memory + (still & changed)

    def _learn_rhythm(self, port: Int32s, changed: Bools, quiet: Floats) -> None:
        """How long a standstill lasts, and how alike they are; longer ones are true silence."""
        changed = changed & (quiet <= LONGEST_REFRESH)
        refresh, changes = self._refresh[port], self._changes[port]
        learned = np.where(refresh == 0, quiet, refresh + 0.1 * (quiet - refresh))
        off = np.abs(quiet - learned)
        self._wobble[port] += np.where(changed, 0.1 * (off - self._wobble[port]), 0)
        self._refresh[port] = np.where(changed, learned, refresh)
        self._changes[port] = np.minimum(changes + changed, 100)
