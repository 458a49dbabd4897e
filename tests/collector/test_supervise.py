"""The supervisor: on time without drift, patient with failures, quick to stop."""

import asyncio
import random
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs

from collector import trace as module
from collector.channel import Channel
from collector.clock import ManualClock, SteadyClock
from collector.errors import ConfigError, NoData, SourceUnavailable, TraceError
from collector.ports import PortTable
from collector.record import Batch
from collector.sources.replay import ReplayConfig, ReplaySource
from collector.supervise import Retry, SourceHealth, Supervisor

Step = Callable[[ManualClock], "Batch | None"]


class Stop(BaseException):
    """Ends a scripted source, and its supervisor with it."""


def sample(clock: ManualClock, ahead: float = 0.0) -> Batch:
    time = np.array([clock.now() + round(ahead * 1e9)], np.int64)
    return Batch("scripted", time, np.zeros(1, np.int32), {"tx_bytes": np.ones(1, np.uint64)})


def works(clock: ManualClock) -> Batch:
    return sample(clock)


def fails(error: Exception) -> Step:
    def step(_: ManualClock) -> Batch:
        raise error

    return step


def takes(seconds: float) -> Step:
    def step(clock: ManualClock) -> Batch:
        clock.advance(seconds)
        return sample(clock)

    return step


class Scripted:
    """A source that follows a script: one step a poll, or a batch of steps a stream."""

    name = "scripted"

    def __init__(
        self, clock: ManualClock, *steps: Step | list[Step], interval: float | None = 1.0
    ) -> None:
        self.interval = interval
        self.polls: list[float] = []
        self.closed = False
        self._clock = clock
        self._steps = list(steps)

    async def collect(self) -> AsyncGenerator[Batch, None]:
        if not self._steps:
            raise Stop
        self.polls.append(self._clock.monotonic() / 1e9)
        step = self._steps.pop(0)
        for one in step if isinstance(step, list) else [step]:
            batch = one(self._clock)
            if batch is not None:
                yield batch

    async def close(self) -> None:
        self.closed = True


FIRM = Retry(first=2.0, longest=30.0, breaker_after=4, probe=100.0)


class Never(random.Random):
    """No chance: `random` is 0 and `uniform` its upper end, so waits are exact."""

    def random(self) -> float:
        return 0.0

    def uniform(self, a: float, b: float) -> float:
        return b


async def supervised(
    clock: ManualClock, *steps: Step | list[Step], interval: float | None = 1.0, **options: object
) -> tuple[Scripted, Supervisor, Channel]:
    source = Scripted(clock, *steps, interval=interval)
    channel = Channel(10_000)
    options = {"retry": FIRM, "chance": Never(), **options}
    supervisor = Supervisor(source, channel, clock, **options)
    with pytest.raises(Stop):
        await supervisor.run()
    assert source.closed
    return source, supervisor, channel


async def test_polls_keep_to_a_grid() -> None:
    steps = [takes(seconds) for seconds in (0.1, 0.7, 0.3, 0.9, 0.0)]
    source, supervisor, channel = await supervised(ManualClock(), *steps)
    assert source.polls == [0, 1, 2, 3, 4]
    health = supervisor.health
    assert (health.rows, health.batches, health.missed) == (5, 5, 0)
    assert health.success
    assert [len(batch) for batch in channel.drain()] == [1] * 5


async def test_slow_polls_skip_and_count_what_they_missed() -> None:
    source, supervisor, _ = await supervised(ManualClock(), takes(3.4), takes(0.1), works)
    assert source.polls == [0, 4, 5]
    assert supervisor.health.missed == 3


async def test_jitter_spreads_polls_without_drift() -> None:
    source, _, _ = await supervised(
        ManualClock(), *[works] * 200, jitter=0.3, chance=random.Random(1)
    )
    late = np.array(source.polls) - np.arange(200)
    assert late.min() >= 0
    assert 0.25 < late.max() <= 0.3
    assert len(np.unique(late)) > 150


