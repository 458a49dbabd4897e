"""A trace through the daemon's own tick: findings, determinism, and traces that are broken."""

import asyncio
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from collector.errors import ConfigError, TraceError
from fabriclens.offline import Replay, replay
from tests.fabriclens.traces import HOST_TOTAL, LEAF_TOTAL, SECONDS, same, write_small


def run(trace, **options):
    frames = []
    summary = asyncio.run(replay(Replay(trace=trace, **options), each=frames.append))
    return frames, summary


def test_small_trace_gives_the_values_worked_out_by_hand(tmp_path):
    frames, summary = run(write_small(tmp_path / "trace"))

    assert summary["tick_seconds"] == 1.0
    assert summary["ticks"] == SECONDS
    last = frames[-1]
    host, leaf = last.devices.index("h0"), last.devices.index("leaf0")
    assert last.measured.total("tx_bytes")[host] == HOST_TOTAL
    assert last.measured.total("rx_bytes")[leaf] == LEAF_TOTAL
    assert pytest.approx(last.congestion.tx_utilization[host]) == 0.1
    assert pytest.approx(last.congestion.rx_utilization[leaf]) == 0.1
    assert summary["events"]["reset"] == 1


def test_findings_hold_a_row_per_tick_and_live_port(tmp_path):
    out = tmp_path / "out"
    frames, summary = run(write_small(tmp_path / "trace"), out=out)
    found = pq.read_table(out / "ports.parquet")

    assert 2 * len(frames) == found.num_rows
    assert found.column_names == [
        "time", "device", "port", "label", "reason", "share_parameter_sync",
        "share_gradient_update", "share_all_to_all", "share_other", "share_idle", "confidence",
        "tx_bytes_per_second", "rx_bytes_per_second", "utilization", "held", "congestion_score",
        "congestion_cause",
    ]  # fmt: skip
    shares = np.column_stack([found[name] for name in found.column_names if "share" in name])
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    assert {"none"} == set(found["congestion_cause"].to_pylist())
    assert "suggestions" in summary
    assert {"suggestions", "history"} <= set(json.loads((out / "routes.json").read_text()))


@pytest.mark.parametrize("name", ["fsdp", "degraded_link"])
def test_pace_does_not_change_a_single_value(root, name, tmp_path):
    """Full speed and twenty times real time, on a part of a real recording."""
    trace = shortened(root / "replay_data" / name, tmp_path / name, seconds=8)
    fast, _ = run(trace, speed="max", tick=0.1)
    paced, _ = run(trace, speed=20.0, tick=0.1)

    assert len(fast) == len(paced) > 70
    for one, other in zip(fast, paced, strict=True):
        same(one, other)


def shortened(trace, folder, seconds):
    """The first seconds of a trace."""
    table = pq.read_table(trace / "counters.parquet")
    time = table["time"].cast("int64").to_numpy()
    folder.mkdir(parents=True)
    kept = table.filter(time < time.min() + seconds * 1_000_000_000)
    pq.write_table(kept, folder / "counters.parquet")
    (folder / "topology.json").write_bytes((trace / "topology.json").read_bytes())
    return folder


def test_degraded_link_is_found_and_avoided(root):
    """The slow link's two ends are the ports that hurt most, and weights go round it."""
    frames, _ = run(root / "replay_data/degraded_link")

    score = np.stack([np.nan_to_num(frame.congestion.score) for frame in frames])
    worst = np.argsort((score >= 0.5).sum(axis=0))[-2:]
    names = {(frames[0].devices[port], frames[0].ports[port]) for port in worst}
    assert names == {("leaf0", "Ethernet20"), ("spine1", "Ethernet0")}
    weights = {one.device: dict(one.weights) for one in frames[-1].suggestions if one.destination}
    assert set(weights) == {"leaf0", "leaf1"}
    assert weights["leaf0"]["Ethernet16"] == 5 * weights["leaf0"]["Ethernet20"]


def test_broken_trace_leaves_no_findings_behind(tmp_path):
    trace = write_small(tmp_path / "trace")
    whole = (trace / "counters.parquet").read_bytes()
    (trace / "counters.parquet").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(TraceError, match=r"counters\.parquet"):
        run(trace, out=tmp_path / "out")
    assert not (tmp_path / "out" / "ports.parquet").exists()


def test_unknown_columns_are_said_not_fatal(tmp_path):
    trace = write_small(tmp_path / "trace")
    table = pq.read_table(trace / "counters.parquet")
    extra = table.append_column("colour", table["port"])
    pq.write_table(extra, trace / "counters.parquet")
    _, summary = run(trace)

    assert summary["ignored_columns"] == ["colour"]


def test_without_a_folder_the_summary_still_tells(tmp_path):
    _, summary = run(write_small(tmp_path / "trace"))

    assert summary["ports"] == 2
    assert summary["bytes_by_label"]
    assert summary["suggestions"] == []


def test_a_topology_that_fits_no_port_shows(tmp_path):
    trace = write_small(tmp_path / "trace")
    wrong = tmp_path / "wrong.json"
    wrong.write_text((trace / "topology.json").read_text().replace("eth0", "e0").replace("p1", "q"))
    _, fits = run(trace)
    _, misfits = run(trace, topology=wrong)

    assert (fits["links"], fits["links_seen"]) == (1, 1)
    assert (misfits["links"], misfits["links_seen"]) == (1, 0)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    trace = write_small(tmp_path / "trace")
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ConfigError, match="file"):
        run(trace, out=tmp_path / "file")
