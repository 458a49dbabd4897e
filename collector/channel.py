"""The bounded queue between sources and the tick."""

import asyncio
from collections import deque

from collector.record import Batch


class Channel:
    """Holds at most `capacity` rows of batches, the oldest first.

    Live sources `put`: when there is no room, the oldest batches go and are counted, since the
    newest samples are worth most. Replay `send`s: it waits for room, since a replay that dropped
    rows would not give the same answer twice. One batch larger than the capacity passes alone.
    All methods belong to the event loop's thread.

    received_rows: taken in. dropped_rows, dropped_batches: lost for want of room. depth: rows now.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a channel needs room for at least one row")
        self.capacity = capacity
        self.depth = 0
        self.received_rows = 0
        self.dropped_rows = 0
        self.dropped_batches = 0
        self._batches: deque[Batch] = deque()
        self._filled = asyncio.Event()
        self._freed = asyncio.Event()
        self._closed = False

    def put(self, batch: Batch) -> None:
        """Take a batch at once; never waits."""
        while self._batches and self.depth + len(batch) > self.capacity:
            oldest = self._batches.popleft()
            self.depth -= len(oldest)
            self.dropped_rows += len(oldest)
            self.dropped_batches += 1
        self._append(batch)

    async def send(self, batch: Batch) -> None:
        """Take a batch once there is room for it."""
        while self._batches and self.depth + len(batch) > self.capacity:
            self._freed.clear()
            await self._freed.wait()
        self._append(batch)

    async def get(self) -> Batch | None:
        """The oldest batch, waiting for one; None once the channel is closed and empty."""
        while not self._batches:
            if self._closed:
                return None
            self._filled.clear()
            await self._filled.wait()
        batch = self._batches.popleft()
        self.depth -= len(batch)
        self._freed.set()
        return batch

    def drain(self) -> list[Batch]:
        """Everything that waits, without waiting."""
        batches = list(self._batches)
        self._batches.clear()
        self.depth = 0
        self._freed.set()
        return batches

    def close(self) -> None:
        """No more will come: `get` gives what is left and then None."""
        self._closed = True
        self._filled.set()

    def _append(self, batch: Batch) -> None:
        if not len(batch):
            return
        self._batches.append(batch)
        self.depth += len(batch)
        self.received_rows += len(batch)
        self._filled.set()
