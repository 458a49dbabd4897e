"""`fabriclens record`: sources straight into a trace, without the rest of the daemon."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from collector.channel import Channel
from collector.clock import SteadyClock
from collector.dictionary import load_dictionary
from collector.errors import SourceUnavailable
from collector.ports import PortTable
from collector.record import Batch
from collector.recorder import Recorder
from collector.sources import load as load_source
from collector.supervise import Supervisor
from fabriclens.config import Config
from fabriclens.signals import told_to_end

_PAUSE = 0.2


async def record(config: Config, out: Path, seconds: float | None = None) -> int:
    """Record until `seconds` have passed, the process is told to end, or every source is done.

    Returns the rows written. Raises ConfigError where the folder cannot be written, and
    SourceUnavailable where nothing came.
    """
    clock, ports = SteadyClock(), PortTable()
    channel = Channel(config.queue_rows)
    recorder = Recorder(out, ports, topology=config.topology, clock=clock)
    recorder.open()
    words = load_dictionary(config.dictionary)
    sources = [load_source(one.kind)[1](one, ports, clock, words) for one in config.sources]
    supervisors = [Supervisor(one, channel, clock) for one in sources]
    tasks = [asyncio.create_task(one.run()) for one in supervisors]
    try:
        async with told_to_end() as ended, asyncio.timeout(seconds):
            while not ended.is_set() and not all(task.done() for task in tasks):
                await asyncio.sleep(_PAUSE)
                await asyncio.to_thread(_write, recorder, channel.drain())
    except TimeoutError:
        pass
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        _write(recorder, channel.drain())
        recorder.close()
    for result in results:
        if isinstance(result, Exception):
            raise result
    if not recorder.counts.rows:
        told = {one.source.name: dict(one.health.failures) for one in supervisors}
        raise SourceUnavailable(f"{out}: nothing was recorded, no source gave a row: {told}")
    return recorder.counts.rows


def _write(recorder: Recorder, batches: Iterable[Batch]) -> None:
    for batch in batches:
        recorder.write(batch)
