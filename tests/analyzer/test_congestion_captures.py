"""The score against the known truth of the simulated captures and the signs of the real ones."""

import json

import numpy as np
import pytest

from analyzer.congestion import CongestionScorer
from analyzer.frame import EVIDENCE

EPOCH = 1_780_272_000_000_000_000  # 2026-06-01T00:00:00Z, time zero of the simulated captures


def scored(capture):
    """(ticks,) ends, (ticks, P) scores, utilisations and evidence."""
    scorer = CongestionScorer()
    found = [scorer.update(tick, capture.fabric) for tick in capture.ticks]
    return (
        np.array([tick.time for tick in capture.ticks]),
        np.array([one.score for one in found]),
        np.array([one.tx_utilization for one in found]),
        np.array([one.evidence for one in found]),
    )


def ports_of(capture, rows):
    return {capture.ports.find(row["device"], row["port"]) for row in rows}


def against_truth(capture, seconds):
    """Precision, recall, recall of the roots that are not minor: over all rounds together."""
    end, score, used, _ = scored(capture)
    hits = claims = true = roots_hit = roots = 0
    for one in json.loads((capture.folder / "truth.json").read_text())["rounds"]:
        begins, ends = EPOCH + one["start_ns"], EPOCH + one["end_ns"]
        within = (end > begins) & (end - round(seconds * 1e9) < ends)
        hot = (score[within] >= 0.5).sum(axis=0)
        active = (used[within] > 0.05).sum(axis=0)
        claimed = set(np.flatnonzero((hot >= 2) & (hot >= 0.2 * active)).tolist())
        root = ports_of(capture, (row for row in one["bottlenecks"] if not row["minor"]))
        truth = ports_of(
            capture, one["bottlenecks"] + one["victim_ports"] + one["overloaded_but_held"]
        )
        hits += len(claimed & truth)
        claims += len(claimed)
        true += len(truth)
        roots_hit += len(claimed & root)
        roots += len(root)
    return hits / claims, hits / true, roots_hit / roots


@pytest.mark.parametrize("seconds", [0.05, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("name", ["clean-1", "clean-2"])
def test_full_links_of_a_clean_fabric_are_never_congested(replayed, name, seconds):
    _, score, used, _ = scored(replayed(f"captures-pfc/{name}", seconds))
    if seconds < 0.5:
        assert (used >= 0.9).sum() > 1000
    assert not (score >= 0.5).any()


@pytest.mark.parametrize(
    ("name", "precision", "recall", "root_recall"),
    [
        ("ecmp-collision-1", 0.97, 0.88, 0.82),
        ("ecmp-collision-2", 0.97, 0.90, 0.82),
        ("two-jobs-1", 0.92, 0.95, 0.90),
        ("two-jobs-2", 0.85, 0.90, 0.85),
        ("incast-1", 0.93, 0.97, 1.0),
        ("incast-2", 0.93, 0.97, 1.0),
        ("slow-receiver-1", 0.90, 0.97, 1.0),
        ("slow-receiver-2", 0.94, 0.93, 0.83),
        ("degraded-shown-1", 0.75, 0.97, 1.0),
        ("degraded-shown-2", 0.94, 0.93, 0.82),
        ("degraded-hidden-1", 0.90, 0.97, 1.0),
        ("degraded-hidden-2", 0.95, 0.93, 0.90),
        ("alltoall-degraded-1", 0.75, 0.50, 0.45),
        ("alltoall-degraded-2", 0.85, 0.97, 1.0),
    ],
)
def test_congested_ports_are_the_true_ones(replayed, name, precision, recall, root_recall):
    found = against_truth(replayed(f"captures-pfc/{name}", 0.1), 0.1)
    print(name, "precision {:.3f} recall {:.3f} roots {:.3f}".format(*found))
    assert found[0] >= precision
    assert found[1] >= recall
    assert found[2] >= root_recall


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_slow_polling_still_finds_the_collisions(replayed, seconds):
    _, score, _, _ = scored(replayed("captures-pfc/ecmp-collision-1", seconds))
    capture = replayed("captures-pfc/ecmp-collision-1", seconds)
    claimed = set(np.flatnonzero((score >= 0.5).any(axis=0)).tolist())
    rounds = json.loads((capture.folder / "truth.json").read_text())["rounds"]
    truth = set().union(
        *(
            ports_of(capture, one["bottlenecks"] + one["victim_ports"] + one["overloaded_but_held"])
            for one in rounds
        )
    )
    assert len(claimed & truth) / len(claimed) > 0.95
    assert len(claimed & truth) / len(truth) > 0.85


@pytest.mark.parametrize(
    ("name", "hot"),
    [
        ("ho_degraded_ddp", {("leaf0", "Ethernet20"), ("spine1", "Ethernet0")}),
        ("ho_fsdp_degraded", {("leaf1", "Ethernet20"), ("spine1", "Ethernet4")}),
        ("ho_ps_sync", {("leaf0", "Ethernet0")}),
        ("ho_ddp_gpt_b1", set()),
        ("ho_ddp_slow_big", set()),
    ],
)
def test_lossy_links_with_a_standing_queue_are_the_congested_ones(replayed, name, hot):
    capture = replayed(f"captures/{name}", 0.1)
    _, score, _, evidence = scored(capture)
    ports = capture.ports
    often = np.flatnonzero((score >= 0.5).mean(axis=0) >= 0.25)
    assert {(ports.devices[port], ports.ports[port]) for port in often} == hot
    signs = evidence[:, often][score[:, often] >= 0.5]
    assert {EVIDENCE[sign] for sign in signs} <= {"queue", "discards"}
