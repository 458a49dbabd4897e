"""Replay a trace through the daemon's own tick and keep every tick's findings."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from analyzer.frame import Frame
from classifier.store import load
from collector.clock import Clock, SteadyClock
from collector.ports import PortTable
from collector.sources.replay import ReplayConfig, ReplaySource
from collector.ticks import TickCutter
from collector.topology import Topology, read_topology
from collector.trace import Trace
from exporters.findings import FindingsWriter
from fabriclens.pace import tick_for
from fabriclens.tick import Tick


@dataclass(frozen=True, slots=True)
class Replay:
    """What to replay and how.

    speed: 1 is as recorded, `max` as fast as the machine can. tick: seconds, None to follow the
    trace's own interval. out: folder for the findings, None to keep none.
    """

    trace: Path
    speed: float | Literal["max"] = "max"
    tick: float | None = None
    topology: Path | None = None
    model: Path | None = None
    out: Path | None = None
    clock: Clock = field(default_factory=SteadyClock)


async def replay(
    request: Replay,
    *,
    progress: Callable[[float], None] | None = None,
    each: Callable[[Frame], None] | None = None,
) -> dict[str, Any]:
    """Run a whole trace; returns the summary.

    progress: told the share of the rows that is done, 0 to 1. each: handed every Frame.
    Raises TraceError or ConfigError before anything is written where the input is unusable.
    """
    ports = PortTable()
    trace = Trace.open(request.trace, ports)
    topology = _topology(request.topology or trace.topology_path)
    tick = Tick(ports, topology, load(request.model))
    seconds = request.tick or tick_for(trace.interval)
    writer = FindingsWriter(request.out) if request.out else None
    source = ReplaySource(
        ReplayConfig(path=request.trace, speed=request.speed), ports, request.clock
    )
    cutter = TickCutter(seconds)
    newest: Frame | None = None
    rows, ticks, started = 0, 0, perf_counter()

    def take(windows: list[Any]) -> None:
        nonlocal newest, ticks
        for window in windows:
            newest = tick.run(window)
            ticks += 1
            if writer:
                writer.write(newest)
            if each:
                each(newest)

    try:
        async for batch in source.collect():
            cutter.push(batch)
            # A tick is complete once a later sample was seen: rows of one instant may be split.
            take(cutter.advance(int(batch.time[-1]) - 1))
            rows += len(batch)
            if progress:
                progress(rows / trace.rows)
        take(cutter.flush())
    except BaseException:
        if writer:
            writer.abort()
        raise
    elapsed = perf_counter() - started
    summary: dict[str, Any] = {
        "trace": str(request.trace),
        "tick_seconds": seconds,
        "ticks": ticks,
        "rows": rows,
        "rows_per_second": round(rows / elapsed) if elapsed else 0,
        "events": dict(tick.events),
        "ignored_columns": list(trace.ignored),
    }
    return writer.close(summary) if writer else summary


def _topology(path: Path | None) -> Topology:
    return Topology() if path is None else read_topology(path)