async def test_failures_back_off_open_the_breaker_and_heal() -> None:
    down = fails(SourceUnavailable("peer 10.0.0.1 refuses", reason="refused"))
    with capture_logs() as logs:
        source, supervisor, _ = await supervised(ManualClock(), *[down] * 6, works, works)
    # 2, 4 and 8 seconds; then one probe every 110 (100 and the jitter's upper end).
    assert source.polls == [0, 2, 6, 14, 124, 234, 344, 345]
    health = supervisor.health
    assert health.failures == {"refused": 6}
    assert (health.success, health.breaker_open, health.consecutive_failures) == (True, False, 0)
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("source unavailable", "warning"),
        ("source unavailable", "warning"),
        ("source works again", "info"),
    ]
    assert [entry["breaker_open"] for entry in logs[:2]] == [False, True]


async def test_an_open_breaker_shows() -> None:
    down = fails(SourceUnavailable("gone"))
    _, supervisor, _ = await supervised(ManualClock(), works, *[down] * 4)
    health = supervisor.health
    assert (health.breaker_open, health.success, health.consecutive_failures) == (True, False, 4)
    assert health.last_success == 0
    assert health.age(5_000_000_000) == 5.0
    assert SourceHealth().age(0) == float("inf")


def test_backoff_is_jittered_and_bounded() -> None:
    retry, chance = Retry(first=1, longest=8, breaker_after=10, probe=60), random.Random(2)
    for failures, longest in ((1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (9, 8)):
        waits = [retry.seconds(failures, chance) for _ in range(200)]
        assert longest / 2 <= min(waits) < 0.6 * longest
        assert 0.9 * longest < max(waits) <= longest
    assert all(54 <= retry.seconds(failures, chance) <= 66 for failures in (10, 11, 5000))


async def test_no_data_is_no_failure() -> None:
    source, supervisor, _ = await supervised(ManualClock(), fails(NoData("idle")), works)
    assert source.polls == [0, 1]
    assert not supervisor.health.failures
    assert supervisor.health.success


async def test_a_configuration_error_propagates() -> None:
    clock = ManualClock()
    source = Scripted(clock, fails(ConfigError("no such field")))
    with pytest.raises(ConfigError):
        await Supervisor(source, Channel(10), clock).run()


async def test_a_bug_is_counted_and_logged_once_a_minute() -> None:
    bug = fails(KeyError("oops"))
    with capture_logs() as logs:
        source, supervisor, _ = await supervised(
            ManualClock(), *[bug] * 20, retry=Retry(first=8, longest=8, breaker_after=99)
        )
    assert supervisor.health.failures == {"bug": 20}
    bugs = [entry for entry in logs if entry["event"] == "bug in a source"]
    assert len(bugs) == 1 + int(source.polls[-1] // 64)
    assert isinstance(bugs[0]["exc_info"], KeyError)


async def test_a_bug_propagates_in_strict_mode() -> None:
    clock = ManualClock()
    supervisor = Supervisor(
        Scripted(clock, fails(KeyError("oops"))), Channel(10), clock, strict=True
    )
    with pytest.raises(KeyError):
        await supervisor.run()
    assert supervisor.health.failures == {"bug": 1}


async def test_skew_and_arrival_are_noted() -> None:
    clock = ManualClock()

    def ahead(clock: ManualClock) -> Batch:
        return sample(clock, ahead=2.5)

    _, supervisor, channel = await supervised(clock, works, ahead)
    assert supervisor.health.skew_seconds == pytest.approx(2.5)
    assert [batch.received for batch in channel.drain()] == [0, 1_000_000_000]


class Hanging:
    """A source that never answers; tells whether it was let go of."""

    name = "hanging"
    left = closed = False

    def __init__(self, interval: float | None) -> None:
        self.interval = interval

    async def collect(self) -> AsyncGenerator[Batch, None]:
        try:
            await asyncio.Event().wait()
            yield sample(ManualClock())
        finally:
            self.left = True

    async def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("interval", [None, 1.0])
async def test_a_hanging_source_times_out(interval: float | None) -> None:
    source = Hanging(interval)
    supervisor = Supervisor(source, Channel(10), SteadyClock(), timeout=0.02, retry=FIRM)
    task = asyncio.create_task(supervisor.run())
    await asyncio.sleep(0.1)
    assert supervisor.health.failures == {"timeout": 1}
    assert source.left
    assert not source.closed
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 1)


@pytest.mark.parametrize("interval", [None, 1.0])
async def test_cancelling_is_quick_and_closes_the_source(interval: float | None) -> None:
    source = Hanging(interval)
    task = asyncio.create_task(Supervisor(source, Channel(10), SteadyClock()).run())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 1)
    assert source.left
    assert source.closed


