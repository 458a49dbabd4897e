"""The recorder: what goes in comes out, whatever happens to the process or the disk."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from collector.clock import ManualClock
from collector.concat import concat
from collector.counters import CUMULATIVE, GAUGES
from collector.errors import ConfigError
from collector.ports import PortTable
from collector.record import Batch
from collector.recorder import Recorder
from collector.trace import Trace

START = 1_780_272_000_000_000_000


def batch(rows: int, first: int = 0) -> Batch:
    step = np.arange(first, first + rows)
    return Batch(
        "test",
        START + step.astype(np.int64),
        (step % 3).astype(np.int32),
        {"tx_bytes": step.astype(np.uint64)},
    )


def table(ports: int = 3) -> PortTable:
    names = PortTable()
    for port in range(ports):
        names.intern(f"leaf{port // 2}", f"swp{port}")
    return names


def replayed(directory: Path, ports: PortTable) -> Batch:
    """Everything recorded, with the port ids of the recording."""
    whole = concat(list(Trace.open(directory, ports).batches()))
    whole.check()
    return whole


UINT = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    rows = draw(st.integers(1, 20))
    names = draw(st.lists(st.sampled_from(CUMULATIVE), unique=True, max_size=4))
    gauges = draw(st.lists(st.sampled_from(GAUGES), unique=True, max_size=2))

    def column(strategy: st.SearchStrategy[object], dtype: object) -> np.ndarray:
        return np.array(draw(st.lists(strategy, min_size=rows, max_size=rows)), dtype)

    masks = draw(st.sets(st.sampled_from(names))) if names else set()
    told = column(st.sampled_from([0, START - 5, START + 9]), np.int64)
    return Batch(
        "test",
        column(st.integers(START, START + 50), np.int64),
        column(st.integers(0, 4), np.int32),
        {name: column(UINT, np.uint64) for name in names},
        {name: column(st.floats(allow_infinity=False), np.float64) for name in gauges},
        {name: column(st.booleans(), np.bool_) for name in masks},
        discontinuity=told if draw(st.booleans()) and told.any() else None,
    )


@settings(max_examples=80, deadline=None)
@given(taken=st.lists(batches(), min_size=1, max_size=4), rotate=st.integers(1, 40))
def test_what_is_recorded_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, taken: list[Batch], rotate: int
) -> None:
    directory = tmp_path_factory.mktemp("record")
    ports = table(5)
    recorder = Recorder(directory, ports, rotate_rows=rotate)
    for one in taken:
        recorder.write(one)
    recorder.close()
    assert recorder.counts.failures == 0
    taken = [one for one in taken if one.counters or one.gauges]
    if not taken:
        assert recorder.counts.rows == 0
        return
    want = concat(taken)
    want = want.select(np.argsort(want.time, kind="stable"))
    got = replayed(directory, ports)
    np.testing.assert_array_equal(got.time, want.time)
    np.testing.assert_array_equal(got.port, want.port)
    for name, values in want.counters.items():
        valid = want.valid.get(name, np.ones(len(want), np.bool_))
        np.testing.assert_array_equal(got.valid.get(name, np.ones(len(got), np.bool_)), valid)
        np.testing.assert_array_equal(got.counters[name][valid], values[valid])
    for name, gauge in want.gauges.items():
        np.testing.assert_array_equal(got.gauges[name], gauge)
    if want.discontinuity is not None:
        assert got.discontinuity is not None
        np.testing.assert_array_equal(got.discontinuity, want.discontinuity)


@pytest.mark.parametrize("name", ["captures/ho_moe_small4", "captures-pfc/clean-2"])
def test_a_recorded_capture_replays_alike(shared: Path, tmp_path: Path, name: str) -> None:
    ports = PortTable()
    trace = Trace.open(shared / name, ports)
    recorder = Recorder(tmp_path, ports, rotate_rows=20_000, topology=trace.topology_path)
    for one in trace.batches(rows=7_000):
        recorder.write(one)
    recorder.close()
    assert recorder.counts.files > 1
    (want, *more), (got, *rest) = (
        [*t.batches(1 << 20)] for t in (trace, Trace.open(tmp_path, ports))
    )
    assert not more
    assert not rest
    np.testing.assert_array_equal(got.time, want.time)
    np.testing.assert_array_equal(got.port, want.port)
    assert got.valid.keys() == want.valid.keys()
    for column, values in want.counters.items():
        valid = want.valid.get(column, np.ones(len(want), np.bool_))
        np.testing.assert_array_equal(got.counters[column][valid], values[valid])
    for column, gauge in want.gauges.items():
        np.testing.assert_array_equal(got.gauges[column], gauge)


def test_a_narrow_counter_stays_narrow(tmp_path: Path) -> None:
    ports = table()
    one = batch(6)
    narrow = Batch("test", one.time, one.port, one.counters, narrow=frozenset({"tx_bytes"}))
    recorder = Recorder(tmp_path, ports)
    recorder.write(narrow)
    recorder.close()
    assert replayed(tmp_path, ports).narrow == {"tx_bytes"}


def test_files_are_closed_by_rows_and_by_time(tmp_path: Path) -> None:
    clock = ManualClock()
    recorder = Recorder(tmp_path, table(), rotate_rows=100, rotate_seconds=60, clock=clock)
    recorder.write(batch(60))
    assert list(tmp_path.iterdir()) == [], "constructing and buffering touch nothing"
    recorder.write(batch(60, 60))
    assert recorder.counts.files == 1
    recorder.write(batch(10, 120))
    clock.advance(61)
    recorder.write(batch(10, 130))
    assert recorder.counts.files == 2
    recorder.write(batch(5, 140))
    recorder.close()
    assert recorder.counts.rows == 145
    assert [file.name for file in sorted(tmp_path.glob("*.parquet"))] == [
        f"counters-{number:06d}.parquet" for number in (1, 2, 3)
    ]
    assert recorder.counts.bytes == sum(f.stat().st_size for f in tmp_path.glob("*.parquet"))


def test_a_second_recording_continues_the_numbers(tmp_path: Path) -> None:
    (tmp_path / ".counters-000009.parquet.tmp").write_bytes(b"half")
    for first in (0, 10):
        recorder = Recorder(tmp_path, table())
        recorder.write(batch(10, first))
        recorder.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "counters-000001.parquet",
        "counters-000002.parquet",
        "meta.json",
    ]
    assert len(replayed(tmp_path, table())) == 20


def test_the_format_is_the_documented_one(tmp_path: Path) -> None:
    topology = tmp_path / "fabric.json"
    topology.write_text('{"devices": []}')
    folder = tmp_path / "out"
    recorder = Recorder(folder, table(), topology=topology)
    recorder.write(batch(10, 50))
    recorder.write(batch(10))
    recorder.close()
    file = pq.ParquetFile(folder / "counters-000001.parquet")
    kinds = {field.name: str(field.type) for field in file.schema_arrow}
    assert kinds == {
        "time": "timestamp[ns, tz=UTC]",
        "device": "dictionary<values=string, indices=int32, ordered=0>",
        "port": "dictionary<values=string, indices=int32, ordered=0>",
        "tx_bytes": "uint64",
    }
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert (np.diff(file.read()["time"].cast("int64").to_numpy()) >= 0).all()
    assert (folder / "topology.json").read_text() == topology.read_text()
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["rows"], meta["files"], meta["sources"]) == (20, 1, ["test"])
    assert Trace.open(folder, table()).topology_path == folder / "topology.json"


def test_old_files_make_room(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, table(), rotate_rows=1000)
    recorder.write(batch(1000))
    size = recorder.counts.bytes
    recorder.close()
    recorder = Recorder(tmp_path, table(), rotate_rows=1000, keep_bytes=int(size * 2.5))
    for number in range(1, 5):
        recorder.write(batch(1000, number * 1000))
    recorder.close()
    kept = sorted(tmp_path.glob("*.parquet"))
    assert kept[-1].name == "counters-000005.parquet"
    assert 1 <= len(kept) <= 3
    assert sum(file.stat().st_size for file in kept) <= size * 2.5
    assert recorder.counts.removed_files == 5 - len(kept)
    assert replayed(tmp_path, table()).counters["tx_bytes"][-1] == 4999


def test_two_recorders_cannot_share_a_folder(tmp_path: Path) -> None:
    first, second = (Recorder(tmp_path, table()) for _ in range(2))
    first.open()
    with pytest.raises(ConfigError, match="another recorder"):
        second.open()
    first.close()
    second.open()
    second.close()


def test_a_place_that_is_no_folder_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot record here"):
        Recorder(tmp_path / "file", table()).open()


def test_trouble_with_the_disk_is_counted_once_logged_and_outlived(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.write_text("in the way")
    recorder = Recorder(folder, table(), rotate_rows=10)
    with capture_logs() as logs:
        for first in (0, 10, 20):
            recorder.write(batch(10, first))
    assert (recorder.counts.failures, recorder.counts.lost_rows) == (3, 30)
    assert [entry["log_level"] for entry in logs] == ["error"]
    assert str(folder) in logs[0]["error"]
    folder.unlink()
    with capture_logs() as logs:
        recorder.write(batch(10, 30))
    recorder.close()
    assert [entry["event"] for entry in logs] == ["recording again"]
    assert replayed(folder, table()).counters["tx_bytes"].tolist() == list(range(30, 40))


def test_a_full_disk_leaves_no_debris(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, table(), rotate_rows=10)
    recorder.write(batch(10))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400, hard))
    try:
        recorder.write(batch(10, 10))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert (recorder.counts.failures, recorder.counts.lost_rows) == (1, 10)
    assert not list(tmp_path.glob(".*"))
    recorder.write(batch(10, 20))
    recorder.close()
    assert replayed(tmp_path, table()).counters["tx_bytes"].tolist() == [
        *range(10),
        *range(20, 30),
    ]


ENDLESS = """
import os
import sys
from pathlib import Path
import numpy as np
from collector.ports import PortTable
from collector.record import Batch
from collector.recorder import Recorder


