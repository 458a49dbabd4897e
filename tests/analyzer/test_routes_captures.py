"""The suggestions against what is known to be wrong in the captures, and what they would gain."""

import json
from dataclasses import replace

import numpy as np
import pytest

from analyzer.congestion import CongestionScorer
from analyzer.routes import Router


def suggested(capture, fabric=None):
    """The suggestions at the end, and the ids of all that ever were in force."""
    fabric = capture.fabric if fabric is None else fabric
    scorer, router = CongestionScorer(), Router()
    found, ever = (), set()
    for tick in capture.ticks:
        found = router.update(tick, scorer.update(tick, fabric), fabric, capture.ports)
        ever |= {one.id for one in found}
    return found, ever


def weights(found):
    return {
        (one.device, one.destination): dict(one.weights)
        for one in found
        if one.kind == "set_weights"
    }


LEAVES = [f"leaf-{leaf:02d}" for leaf in range(16)]
UPLINKS = [f"swp{49 + spine}" for spine in range(8)]


def expected(slow_up=(), slow_down=()):
    """(leaf, destination) -> the uplinks that must weigh less; slow ones as (leaf, spine)."""
    less = {}
    for leaf in LEAVES:
        for destination in LEAVES:
            low = {UPLINKS[spine] for name, spine in slow_up if name == leaf}
            low |= {UPLINKS[spine] for name, spine in slow_down if name == destination}
            if low and leaf != destination:
                less[leaf, destination] = low
    return less


@pytest.mark.parametrize(
    "name",
    [
        "clean-1",
        "clean-2",
        "ecmp-collision-1",
        "ecmp-collision-2",
        "incast-1",
        "incast-2",
        "slow-receiver-1",
        "slow-receiver-2",
        "two-jobs-1",
        "two-jobs-2",
    ],
)
@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_no_link_is_blamed_where_all_are_healthy(replayed, name, seconds):
    assert suggested(replayed(f"captures-pfc/{name}", seconds)) == ((), set())


@pytest.mark.parametrize("seconds", [0.1, 1.0])
@pytest.mark.parametrize(
    ("name", "slow"),
    [
        ("degraded-shown-1", {("leaf-12", 0): 0.25}),
        ("degraded-shown-2", {("leaf-13", 5): 0.5, ("leaf-11", 7): 0.4}),
        ("alltoall-degraded-1", {("leaf-04", 0): 0.25}),
    ],
)
def test_shown_degradation_gets_the_right_weights_and_only_there(replayed, name, slow, seconds):
    found, ever = suggested(replayed(f"captures-pfc/{name}", seconds))
    assert {one.id for one in found} == ever
    assert {one.reason for one in found} == {"degraded"}
    low = expected(slow, slow)
    told = weights(found)
    assert told.keys() == low.keys()
    share = {UPLINKS[spine]: ratio for (_, spine), ratio in slow.items()}
    for key, given in told.items():
        fair = np.array([share[port] if port in low[key] else 1.0 for port in given])
        total = np.array(list(given.values()))
        np.testing.assert_allclose(total / total.sum(), fair / fair.sum(), atol=0.02)


@pytest.mark.parametrize("seconds", [0.05, 0.1])
@pytest.mark.parametrize(
    ("name", "up", "down"),
    [
        ("degraded-hidden-1", [("leaf-05", 1)], []),
        ("degraded-hidden-2", [], [("leaf-11", 0)]),
        ("alltoall-degraded-2", [("leaf-14", 1)], []),
    ],
)
def test_hidden_degradation_is_found_in_its_one_direction(replayed, name, up, down, seconds):
    found, ever = suggested(replayed(f"captures-pfc/{name}", seconds))
    assert {one.id for one in found} == ever
    assert {one.reason for one in found} == {"hidden"}
    told = {
        key: {port for port, weight in given.items() if weight < max(given.values())}
        for key, given in weights(found).items()
    }
    assert told == expected(up, down)


