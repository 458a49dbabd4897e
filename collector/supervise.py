"""Runs one source for ever: when to read it, what to do when it fails, and how it is doing."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from collector.channel import Channel
from collector.clock import Clock
from collector.errors import ConfigError, NoData, SourceUnavailable, TraceError
from collector.record import Batch
from collector.sources import Source

_SECOND: Final = 1_000_000_000
_BUG_WINDOW: Final = 60 * _SECOND
_CLOSING_SECONDS: Final = 0.5
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SourceHealth:
    """How one source is doing; plain numbers for the exporter.

    duration_seconds: of the newest poll. success: the newest poll, or the stream, works.
    last_success: ns of our monotonic clock, None before the first. skew_seconds: how far the
    source's time stamps lie before (-) or after (+) our clock. failures: reason -> how often.
    missed: polls skipped because the one before took too long. restarts: streams opened again.
    """

    duration_seconds: float = 0.0
    success: bool = False
    last_success: int | None = None
    rows: int = 0
    batches: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    consecutive_failures: int = 0
    skew_seconds: float = 0.0
    missed: int = 0
    restarts: int = 0
    breaker_open: bool = False
    ended: bool = False

    def age(self, monotonic: int) -> float:
        """Seconds since the source last worked, infinite before it ever did."""
        if self.last_success is None:
            return float("inf")
        return (monotonic - self.last_success) / _SECOND


@dataclass(frozen=True, slots=True)
class Retry:
    """Waiting after failures: doubling from `first` to `longest` seconds, with jitter.

    After `breaker_after` failures in a row the breaker opens: one probe every `probe` seconds.
    """

    first: float = 1.0
    longest: float = 60.0
    breaker_after: int = 5
    probe: float = 60.0

    def seconds(self, failures: int, chance: random.Random) -> float:
        """How long to wait after that many failures in a row."""
        if failures >= self.breaker_after:
            return self.probe * chance.uniform(0.9, 1.1)
        return min(self.first * 2.0 ** (failures - 1), self.longest) * chance.uniform(0.5, 1.0)


class Supervisor:
    """Runs a source into a channel.

    interval: seconds between polls, by default the source's own; None for a stream. jitter: largest
    random delay of a poll, as a share of the interval. timeout: seconds for a poll (by default ten,
    or the interval if that is more), or the longest silence of a stream (by default for ever).
    strict: let bugs propagate, for tests.
    """

    def __init__(
        self,
        source: Source,
        channel: Channel,
        clock: Clock,
        *,
        interval: float | None = None,
        jitter: float = 0.0,
        timeout: float | None = None,
        retry: Retry | None = None,
        chance: random.Random | None = None,
        strict: bool = False,
    ) -> None:
        self.source = source
        self.health = SourceHealth()
        self._interval = source.interval if interval is None else interval
        self._jitter = jitter
        self._timeout = timeout
        if timeout is None and self._interval is not None:
            self._timeout = max(10.0, self._interval)
        self._channel = channel
        self._clock = clock
        self._retry = Retry() if retry is None else retry
        self._chance = random.Random() if chance is None else chance
        self._strict = strict
        self._replays = bool(getattr(source, "replays", False))
        self._bug_logged: int | None = None

    async def run(self) -> None:
        """Until cancelled, or until a replay ends. Raises ConfigError, and TraceError in replay."""
        try:
            if self._interval is None:
                await self._stream()
            else:
                await self._poll(round(self._interval * _SECOND))
        finally:
            await self._close()

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(_CLOSING_SECONDS):
                await self.source.close()
        except TimeoutError:
            self.health.failures["close"] += 1
            _log.warning("source does not close", source=self.source.name)

    async def _poll(self, interval: int) -> None:
        """Due times lie on a fixed grid, so neither slow polls nor failures make them drift."""
        due = self._clock.monotonic()
        while True:
            await self._until(due + round(self._chance.random() * self._jitter * interval))
            began = self._clock.monotonic()
            worked = await self._attempt(self._read_once)
            now = self._clock.monotonic()
            self.health.duration_seconds = (now - began) / _SECOND
            due += interval
            if worked:
                missed = max(-(-(now - due) // interval), 0)
                self.health.missed += missed
            else:
                wait = round(self._wait_seconds() * _SECOND)
                missed = max(-(-(now + wait - due) // interval), 0)
            due += missed * interval

    async def _stream(self) -> None:
        while True:
            worked = await self._attempt(self._read_stream)
            if self._replays and worked:
                self.health.ended = True
                return
            await self._clock.sleep(self._wait_seconds() if not worked else self._retry.first)
            self.health.restarts += 1

    async def _read_once(self) -> None:
        async with asyncio.timeout(self._timeout), aclosing(self.source.collect()) as batches:
            async for batch in batches:
                await self._deliver(batch)

    async def _read_stream(self) -> None:
        async with aclosing(self.source.collect()) as batches:
            while True:
                async with asyncio.timeout(self._timeout):
                    batch = await anext(batches, None)
                if batch is None:
                    break
                await self._deliver(batch)
                self._succeeded()
        if not self._replays:
            raise SourceUnavailable(f"{self.source.name}: the stream ended", reason="ended")

    async def _attempt(self, read: Callable[[], Awaitable[None]]) -> bool:
        """Whether the source worked; every failure is counted by its reason."""
        try:
            await read()
        except ConfigError:
            raise
        except NoData as nothing:
            _log.debug("no data", source=self.source.name, detail=str(nothing))
        except SourceUnavailable as error:
            self._failed(error.reason, error)
            # A recorded file does not heal by waiting, and a replay that began anew would run
            # backwards in time.
            if self._replays and isinstance(error, TraceError):
                raise
            return False
        except TimeoutError as error:
            self._failed("timeout", error)
            return False
        # The one place that keeps a bug in a source from ending the daemon.
        except Exception as error:
            self._failed("bug", error)
            if self._strict:
                raise
            return False
        self._succeeded()
        return True

    async def _deliver(self, batch: Batch) -> None:
        if not len(batch):
            return
        self.health.rows += len(batch)
        self.health.batches += 1
        if self._replays:
            await self._channel.send(batch)
            return
        self.health.skew_seconds = (int(batch.time.max()) - self._clock.now()) / _SECOND
        if batch.received is None:
            batch = replace(batch, received=self._clock.monotonic())
        self._channel.put(batch)

    def _succeeded(self) -> None:
        health = self.health
        if health.consecutive_failures:
            _log.info("source works again", source=self.source.name)
        health.success = True
        health.last_success = self._clock.monotonic()
        health.consecutive_failures = 0
        health.breaker_open = False

    def _failed(self, reason: str, error: Exception) -> None:
        health = self.health
        health.success = False
        health.failures[reason] += 1
        health.consecutive_failures += 1
        opens = health.consecutive_failures >= self._retry.breaker_after
        if reason == "bug":
            self._log_bug(error)
        elif health.consecutive_failures == 1 or (opens and not health.breaker_open):
            _log.warning(
                "source unavailable",
                source=self.source.name,
                reason=reason,
                error=str(error) or type(error).__name__,
                breaker_open=opens,
            )
        health.breaker_open = opens

    def _log_bug(self, error: Exception) -> None:
        now = self._clock.monotonic()
        if self._bug_logged is None or now - self._bug_logged >= _BUG_WINDOW:
            self._bug_logged = now
            _log.error("bug in a source", source=self.source.name, exc_info=error)

    def _wait_seconds(self) -> float:
        return self._retry.seconds(self.health.consecutive_failures, self._chance)

    async def _until(self, due: int) -> None:
        await self._clock.sleep(max(due - self._clock.monotonic(), 0) / _SECOND)