def watch(event, args):
    # A file under its final name is only ever put there by a rename, never written in place.
    if event == "open" and isinstance(args[0], str) and args[0].startswith(sys.argv[1]):
        if "w" in (args[1] or "") and not os.path.basename(args[0]).startswith("."):
            os._exit(3)


sys.addaudithook(watch)
ports = PortTable()
ids = np.array([ports.intern("leaf", f"swp{n}") for n in range(50)], np.int32)
recorder = Recorder(Path(sys.argv[1]), ports, rotate_rows=1000)
step = 0
while True:
    value = np.full(50, step, np.uint64)
    time = np.full(50, 1_780_272_000_000_000_000 + step, np.int64)
    recorder.write(Batch("test", time, ids, {"tx_bytes": value}))
    step += 1
    if step % 20 == 0:
        print(step, recorder.counts.files, flush=True)
"""


def test_a_kill_at_any_instant_loses_at_most_the_open_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    for attempt in range(6):
        directory = tmp_path / str(attempt)
        with subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(directory)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(float(rng.uniform(0.0, 0.25)))
            os.kill(process.pid, signal.SIGKILL)
            said = process.stdout.read().splitlines()
        assert process.returncode == -signal.SIGKILL
        steps, files = map(int, (said[-1] if said else "20 1").split())
        got = replayed(directory, PortTable())
        # Every finished file is there in full, one after another, and nothing twice.
        np.testing.assert_array_equal(
            got.counters["tx_bytes"], np.repeat(np.arange(len(got) // 50), 50)
        )
        assert len(got) % 1000 == 0
        assert len(got) >= 1000 * files
        assert len(got) >= 50 * steps - 1000
        json.loads((directory / "meta.json").read_text())
        recorder = Recorder(directory, table())
        recorder.write(batch(3, 10**9))
        recorder.close()
        assert len(replayed(directory, PortTable())) == len(got) + 3
        assert not list(directory.glob(".*"))


def test_counters_that_are_narrow_on_some_ports_stay_so(tmp_path: Path) -> None:
    """A 32-bit and a 64-bit port of one counter, recorded together."""
    ports = PortTable()
    narrow, wide = ports.intern("host", "old"), ports.intern("host", "new")
    recorder = Recorder(tmp_path / "out", ports)
    for second in range(3):
        for port, marks in ((narrow, frozenset({"rx_bytes"})), (wide, frozenset[str]())):
            recorder.write(
                Batch(
                    "test",
                    np.array([1_780_000_000_000_000_000 + second * 10**9], np.int64),
                    np.array([port], np.int32),
                    {"rx_bytes": np.array([second * 1000], np.uint64)},
                    narrow=marks,
                )
            )
    recorder.close()

    again = PortTable()
    marked = {}
    for batch in Trace.open(tmp_path / "out", again).batches():
        for port in batch.port.tolist():
            rows = batch.port == port
            told = batch.narrow_rows.get("rx_bytes", np.full(len(rows), "rx_bytes" in batch.narrow))
            marked[again.ports[port]] = bool(told[rows].all())
    assert marked == {"old": True, "new": False}