async def test_a_source_that_does_not_close_is_left_behind() -> None:
    source = Hanging(1.0)
    source.close = asyncio.Event().wait
    supervisor = Supervisor(source, Channel(10), SteadyClock())
    task = asyncio.create_task(supervisor.run())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 1)
    assert supervisor.health.failures == {"close": 1}


async def test_a_stream_is_opened_again() -> None:
    lost: list[Step] = [works, works, fails(SourceUnavailable("cut", reason="cut"))]
    source, supervisor, _ = await supervised(
        ManualClock(), lost, [works], [fails(OSError("x"))], [works, works], interval=None
    )
    health = supervisor.health
    # A batch resets the backoff: cut, ended, and then the first two failures in a row.
    assert source.polls == [0, 2, 4, 8]
    assert health.failures == {"cut": 1, "ended": 2, "bug": 1}
    assert (health.rows, health.restarts) == (5, 4)


def recorded(path: Path, rows: int = 3000) -> Path:
    step = np.arange(rows)
    pq.write_table(
        pa.table(
            {
                "time": pa.array(1_780_272_000_000_000_000 + step),
                "device": pa.array(["leaf"] * rows),
                "port": pa.array(["swp1"] * rows),
                "tx_bytes": pa.array(step.astype(np.uint64)),
            }
        ),
        path,
    )
    return path


async def test_a_replay_waits_for_room_and_ends(tmp_path: Path) -> None:
    clock = ManualClock()
    config = ReplayConfig(path=recorded(tmp_path / "a.parquet"), speed=1e-6)
    replay = ReplaySource(config, PortTable(), clock)
    channel = Channel(100)
    supervisor = Supervisor(replay, channel, clock)
    task = asyncio.create_task(supervisor.run())
    seen: list[int] = []
    while len(seen) < 3000:
        batch = await asyncio.wait_for(channel.get(), 5)
        assert batch is not None
        assert batch.received is None
        seen += batch.counters["tx_bytes"].tolist()
    await asyncio.wait_for(task, 1)
    assert seen == list(range(3000))
    assert (channel.dropped_rows, supervisor.health.ended) == (0, True)
    assert supervisor.health.success


async def test_a_damaged_trace_ends_a_replay(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    clock = ManualClock()
    replay = ReplaySource(ReplayConfig(path=tmp_path / "a.parquet"), PortTable(), clock)
    supervisor = Supervisor(replay, Channel(100), clock)
    with pytest.raises(TraceError):
        await supervisor.run()
    assert supervisor.health.failures == {"empty": 1}


async def test_a_replay_reads_its_file_off_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()
    genuine = module.opened

    def watched(path: Path, names: object = ()) -> object:
        seen.add(threading.get_ident())
        return genuine(path, names)

    monkeypatch.setattr(module, "opened", watched)
    clock = ManualClock()
    config = ReplayConfig(path=recorded(tmp_path / "a.parquet"), speed="max")
    await Supervisor(ReplaySource(config, PortTable(), clock), Channel(10_000), clock).run()
    assert seen
    assert threading.get_ident() not in seen
