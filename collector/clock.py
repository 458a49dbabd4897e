"""Time, as a thing that is handed in: the daemon, the replay and the tests each bring their own."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Nanoseconds since the epoch that never step, nanoseconds of a monotonic clock, and sleep."""

    def now(self) -> int: ...

    def monotonic(self) -> int: ...

    async def sleep(self, seconds: float) -> None: ...


class SteadyClock:
    """The machine's time, read once and carried on by the monotonic clock.

    A step of the wall clock (NTP after boot, an operator's `date`) therefore never reaches an
    interval or a recorded file; `skew` tells how far the wall has moved since.
    """

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        return time.monotonic_ns() + self._offset

    def monotonic(self) -> int:
        return time.monotonic_ns()

    def skew(self) -> float:
        """Seconds by which the wall clock has left this one."""
        return (time.time_ns() - self.now()) / 1e9

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that a test moves by hand; `sleep` advances it and yields once."""

    def __init__(self, start: int = 1_700_000_000_000_000_000) -> None:
        self._epoch = start
        self._elapsed = 0

    def now(self) -> int:
        return self._epoch + self._elapsed

    def monotonic(self) -> int:
        return self._elapsed

    def advance(self, seconds: float) -> None:
        self._elapsed += round(seconds * 1e9)

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await asyncio.sleep(0)
