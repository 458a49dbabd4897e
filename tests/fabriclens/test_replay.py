"""A trace through the daemon's own tick: findings, determinism, and traces that are broken."""

import asyncio
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from collector.errors import TraceError
from fabriclens.offline import Replay, replay
from tests.fabriclens.traces import HOST_TOTAL, LEAF_TOTAL, SECONDS, same, write_small


def run(trace, **options):
    frames = []
    summary = asyncio.run(replay(Replay(trace=trace, **options), each=frames.append))
    return frames, summary


def test_small_trace_gives_the_values_worked_out_by_hand(tmp_path):
    frames, summary = run(write_small(tmp_path / "trace"))

    assert 1.0 == summary["tick_seconds"]
    assert SECONDS == summary["ticks"]
    last = frames[-1]
    host, leaf = last.devices.index("h0"), last.devices.index("leaf0")
    assert HOST_TOTAL == last.measured.total("tx_bytes")[host]
    assert LEAF_TOTAL == last.measured.total("rx_bytes")[leaf]
    assert 0.1 == pytest.approx(last.congestion.tx_utilization[host])
    assert 0.1 == pytest.approx(last.congestion.rx_utilization[leaf])
    assert 1 == summary["events"]["reset"]


def test_findings_hold_a_row_per_tick_and_live_port(tmp_path):
    out = tmp_path / "out"
    frames, summary = run(write_small(tmp_path / "trace"), out=out)
    found = pq.read_table(out / "ports.parquet")

    assert 2 * len(frames) == found.num_rows
    assert [
        "time", "device", "port", "label", "reason", "share_parameter_sync",
        "share_gradient_update", "share_all_to_all", "share_other", "share_idle", "confidence",
        "tx_bytes_per_second", "rx_bytes_per_second", "utilization", "held", "congestion_score",
        "congestion_cause",
    ] == found.column_names  # fmt: skip
    shares = np.column_stack([found[name] for name in found.column_names if "share" in name])
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    assert {"none"} == set(found["congestion_cause"].to_pylist())
    assert "suggestions" in summary
    assert {"in_force", "history"} <= set(json.loads((out / "routes.json").read_text()))


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
    frames, summary = run(root / "replay_data/degraded_link")

    hot = {(port["device"], port["port"]) for port in summary_ports(frames)}
    assert ("leaf0", "Ethernet52") in hot or ("leaf0", "Ethernet68") in hot or hot
    weights = [one for one in frames[-1].suggestions if one.kind == "set_weights"]
    assert weights
    assert {"leaf0", "leaf1"} == {one.device for one in weights}


def summary_ports(frames):
    score = np.nanmax([frame.congestion.score[: len(frames[0].ports)] for frame in frames], axis=0)
    return [
        {"device": frames[0].devices[port], "port": frames[0].ports[port]}
        for port in np.flatnonzero(score >= 0.5)
    ]


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

    assert ["colour"] == summary["ignored_columns"]
