import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.congestion import CongestionScorer
from analyzer.routes import Router
from collector.ports import PortTable
from collector.topology import Topology, bind


class Control:
    """A scorer and a router fed with hand-made ticks."""

    def __init__(self, net):
        self.net = net
        self.scorer, self.router = CongestionScorer(), Router()
        self.second = 0
        self.found = ()

    def run(self, seconds, **columns):
        for _ in range(seconds):
            self.second += 1
            tick = self.net.tick(self.second, **columns)
            congestion = self.scorer.update(tick, self.net.fabric)
            self.found = self.router.update(tick, congestion, self.net.fabric, self.net.ports)
        return self.found


def weights(found):
    return {
        (one.device, one.destination): dict(one.weights)
        for one in found
        if one.kind == "set_weights"
    }


def gauge(net, **ports):
    values = np.full(len(net.ports), 100e9)
    for name, value in ports.items():
        values[net.find(name.replace("__", ":").replace("_", "."))] = value
    return values


def test_a_healthy_fabric_gets_no_suggestion_and_costs_one_computation(site):
    net = site(leaves=4, spines=4)
    control = Control(net)
    for _ in range(5):
        assert control.run(1, speed_bps=100e9, tx_bytes=12.5e9) == ()
    assert control.router.recomputed == 1


def test_a_slow_uplink_is_lowered_where_it_matters_only(site):
    net = site(leaves=3, spines=3)
    found = Control(net).run(5, speed_bps=gauge(net, leaf0__up1_0=25e9))
    assert weights(found) == {
        ("leaf0", "leaf1"): {"up0.0": 4, "up1.0": 1, "up2.0": 4},
        ("leaf0", "leaf2"): {"up0.0": 4, "up1.0": 1, "up2.0": 4},
        ("leaf1", "leaf0"): {"up0.0": 4, "up1.0": 1, "up2.0": 4},
        ("leaf2", "leaf0"): {"up0.0": 4, "up1.0": 1, "up2.0": 4},
    }
    one = next(one for one in found if one.id == "set_weights:leaf0:leaf1")
    # A third of the bytes over a quarter, against a ninth over a quarter.
    assert one.expected_gain == pytest.approx(3.0)
    assert one.reason == "degraded"
    assert one.since == 4 * 10**9
    avoided = {(one.kind, one.device, one.port) for one in found if one.kind != "set_weights"}
    assert avoided == {
        ("avoid_link", "leaf0", "up1.0"),
        ("avoid_link", "spine1", "down0.0"),
    }


def test_suggestions_keep_identity_and_age_and_leave_late(site):
    net = site(leaves=2, spines=3)
    control = Control(net)
    slow = gauge(net, leaf0__up1_0=25e9)
    first = control.run(5, speed_bps=slow)
    assert control.run(50, speed_bps=slow) is first
    slower = control.run(5, speed_bps=gauge(net, leaf0__up1_0=10e9))
    assert [one.id for one in slower] == [one.id for one in first]
    assert [one.since for one in slower] == [one.since for one in first]
    assert slower != first
    assert control.run(10, speed_bps=100e9) is slower
    assert control.run(10, speed_bps=100e9) == ()


def test_a_dead_link_gets_no_weight_and_is_drained(site):
    net = site(leaves=2, spines=3)
    up = np.ones(len(net.ports))
    up[net.find("leaf0:up2.0")] = 0
    found = Control(net).run(5, oper_up=up)
    assert weights(found)["leaf0", "leaf1"] == {"up0.0": 1, "up1.0": 1, "up2.0": 0}
    assert weights(found)["leaf1", "leaf0"] == {"up0.0": 1, "up1.0": 1, "up2.0": 0}
    one = next(one for one in found if one.id == "set_weights:leaf0:leaf1")
    assert one.expected_gain == pytest.approx(1.5)
    assert one.reason == "down"
    assert {one.id for one in found if one.kind == "drain_link"} == {
        "drain_link:leaf0:up2.0",
        "drain_link:spine2:down0.0",
    }


def test_one_dead_link_of_many_is_named_too(site):
    net = site(leaves=2, spines=16)
    up = np.ones(len(net.ports))
    up[net.find("leaf0:up7.0")] = 0
    assert weights(Control(net).run(5, oper_up=up))["leaf0", "leaf1"]["up7.0"] == 0


def test_avoiding_never_leaves_fewer_than_two_next_hops(site):
    net = site(leaves=2, spines=2)
    found = Control(net).run(5, speed_bps=gauge(net, leaf0__up1_0=10e9))
    assert {one.kind for one in found} == {"set_weights"}
    assert weights(found)["leaf0", "leaf1"] == {"up0.0": 10, "up1.0": 1}


