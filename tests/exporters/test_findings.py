"""Findings on disk, read back with pyarrow."""

import math
from dataclasses import replace

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collector.errors import ConfigError
from exporters.documents import iso_time
from exporters.findings import SCHEMA, FindingsWriter
from tests.exporters.frames import AVOID, START, WEIGHTS, large_frame, small_frame

SECOND = 1_000_000_000


def test_the_rows_of_a_small_replay(tmp_path):
    with FindingsWriter(tmp_path / "out") as writer:
        for number in range(3):
            writer.write(small_frame(number))
    table = pq.read_table(tmp_path / "out" / "ports.parquet")
    assert table.schema.equals(SCHEMA)
    assert table.schema.field("time").type == pa.timestamp("ns", tz="UTC")
    rows = table.to_pylist()
    assert len(rows) == 9  # three live ports in three ticks
    first, _, unknown = rows[:3]
    assert table["time"].cast(pa.int64()).to_pylist() == sorted(
        [START, START + SECOND, START + 2 * SECOND] * 3
    )
    assert first == {
        "time": first["time"],
        "device": "leaf0",
        "port": "p0",
        "label": "gradient_update",
        "reason": None,
        "share_parameter_sync": 0.25,
        "share_gradient_update": 0.75,
        "share_all_to_all": 0.0,
        "share_other": 0.0,
        "share_idle": 0.0,
        "confidence": first["confidence"],
        "tx_bytes_per_second": 1000.0,
        "rx_bytes_per_second": 10.0,
        "utilization": 0.5,
        "held": 0.0,
        "congestion_score": 0.125,
        "congestion_cause": "none",
    }
    assert (unknown["label"], unknown["reason"]) == ("unknown", "speed_unknown")
    assert math.isnan(unknown["utilization"])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "ports.parquet",
        "routes.json",
        "summary.json",
    ]


@pytest.mark.parametrize("group", [1, 7, 10, 64, 1000])
def test_row_groups_cut_anywhere_lose_nothing(tmp_path, group):
    frames = [large_frame(5 + number * 3, number=number) for number in range(6)]
    for frame in frames:
        frame.measured.live[::4] = False
    writer = FindingsWriter(tmp_path, rows_per_group=group)
    for frame in frames:
        writer.write(frame)
    writer.close()
    table = pq.read_table(tmp_path / "ports.parquet")
    live = [frame.measured.live for frame in frames]
    expected = np.concatenate(
        [f.congestion.score[m] for f, m in zip(frames, live, strict=True)]
    ).astype(np.float32)
    assert np.array_equal(table["congestion_score"].to_numpy(), expected)
    names = [
        frame.ports[port]
        for frame, mask in zip(frames, live, strict=True)
        for port in np.flatnonzero(mask)
    ]
    assert table["port"].to_pylist() == names
    metadata = pq.ParquetFile(tmp_path / "ports.parquet").metadata
    assert metadata.num_row_groups == -(-len(names) // group)


def test_frames_may_be_changed_after_they_were_written(tmp_path):
    with FindingsWriter(tmp_path) as writer:
        frame = large_frame(4)
        score = frame.congestion.score.astype(np.float32)
        writer.write(frame)
        frame.congestion.score[:] = -1.0
    table = pq.read_table(tmp_path / "ports.parquet")
    assert np.array_equal(table["congestion_score"].to_numpy(), score)


def test_the_summary(tmp_path):
    writer = FindingsWriter(tmp_path)
    for number in range(4):
        frame = small_frame(number)
        if number == 2:
            frame.congestion.score[:2] = [0.6, 0.1]
        writer.write(frame)
    summary = writer.close({"trace": "demo"})
    assert summary == orjson.loads((tmp_path / "summary.json").read_bytes())
    assert summary["trace"] == "demo"
    assert (summary["ports"], summary["ticks"], summary["rows"]) == (3, 4, 12)
    assert summary["from"] == iso_time(START - SECOND)
    assert summary["to"] == iso_time(START + 3 * SECOND)
    assert summary["bytes_by_label"] == {
        "parameter_sync": 1000,
        "gradient_update": 3000,
        "all_to_all": 4000,
        "other": 0,
        "idle": 0,
        "unknown": 4000,
    }
    assert summary["congested_ports"] == [
        {"device": "leaf0", "port": "p1", "max_score": 0.875, "ticks_congested": 3},
        {"device": "leaf0", "port": "p0", "max_score": 0.6, "ticks_congested": 1},
    ]
    assert [one["id"] for one in summary["suggestions"]] == [AVOID.id, WEIGHTS.id]


def test_the_history_of_suggestions(tmp_path):
    again = replace(AVOID, since=START + 3 * SECOND)
    heavier = replace(WEIGHTS, weights=(("p0", 3), ("p1", 1)))
    with FindingsWriter(tmp_path) as writer:
        for number, suggestions in enumerate(
            [(), (AVOID,), (WEIGHTS,), (again, heavier), (again, heavier)]
        ):
            writer.write(small_frame(number, suggestions=suggestions))
    routes = orjson.loads((tmp_path / "routes.json").read_bytes())
    assert routes["time"] == iso_time(START + 4 * SECOND)
    assert [one["id"] for one in routes["suggestions"]] == [AVOID.id, WEIGHTS.id]
    lives = [(one["id"], one["appeared"], one["withdrawn"]) for one in routes["history"]]
    assert lives == [
        (AVOID.id, iso_time(START), iso_time(START + 2 * SECOND)),
        (WEIGHTS.id, iso_time(START), None),
        (AVOID.id, iso_time(START + 3 * SECOND), None),
    ]
    assert routes["history"][1]["weights"] == {"p0": 3, "p1": 1}


def test_no_tick_at_all_makes_empty_files(tmp_path):
    with FindingsWriter(tmp_path):
        pass
    table = pq.read_table(tmp_path / "ports.parquet")
    assert len(table) == 0
    assert table.schema.equals(SCHEMA)
    assert orjson.loads((tmp_path / "summary.json").read_bytes())["from"] is None


def test_a_failure_leaves_the_earlier_findings(tmp_path):
    with FindingsWriter(tmp_path) as writer:
        writer.write(small_frame())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail() -> None:
        with FindingsWriter(tmp_path) as writer:
            writer.write(large_frame(10))
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        fail()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file: cannot hold findings"):
        FindingsWriter(tmp_path / "file")
