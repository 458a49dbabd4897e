"""The daemon's own numbers, gathered once per tick for the exposition."""

from typing import TYPE_CHECKING, Any

from collector.clock import SteadyClock
from exporters.selfmetrics import Process, Snapshot, put_build

if TYPE_CHECKING:
    from analyzer.frame import Frame
    from collector.supervise import Supervisor
    from collector.ticks import Window
    from fabriclens.daemon import Daemon


class Health:
    """Reads the counters that every part keeps, and keeps those of the ticks themselves."""

    def __init__(self, daemon: "Daemon", card: Any) -> None:
        self._daemon = daemon
        self._card = card
        self._process = Process()
        self._ticks = 0
        self._overruns = 0
        self._seconds = 0.0

    def ticked(self, seconds: float, window: "Window") -> None:
        """A tick took so many seconds."""
        self._ticks += 1
        self._overruns += seconds > window.seconds
        self._seconds = seconds

    def snapshot(self, frame: "Frame") -> Snapshot:
        """Everything as it is now."""
        daemon, snapshot = self._daemon, Snapshot()
        put_build(snapshot)
        self._process.put(snapshot)
        snapshot.put("model_info", 1, model=self._card.name, version=self._card.created)
        snapshot.put("frame_timestamp_seconds", frame.time / 1e9)
        snapshot.put("frame_age_seconds", (daemon.clock.now() - frame.time) / 1e9)
        snapshot.put("tick_seconds", frame.seconds)
        snapshot.put("tick_duration_seconds", self._seconds)
        for stage, seconds in daemon.tick.seconds_by_stage.items():
            snapshot.put("tick_stage_duration_seconds", seconds, stage=stage)
        snapshot.put("ticks_total", self._ticks)
        snapshot.put("tick_overruns_total", self._overruns)
        snapshot.put_counts("events_total", "reason", daemon.tick.events.copy())
        if isinstance(daemon.clock, SteadyClock):
            snapshot.put("clock_skew_seconds", daemon.clock.skew())
        snapshot.put("channel_depth", daemon.channel.depth, channel="samples")
        snapshot.put("channel_capacity", daemon.channel.capacity, channel="samples")
        snapshot.put("channel_dropped_rows_total", daemon.channel.dropped_rows, channel="samples")
        for supervisor in daemon.supervisors:
            self._source(snapshot, supervisor)
        if daemon.recorder:
            counts = daemon.recorder.counts
            snapshot.put("recorder_rows_total", counts.rows)
            snapshot.put("recorder_files_total", counts.files)
            snapshot.put("recorder_failures_total", counts.failures)
            snapshot.put("recorder_lost_rows_total", counts.lost_rows)
        daemon.http.put(snapshot)
        return snapshot

    def _source(self, snapshot: Snapshot, supervisor: "Supervisor") -> None:
        health, name = supervisor.health, supervisor.source.name
        snapshot.put("source_up", int(health.success), source=name)
        snapshot.put("source_read_duration_seconds", health.duration_seconds, source=name)
        snapshot.put("source_clock_skew_seconds", health.skew_seconds, source=name)
        snapshot.put("source_rows_total", health.rows, source=name)
        snapshot.put("source_missed_reads_total", health.missed, source=name)
        snapshot.put("source_restarts_total", health.restarts, source=name)
        snapshot.put("source_breaker_open", int(health.breaker_open), source=name)
        if health.last_success is not None:
            age = health.age(self._daemon.clock.monotonic())
            snapshot.put("source_age_seconds", age, source=name)
        snapshot.put_counts("source_failures_total", "reason", health.failures.copy(), source=name)
        dropped = dict(getattr(supervisor.source, "dropped", {}))
        snapshot.put_counts("source_dropped_values_total", "reason", dropped, source=name)
