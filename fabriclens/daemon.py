"""The daemon: sources into the channel, the channel into ticks, ticks onto the board."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from time import perf_counter

import structlog

from classifier.store import load
from collector.channel import Channel
from collector.clock import Clock, SteadyClock
from collector.dictionary import load_dictionary
from collector.ports import PortTable
from collector.record import Batch
from collector.recorder import Recorder
from collector.sources import Source
from collector.sources import load as load_source
from collector.supervise import Supervisor
from collector.ticks import TickCutter, Window
from exporters.bake import Baker, BakeSettings
from exporters.board import Board
from exporters.http import HttpExporter
from fabriclens.config import Config
from fabriclens.health import Health
from fabriclens.setup import topology_of
from fabriclens.signals import told_to_end
from fabriclens.tick import Tick

_log = structlog.get_logger(__name__)

GRACE = 0.1
"""Share of a tick that live samples get to arrive in after its end; at most 0.2 s."""


class Daemon:
    """Wires the parts together. Constructing reads the files that the configuration names.

    Raises ConfigError before any socket is opened. `board` and `http` are there for tests.
    """

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self.config = config
        self.clock: Clock = clock or SteadyClock()
        self.ports = PortTable()
        self.board = Board()
        self.http = HttpExporter(config.http.host, config.http.port, self.board, doubt=self._blind)
        model = load(config.model)
        self.tick = Tick(self.ports, topology_of(config), model)
        self.channel = Channel(config.queue_rows)
        self.supervisors = [
            Supervisor(source, self.channel, self.clock) for source in self._sources()
        ]
        self.recorder = self._recorder()
        self._baker = Baker(
            BakeSettings(ports=config.metrics.ports, max_series=config.metrics.max_series)
        )
        self._health = Health(self, model.card)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="tick")

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Until `stop` is set or the process is told to end (SIGTERM, SIGINT)."""
        async with AsyncExitStack() as stack:
            if stop is None:
                stop = await stack.enter_async_context(told_to_end())
            stack.callback(self._worker.shutdown)
            if self.recorder:
                self.recorder.open()
                stack.callback(self.recorder.close)
            await self.http.start()
            stack.push_async_callback(self.http.stop)
            host, port = self.http.address
            _log.info("serving", url=f"http://{host}:{port}/", tick_seconds=self.config.tick)
            tasks = [
                asyncio.create_task(self._ticks(), name="ticks"),
                asyncio.create_task(self._collect(), name="sources"),
            ]
            waiter = asyncio.create_task(stop.wait(), name="stop")
            await self._until(waiter, tasks)
        _log.info("stopped")

    def _blind(self) -> str:
        """Why nothing is seen, where every source fails; else nothing."""
        if any(one.health.success or one.health.ended for one in self.supervisors):
            return ""
        told = [
            f"{one.source.name}: {', '.join(one.health.failures) or 'no sample yet'}"
            for one in self.supervisors
        ]
        return f"no source works ({'; '.join(told)})"

    async def _until(self, waiter: asyncio.Task[bool], tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait for the end; a task that fails ends everything, a source that is done does not."""
        pending: set[asyncio.Task[None] | asyncio.Task[bool]] = {waiter, *tasks}
        try:
            while waiter in pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _collect(self) -> None:
        """Run every source; only replays ever end, and then their last tick is complete."""
        tasks = [
            asyncio.create_task(one.run(), name=f"source {one.source.name}")
            for one in self.supervisors
        ]
        try:
            # Not a task group: its exception group would hide which of our errors it was.
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.channel.close()

    async def _ticks(self) -> None:
        replays = any(getattr(one.source, "replays", False) for one in self.supervisors)
        loop = asyncio.get_running_loop()
        windows = self._replayed() if replays else self._live()
        async for batches, cut in windows:
            await loop.run_in_executor(self._worker, self._work, batches, cut)

    async def _live(self) -> AsyncIterator[tuple[list[Batch], list[Window]]]:
        """Ticks by our clock, on multiples of the tick's length; late samples go into the next."""
        length = round(self.config.tick * 1e9)
        grace = round(min(GRACE * self.config.tick, 0.2) * 1e9)
        end = (self.clock.now() // length + 1) * length
        cutter = TickCutter(self.config.tick, horizon=2 * self.config.tick, first=end)
        while True:
            await self.clock.sleep(max(end + grace - self.clock.now(), 0) / 1e9)
            batches = self.channel.drain()
            for batch in batches:
                cutter.push(batch)
            yield batches, cutter.advance(end)
            end = max(end + length, (self.clock.now() - grace) // length * length)

    async def _replayed(self) -> AsyncIterator[tuple[list[Batch], list[Window]]]:
        """Ticks by the samples' own time: a replay gives the same frames at any pace."""
        cutter = TickCutter(self.config.tick)
        while (batch := await self.channel.get()) is not None:
            cutter.push(batch)
            yield [batch], cutter.advance(int(batch.time.max()) - 1)
        yield [], cutter.flush()

    def _work(self, batches: Sequence[Batch], windows: Sequence[Window]) -> None:
        """In the worker thread: record what came, work out every tick that is complete."""
        if self.recorder:
            for batch in batches:
                self.recorder.write(batch)
        for window in windows:
            started = perf_counter()
            frame = self.tick.run(window)
            self._health.ticked(perf_counter() - started, window)
            self.board.publish(frame, self._baker.bake(frame, self._health.snapshot(frame)))

    def _sources(self) -> list[Source]:
        dictionary = load_dictionary(self.config.dictionary)
        return [
            load_source(source.kind)[1](source, self.ports, self.clock, dictionary)
            for source in self.config.sources
        ]

    def _recorder(self) -> Recorder | None:
        wanted = self.config.record
        if wanted is None:
            return None
        return Recorder(
            wanted.directory,
            self.ports,
            rotate_rows=wanted.rotate_rows,
            rotate_seconds=wanted.rotate_seconds,
            keep_bytes=wanted.keep_bytes,
            topology=self.config.topology,
            clock=self.clock,
        )
