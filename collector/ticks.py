"""Cuts a stream of batches into ticks by the samples' own time."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from collector.record import Batch

LONGEST_SILENCE: Final = 1000
"""Ticks without a single sample that are still handed out one by one."""


@dataclass(frozen=True, slots=True)
class Window:
    """One tick's samples: those with start < time <= end, and any that came too late for theirs."""

    end: int
    seconds: float
    batches: tuple[Batch, ...]


class TickCutter:
    """Collects batches and hands out one `Window` per tick, in order and without holes.

    Tick ends are multiples of the tick length since the epoch, so the same samples always fall
    into the same ticks, however they were chunked on the way. A tick closes when the watermark
    reaches its end: live, the clock; in replay, the time of the newest sample.

    horizon: live only: seconds that a sample may lie in the future. A device whose clock is further
    ahead is simply wrong, and its samples count as of now. first: ns, end of the first tick, where
    ticks shall come even before there are samples; else the first sample decides.
    """

    def __init__(
        self, seconds: float, *, horizon: float | None = None, first: int | None = None
    ) -> None:
        self.seconds = seconds
        self._horizon = None if horizon is None else round(horizon * 1e9)
        self._length = round(seconds * 1e9)
        self._end = first
        self._waiting: list[Batch] = []
        self.late_rows = 0
        self.skipped = 0

    def push(self, batch: Batch) -> None:
        """Take a batch; its rows need not be sorted."""
        if not len(batch):
            return
        if (batch.time[1:] < batch.time[:-1]).any():
            batch = batch.select(np.argsort(batch.time, kind="stable"))
        if self._end is None:
            self._end = self._tick_end(int(batch.time[0]))
        self._waiting.append(batch)

    def advance(self, watermark: int) -> list[Window]:
        """Every tick that ends at or before the watermark (ns) and was not handed out yet."""
        closed: list[Window] = []
        while self._end is not None and self._end <= watermark:
            closed.append(self._close(self._end))
            self._end = self._next(self._end + self._length)
        return closed

    def _next(self, end: int) -> int:
        """The tick after; far later where the empty ticks would be too many to hand out.

        A corrupt time must not make millions of them.
        """
        first = min((int(batch.time[0]) for batch in self._waiting), default=end)
        if first <= end + LONGEST_SILENCE * self._length:
            return end
        later = self._tick_end(first)
        self.skipped += (later - end) // self._length
        return later

    def flush(self) -> list[Window]:
        """The remaining samples, as at the end of a trace."""
        newest = max((int(batch.time[-1]) for batch in self._waiting), default=None)
        return [] if newest is None else self.advance(self._tick_end(newest))

    def _tick_end(self, time: int) -> int:
        return -(-time // self._length) * self._length

    def _close(self, end: int) -> Window:
        taken: list[Batch] = []
        kept: list[Batch] = []
        start = end - self._length
        for batch in self._waiting:
            late, due = np.searchsorted(batch.time, (start, end), side="right")
            self.late_rows += int(late)
            if self._horizon is not None and int(batch.time[-1]) > end + self._horizon:
                due = len(batch)
            if due:
                taken.append(batch.select(slice(0, due)) if due < len(batch) else batch)
            if due < len(batch):
                kept.append(batch.select(slice(due, None)))
        self._waiting = kept
        return Window(end=end, seconds=self.seconds, batches=tuple(taken))
