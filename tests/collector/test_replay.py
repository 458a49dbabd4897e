"""Replay: the pace of the recording, and counters that go on rising over the seam."""

import asyncio
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from collector.clock import ManualClock
from collector.concat import concat
from collector.errors import TraceError
from collector.ports import PortTable
from collector.record import Batch
from collector.sources.replay import ReplayConfig, ReplaySource
from collector.trace import Trace

START = 1_780_272_000_000_000_000
TICK = 10_000_000
UTC = pa.timestamp("ns", tz="UTC")


def recorded(path: Path, *, rounds: int = 30, ports: int = 3) -> Path:
    step = np.repeat(np.arange(rounds), ports)
    port = np.tile(np.arange(ports), rounds)
    sent = 1_000_000 + step * 100 * (port + 1)
    pq.write_table(
        pa.table(
            {
                "time": pa.array(START + step * TICK).cast(UTC),
                "device": pa.array(["leaf"] * len(step)),
                "port": pa.array([f"swp{p}" for p in port]),
                "tx_bytes": pa.array(sent.astype(np.uint64)),
                "rx_bytes": pa.array(((sent * 4000) % 2**32).astype(np.uint32)),
                "rx_packets": pa.array(step.astype(np.uint64) + 5, mask=step % 3 != 1),
                "tx_errors": pa.array(np.where(step < 20, step + 70, step - 20).astype(np.uint64)),
                "queue_bytes": pa.array(step.astype(np.float64)),
            }
        ),
        path,
    )
    return path


def source(path: Path, clock: ManualClock | None = None, **options: object) -> ReplaySource:
    config = ReplayConfig.model_validate({"path": path, **options})
    return ReplaySource(config, PortTable(), clock or ManualClock())


async def collected(replay: ReplaySource, rows: int | None = None) -> list[Batch]:
    batches: list[Batch] = []
    async for batch in replay.collect():
        batch.check()
        batches.append(batch)
        if rows is not None and replay.rows >= rows:
            break
    return batches


async def test_full_speed_yields_the_trace(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a.parquet")
    clock = ManualClock()
    replay = source(path, clock, speed="max", name="lab")
    (batch,) = await collected(replay)
    (want,) = Trace.open(path, PortTable()).batches()
    np.testing.assert_array_equal(batch.time, want.time)
    np.testing.assert_array_equal(batch.counters["tx_bytes"], want.counters["tx_bytes"])
    assert (batch.source, batch.received, clock.monotonic()) == ("lab", None, 0)
    assert (replay.passes, replay.rows, replay.position) == (1, 90, START + 29 * TICK)


@pytest.mark.parametrize("speed", [0.5, 1.0, 20.0])
async def test_batches_come_when_they_are_due(tmp_path: Path, speed: float) -> None:
    clock = ManualClock()
    replay = source(recorded(tmp_path / "a.parquet"), clock, speed=speed)
    before = -1.0
    slices = 0
    async for batch in replay.collect():
        elapsed = clock.monotonic() / 1e9
        due = (int(batch.time[-1]) - START) / 1e9 / speed
        assert elapsed == pytest.approx(due, abs=1e-6)
        assert (int(batch.time[-1]) - int(batch.time[0])) / 1e9 / speed <= 0.05
        assert elapsed > before
        before = elapsed
        slices += 1
    assert replay.rows == 90
    assert slices == {0.5: 12, 1.0: 6, 20.0: 1}[speed]
    assert replay.lag == pytest.approx(0, abs=1e-6)


async def test_pace_does_not_change_the_rows(shared: Path) -> None:
    path = shared / "captures" / "ho_moe_small4"
    fast = concat(await collected(source(path, speed="max")))
    slow = concat(await collected(source(path, speed=20)))
    np.testing.assert_array_equal(fast.time, slow.time)
    np.testing.assert_array_equal(fast.port, slow.port)
    for name, values in fast.counters.items():
        np.testing.assert_array_equal(values, slow.counters[name])


async def test_realtime_begins_now(tmp_path: Path) -> None:
    clock = ManualClock(start=START + 10**15)
    (batch,) = await collected(
        source(recorded(tmp_path / "a.parquet"), clock, speed="max", realtime=True)
    )
    assert batch.time[0] == START + 10**15
    assert batch.time[-1] - batch.time[0] == 29 * TICK


@pytest.mark.parametrize("speed", ["max", 5.0])
async def test_a_loop_goes_on_without_a_seam(tmp_path: Path, speed: object) -> None:
    replay = source(recorded(tmp_path / "a.parquet"), speed=speed, loop=True)
    whole = concat(await collected(replay, rows=4 * 90))
    assert replay.passes >= 3
    assert len(whole) >= 360
    for port in range(3):
        mine = whole.select(whole.port == port)
        np.testing.assert_array_equal(np.diff(mine.time), TICK)
        sent = np.diff(mine.counters["tx_bytes"].astype(np.int64))
        assert set(sent.tolist()) == {0, 100 * (port + 1)}
        assert (sent == 0).sum() == len(mine) // 30 - (len(mine) % 30 == 0)
        narrow = np.diff(mine.counters["rx_bytes"]) % np.uint64(2**32)
        assert set(narrow.tolist()) <= {0, 400_000 * (port + 1)}
        assert mine.counters["rx_bytes"].max() < 2**32
        present = mine.counters["rx_packets"][mine.valid["rx_packets"]].astype(np.int64)
        assert (np.diff(present) >= 0).all()


async def test_a_reset_within_the_trace_repeats_as_it_was(tmp_path: Path) -> None:
    replay = source(recorded(tmp_path / "a.parquet"), speed="max", loop=True)
    whole = concat(await collected(replay, rows=180))
    mine = whole.select(whole.port == 0).counters["tx_errors"]
    np.testing.assert_array_equal(mine[:30], mine[30:60])


async def test_a_loop_over_a_real_capture_never_falls(shared: Path) -> None:
    path = shared / "captures" / "ho_moe_small4"
    replay = source(path, speed="max", loop=True)
    whole = concat(await collected(replay, rows=200_000))
    assert replay.passes >= 2
    assert (np.diff(whole.time) >= 0).all()
    for name in ("tx_bytes", "rx_bytes", "tx_packets", "retransmits"):
        for port in np.unique(whole.port):
            mine = whole.port == port
            if name in whole.valid:
                mine &= whole.valid[name]
            assert (np.diff(whole.counters[name][mine].astype(np.int64)) >= 0).all(), name


async def test_a_loop_never_starves_the_event_loop(tmp_path: Path) -> None:
    replay = source(recorded(tmp_path / "a.parquet"), speed="max", loop=True)
    task = asyncio.create_task(collected(replay))
    await asyncio.sleep(0.2)
    assert replay.passes > 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 1)


async def test_a_bad_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nowhere"):
        await collected(source(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    "options", [{"speed": 0}, {"speed": "slow"}, {"speed": float("inf")}, {"sped": 1}, {"name": ""}]
)
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ReplayConfig.model_validate({"path": "x", **options})
