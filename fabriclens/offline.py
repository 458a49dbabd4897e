"""Replay a trace through the daemon's own tick and keep every tick's findings."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

from analyzer.frame import Frame
from classifier.store import load
from collector.clock import Clock, SteadyClock
from collector.errors import SourceUnavailable
from collector.ports import PortTable
from collector.sources.replay import ReplayConfig, ReplaySource
from collector.ticks import TickCutter, Window
from collector.topology import Topology, read_topology
from collector.trace import Trace
from exporters.findings import FindingsWriter
from exporters.summary import Summary
from exporters.timeline import Timeline
from fabriclens.pace import tick_for
from fabriclens.setup import existing
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
    trace = Trace.open(existing(request.trace), ports)
    topology = _topology(request.topology or trace.topology_path)
    tick = Tick(ports, topology, load(request.model))
    seconds = request.tick or tick_for(trace.interval)
    source = ReplaySource(
        ReplayConfig(path=request.trace, speed=request.speed), ports, request.clock
    )
    findings = _Findings(request.out, tick, each)
    cutter = TickCutter(seconds)
    started = perf_counter()
    try:
        async for batch in source.collect():
            cutter.push(batch)
            # A tick is complete once a later sample was seen: rows of one instant may be split.
            findings.take(cutter.advance(int(batch.time[-1]) - 1))
            if progress:
                progress(source.rows / trace.rows)
        findings.take(cutter.flush())
        elapsed = perf_counter() - started
        events = dict(tick.events)
        negative = source.trace.negative_values if source.trace else 0
        more = {"negative": negative, "late": cutter.late_rows, "ticks_skipped": cutter.skipped}
        events |= {reason: count for reason, count in more.items() if count}
        return findings.close(
            {
                "trace": str(request.trace),
                "tick_seconds": seconds,
                "rows": source.rows,
                "rows_per_second": round(source.rows / elapsed) if elapsed else 0,
                "events": events,
                "ignored_columns": list(trace.ignored),
            }
        )
    except BaseException:
        findings.abort()
        raise


class _Findings:
    """Works out windows and keeps what they show, in a folder or only as a summary."""

    def __init__(self, out: Path | None, tick: Tick, each: Callable[[Frame], None] | None) -> None:
        self._out = out
        self._tick = tick
        self._each = each
        self._writer = FindingsWriter(out) if out else None
        self._summary, self._timeline = Summary(), Timeline()
        self._newest: Frame | None = None

    def take(self, windows: Iterable[Window]) -> None:
        for window in windows:
            frame = self._newest = self._tick.run(window)
            if self._writer:
                self._written(self._writer.write, frame)
            else:
                self._summary.add(frame)
                self._timeline.add(frame)
            if self._each:
                self._each(frame)

    def close(self, summary: dict[str, Any]) -> dict[str, Any]:
        summary |= _coverage(self._newest)
        if self._writer:
            whole: dict[str, Any] = self._written(self._writer.close, summary)
            return whole
        suggestions = self._timeline.in_force()
        return {**self._summary.document(), "suggestions": suggestions, **summary}

    def abort(self) -> None:
        if self._writer:
            self._writer.abort()

    def _written(self, write: Callable[[Any], Any], what: Any) -> Any:
        try:
            return write(what)
        except OSError as error:
            raise SourceUnavailable(
                f"{self._out}: findings cannot be written: {error.strerror or error}; "
                "make room, or name another folder"
            ) from error


def _coverage(frame: Frame | None) -> dict[str, int]:
    """How much of the topology the trace's ports are found in."""
    if frame is None:
        return {"links": 0, "links_seen": 0}
    ends = np.flatnonzero(frame.fabric.peer >= 0)
    seen = np.logical_or.reduce(frame.measured.present, axis=0)
    joined = seen[ends] | seen[frame.fabric.peer[ends]]
    return {"links": len(ends) // 2, "links_seen": int(joined.sum()) // 2}


def _topology(path: Path | None) -> Topology:
    return Topology() if path is None else read_topology(path)