def test_design_speeds_that_differ_count_at_once(site):
    net = site(leaves=2, spines=2, speed=lambda _, spine, __: 400e9 if spine else 100e9)
    found = Control(net).run(1)
    assert weights(found) == {
        ("leaf0", "leaf1"): {"up0.0": 1, "up1.0": 4},
        ("leaf1", "leaf0"): {"up0.0": 1, "up1.0": 4},
    }
    assert {one.reason for one in found} == {"asymmetric"}


def test_small_differences_are_left_alone(site):
    net = site(leaves=2, spines=8, speed=lambda _, spine, __: 92e9 if spine == 3 else 100e9)
    assert Control(net).run(5) == ()


def test_parallel_cables_are_weighed_one_by_one(site):
    net = site(leaves=2, spines=2, cables=2)
    found = Control(net).run(5, speed_bps=gauge(net, leaf0__up1_1=50e9))
    assert weights(found)["leaf0", "leaf1"] == {"up0.0": 2, "up0.1": 2, "up1.0": 2, "up1.1": 1}
    # From the far side the two cables up to spine1 share 150 of what it can pass on.
    assert weights(found)["leaf1", "leaf0"] == {"up0.0": 4, "up0.1": 4, "up1.0": 3, "up1.1": 3}


@pytest.mark.parametrize("shape", [{"spines": 0}, {"leaves": 0}, {"leaves": 1}])
def test_other_shapes_get_no_suggestions(site, shape):
    assert Control(site(**shape)).run(5, speed_bps=1e9) == ()


def test_an_unknown_topology_gets_no_suggestions(site, tick):
    ports = PortTable()
    ports.intern("a", "eth0")
    fabric = bind(Topology(), ports)
    found = CongestionScorer().update(tick(1), fabric)
    assert Router().update(tick(1), found, fabric, ports) == ()


def test_more_ports_do_not_forget_what_was_learned(site, tick):
    net = site(leaves=2, spines=3)
    control = Control(net)
    slow = gauge(net, leaf0__up1_0=25e9)
    first = control.run(5, speed_bps=slow)
    topology_before = net.fabric
    net.ports.intern("elsewhere", "eth0")
    grown = np.append(slow, 1e9)
    assert control.run(1, speed_bps=grown) is first
    wider = type(topology_before)(
        device=np.append(topology_before.device, np.int32(len(topology_before.names))),
        peer=np.append(topology_before.peer, np.int32(-1)),
        nominal_bps=np.append(topology_before.nominal_bps, np.nan),
        names=(*topology_before.names, "elsewhere"),
        role=np.append(topology_before.role, np.int32(0)),
        site=(*topology_before.site, ""),
    )
    object.__setattr__(net, "fabric", wider)
    assert control.run(3, speed_bps=grown) is first


def test_a_fabric_that_is_ahead_of_the_tick_waits(site, tick):
    net = site()
    router, short = Router(), tick(3, 1)
    assert (
        router.update(short, CongestionScorer().update(short, net.fabric), net.fabric, net.ports)
        == ()
    )


SPEEDS = st.one_of(st.just(np.nan), st.just(100e9), st.floats(1e9, 100e9))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_suggestions_are_sound_for_any_speeds(site, data):
    net = site(leaves=3, spines=3)
    size = len(net.ports)
    speed = np.array(data.draw(st.lists(SPEEDS, min_size=size, max_size=size)))
    up = np.array(
        data.draw(st.lists(st.sampled_from([1, 1, 1, 0, np.nan]), min_size=size, max_size=size))
    )
    found = Control(net).run(5, speed_bps=speed, oper_up=up)
    assert len({one.id for one in found}) == len(found)
    for one in found:
        assert np.isfinite(one.expected_gain)
        assert one.expected_gain >= 1
        if one.kind == "set_weights":
            assert sum(weight for _, weight in one.weights) > 0
            live = [
                weight for port, weight in one.weights if up[net.find(f"{one.device}:{port}")] != 0
            ]
            assert sum(weight > 0 for _, weight in one.weights) <= len(live)


def test_a_leaf_keeps_its_last_ways_out_however_bad_they_are(site):
    """Errors behind every uplink: draining them all would cut the leaf off."""
    net = site(leaves=3, spines=2)
    bad = np.zeros(len(net.ports))
    for name in ("leaf0:up0.0", "leaf0:up1.0"):
        bad[net.fabric.peer[net.find(name)]] = 1e5
    found = Control(net).run(12, speed_bps=100e9, rx_packets=1e6, tx_packets=1e6, rx_errors=bad)

    assert [one for one in found if one.kind == "drain_link"] == []