@pytest.mark.parametrize(
    ("name", "share"), [("ho_degraded_ddp", 60 / 360), ("ho_fsdp_degraded", 90 / 390)]
)
def test_design_speeds_of_the_topology_set_the_weights(replayed, name, share):
    found, _ = suggested(replayed(f"captures/{name}", 0.1))
    assert weights(found).keys() == {("leaf0", "leaf1"), ("leaf1", "leaf0")}
    for given in weights(found).values():
        assert given["Ethernet20"] / sum(given.values()) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("name", ["ho_ddp_gpt_b1", "ho_moe_heavy", "ho_two_jobs_oversub"])
def test_healthy_lossy_fabrics_get_nothing(replayed, name):
    assert suggested(replayed(f"captures/{name}", 0.1)) == ((), set())


def completion(flows, fabric, ports, capacity, spread):
    """Seconds: the largest bytes over capacity of a leaf-spine egress; spread maps a leaf pair to
    the share of its bytes on each uplink."""
    load = np.zeros(len(ports))
    for flow in flows:
        if flow["src_leaf"] == flow["dst_leaf"]:
            continue
        for uplink, share in spread(flow).items():
            up = ports.find(flow["src_leaf"], uplink)
            spine = fabric.names[fabric.device[fabric.peer[up]]]
            down = ports.find(spine, f"swp{int(flow['dst_leaf'][-2:]) + 1}")
            load[up] += flow["bytes"] * share
            load[down] += flow["bytes"] * share
    return float(np.max(load * 8 / capacity))


def completions(capture, found):
    flows = json.loads((capture.folder / "flows.json").read_text())["flows"]
    capacity = capture.fabric.nominal_bps.copy()
    truth = json.loads((capture.folder / "truth.json").read_text())
    for row in truth["physical"]["ports_below_nominal"]:
        capacity[capture.ports.find(row["device"], row["port"])] = row["usable_bps"]
    told = weights(found)

    def equal(_):
        return dict.fromkeys(UPLINKS, 1 / 8)

    def weighed(flow):
        given = told.get((flow["src_leaf"], flow["dst_leaf"]), dict.fromkeys(UPLINKS, 1))
        return {port: weight / sum(given.values()) for port, weight in given.items()}

    def hashed(spread, seed):
        rng = np.random.default_rng(seed)

        def one(flow):
            shares = spread(flow)
            return {str(rng.choice(list(shares), p=list(shares.values()))): 1.0}

        return one

    def estimate(spread):
        return completion(flows, capture.fabric, capture.ports, capacity, spread)

    smooth = estimate(equal), estimate(weighed)
    rough = [
        np.mean([estimate(hashed(spread, seed)) for seed in range(20)])
        for spread in (equal, weighed)
    ]
    return smooth, rough


@pytest.mark.parametrize(
    ("name", "smooth_gain", "rough_gain"),
    [
        ("degraded-shown-1", 2.5, 1.1),
        ("degraded-shown-2", 1.4, 1.0),
        ("alltoall-degraded-1", 2.5, 1.3),
        ("degraded-hidden-2", 1.4, 1.0),
    ],
)
def test_the_weights_shorten_the_completion_of_the_true_flows(
    replayed, name, smooth_gain, rough_gain
):
    capture = replayed(f"captures-pfc/{name}", 0.1)
    found, _ = suggested(capture)
    smooth, rough = completions(capture, found)
    print(
        f"{name}: even {smooth[0]:.3f} -> {smooth[1]:.3f} s ({smooth[0] / smooth[1]:.2f} x), "
        f"hashed {rough[0]:.3f} -> {rough[1]:.3f} s ({rough[0] / rough[1]:.2f} x)"
    )
    assert smooth[0] / smooth[1] >= smooth_gain
    assert rough[0] / rough[1] >= rough_gain


def test_a_hidden_slow_link_needs_a_lossless_fabric(replayed):
    """Without stall counters there is no proof that a flat rate is the link's own; say nothing."""
    capture = replayed("captures/ho_degraded_ddp", 0.1)
    nominal = np.where(capture.fabric.nominal_bps == 60e6, 300e6, capture.fabric.nominal_bps)
    assert suggested(capture, replace(capture.fabric, nominal_bps=nominal)) == ((), set())
