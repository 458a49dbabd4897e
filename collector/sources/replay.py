"""A recorded trace as a source: at its own pace, faster, or as fast as it can be read."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from collector.clock import Clock
from collector.dictionary import Dictionary
from collector.ports import PortTable
from collector.record import Batch, Bools, Int32s, UInt64s
from collector.trace import Trace

_SLICE_SECONDS: Final = 0.05
_NARROW: Final = np.uint64(0xFFFF_FFFF)
_T = TypeVar("_T", np.bool_, np.uint64)


class ReplayConfig(BaseModel):
    """How to replay a trace."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["replay"] = "replay"
    name: str = Field(default="replay", min_length=1, description="name of the source in metrics")
    path: Path = Field(description="folder of a trace, or one counters file")
    speed: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["max"] = Field(
        default=1.0, description="1 is the recorded pace, 20 is twenty times that, or 'max'"
    )
    loop: bool = Field(default=False, description="begin again at the end; counters go on rising")
    realtime: bool = Field(default=False, description="shift times so that the first row is now")


class ReplaySource:
    """Yields the batches of a trace.

    passes: completed readings. rows: handed out. position: ns of trace time of the newest row, as
    recorded (neither `loop` nor `realtime` shifts it). lag: seconds behind the pace. trace: known
    once `collect` has begun. `replays` tells the daemon to follow the data's own time.
    """

    replays: Final = True
    interval: float | None = None

    def __init__(
        self,
        config: ReplayConfig,
        ports: PortTable,
        clock: Clock,
        dictionary: Dictionary | None = None,
    ) -> None:
        self.config = config
        self.name = config.name
        self.trace: Trace | None = None
        self.passes = 0
        self.rows = 0
        self.position = 0
        self.lag = 0.0
        self._ports = ports
        self._clock = clock
        self._dictionary = dictionary

    async def collect(self) -> AsyncGenerator[Batch, None]:
        """Batches in time order; TraceError where the trace is damaged."""
        trace = await asyncio.to_thread(Trace.open, self.config.path, self._ports, self._dictionary)
        self.trace = trace
        shift = self._clock.now() - trace.start if self.config.realtime else 0
        length = trace.end - trace.start + max(round(trace.interval * 1e9), 1)
        continuation = _Continuation()
        begun = self._clock.monotonic()
        lap = 0
        while True:
            passage = trace.passage()
            while (chunk := await asyncio.to_thread(passage.read)) is not None:
                batch = replace(passage.intern(chunk), source=self.name)
                if self.config.loop:
                    batch = continuation.carry(batch, lap)
                for piece in self._slices(batch, trace.start):
                    elapsed = int(piece.time[-1]) - trace.start + lap * length
                    await self._wait(begun, elapsed)
                    self.rows += len(piece)
                    self.position = int(piece.time[-1])
                    yield replace(piece, time=piece.time + (shift + lap * length))
            self.passes += 1
            lap += 1
            if not self.config.loop:
                return

    async def close(self) -> None:
        """Nothing is open between two readings of the file."""

    def _slices(self, batch: Batch, start: int) -> Iterator[Batch]:
        """Pieces that each cover at most 50 ms of our time; whole batches at full speed."""
        if self.config.speed == "max":
            yield batch
            return
        step = max(int(_SLICE_SECONDS * self.config.speed * 1e9), 1)
        number = (batch.time - start) // step
        cuts = np.flatnonzero(number[1:] != number[:-1]) + 1
        begin = 0
        for end in [*cuts.tolist(), len(batch)]:
            yield batch.select(slice(begin, end))
            begin = end

    async def _wait(self, begun: int, elapsed: int) -> None:
        """Until the sample is due; always lets the loop run."""
        if self.config.speed == "max":
            await asyncio.sleep(0)
            return
        behind = (self._clock.monotonic() - begun - elapsed / self.config.speed) / 1e9
        self.lag = max(behind, 0.0)
        if behind < 0:
            await self._clock.sleep(-behind)
        else:
            await asyncio.sleep(0)


class _Continuation:
    """Lets counters rise across the seam between two passes.

    Each pass adds what the counter grew by in the first one, so the first value of a pass equals
    the last of the pass before. A 64-bit counter that ended below its start was reset on the way;
    it repeats unshifted, since a shift would take it below zero.
    """

    def __init__(self) -> None:
        self._first: dict[str, UInt64s] = {}
        self._last: dict[str, UInt64s] = {}
        self._seen: dict[str, Bools] = {}

    def carry(self, batch: Batch, lap: int) -> Batch:
        """The batch as it reads in pass number `lap`; the first pass (0) is learnt from."""
        if lap == 0:
            for name, values in batch.counters.items():
                mask = batch.valid.get(name)
                port = batch.port if mask is None else batch.port[mask]
                self._learn(name, port, values if mask is None else values[mask])
            return batch
        counters = {
            name: self._shifted(name, values, batch.port, lap, narrow=name in batch.narrow)
            for name, values in batch.counters.items()
        }
        return replace(batch, counters=counters)

    def _learn(self, name: str, port: Int32s, values: UInt64s) -> None:
        size = int(port.max(initial=-1)) + 1
        seen = _grown(self._seen.get(name, np.zeros(0, np.bool_)), size)
        first = _grown(self._first.get(name, np.zeros(0, np.uint64)), size)
        last = _grown(self._last.get(name, np.zeros(0, np.uint64)), size)
        # Of repeated indices the last assignment stays, hence backwards for the first value.
        fresh = ~seen[port]
        first[port[fresh][::-1]] = values[fresh][::-1]
        last[port] = values
        seen[port] = True
        self._seen[name], self._first[name], self._last[name] = seen, first, last

    def _shifted(
        self, name: str, values: UInt64s, port: Int32s, lap: int, *, narrow: bool
    ) -> UInt64s:
        size = int(port.max(initial=-1)) + 1
        first = _grown(self._first.get(name, np.zeros(0, np.uint64)), size)[port]
        last = _grown(self._last.get(name, np.zeros(0, np.uint64)), size)[port]
        growth = last - first
        if narrow:
            return (values + growth * np.uint64(lap)) & _NARROW
        growth = np.where(last >= first, growth, np.uint64(0))
        shifted: UInt64s = values + growth * np.uint64(lap)
        return shifted


def _grown(array: NDArray[_T], size: int) -> NDArray[_T]:
    """The array with at least `size` entries, new ones zero."""
    if len(array) >= size:
        return array
    larger = np.zeros(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger
