import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from analyzer.congestion import CongestionScorer, log_ramp, ramp
from analyzer.frame import EVIDENCE
from collector.counters import CUMULATIVE, GAUGES

LINE = 100e9 / 8


def column(site, default=0.0, **ports):
    values = np.full(len(site.ports), default)
    for name, value in ports.items():
        values[site.find(name.replace("__", ":").replace("_", "."))] = value
    return values


def test_ramps():
    values = np.array([0.0, 0.05, 0.2, 0.35, 1.0, np.nan])
    np.testing.assert_allclose(ramp(values, 0.05, 0.35), [0, 0, 0.5, 1, 1, np.nan], atol=1e-12)
    shares = np.array([0.0, 1e-5, 1e-3, 1e-1, 1.0])
    np.testing.assert_allclose(log_ramp(shares, 1e-5, 1e-1), [0, 0, 0.5, 1, 1], atol=1e-12)


def test_speed_in_force_is_the_gauge_then_the_topology_then_unknown(site, tick):
    net = site(speed=lambda leaf, *_: 50e9 if leaf == 0 else None)
    gauge = column(net, np.nan, leaf0__up0_0=25e9)
    found = CongestionScorer().update(net.tick(tx_bytes=12.5e9 / 8, speed_bps=gauge), net.fabric)
    assert found.speed_bps[net.find("leaf0:up0.0")] == 25e9
    assert found.tx_utilization[net.find("leaf0:up0.0")] == pytest.approx(0.5)
    assert found.speed_bps[net.find("leaf0:up1.0")] == 50e9
    assert np.isnan(found.speed_bps[net.find("leaf1:up0.0")])
    assert np.isnan(found.tx_utilization[net.find("leaf1:up0.0")])


def test_full_links_alone_are_not_congested(site):
    net = site()
    scorer = CongestionScorer()
    for second in range(5):
        found = scorer.update(
            net.tick(
                second,
                tx_bytes=LINE,
                rx_bytes=LINE,
                tx_stalled_ns=0.05e9,
                queue_peak_bytes=150_000.0,
                tx_discards=0.0,
            ),
            net.fabric,
        )
        assert (found.tx_utilization == 1).all()
        assert (found.score < 0.1).all()


def test_held_port_is_congested_and_its_root_too(site):
    net = site(leaves=2, spines=2, hosts=2)
    held = column(net, h0_0__eth0=0.6e9)
    sent = column(net, h0_0__eth0=0.4 * LINE, leaf0__up0_0=LINE, leaf0__up1_0=LINE)
    queue = column(net, 5e3, leaf0__up0_0=300e3)
    found = CongestionScorer().update(
        net.tick(tx_bytes=sent, tx_stalled_ns=held, queue_peak_bytes=queue), net.fabric
    )
    victim, root = net.find("h0.0:eth0"), net.find("leaf0:up0.0")
    assert found.held[victim] == pytest.approx(0.6)
    assert found.held_ratio[victim] == pytest.approx(0.6)
    assert found.busy[victim] == pytest.approx(1)
    hot = np.flatnonzero(found.score >= 0.5)
    assert sorted(hot) == sorted([victim, root])
    assert EVIDENCE[found.evidence[victim]] == "stalled"
    assert EVIDENCE[found.evidence[root]] == "queue"
    assert (found.cause == 0).all()


def test_a_root_is_told_by_its_wait_not_its_bytes(site):
    net = site(leaves=2, spines=2, hosts=2)
    found = CongestionScorer().update(
        net.tick(
            tx_bytes=0.2 * LINE,
            tx_stalled_ns=column(net, h0_0__eth0=0.6e9),
            queue_peak_bytes=column(net, leaf0__up0_0=150e3, leaf0__up1_0=150e3),
            speed_bps=column(net, np.nan, leaf0__up0_0=25e9),
        ),
        net.fabric,
    )
    assert found.score[net.find("leaf0:up0.0")] >= 0.5
    assert found.score[net.find("leaf0:up1.0")] == 0


def test_the_only_held_feeder_does_not_accuse_its_own_way_back(site):
    net = site(leaves=1, spines=1, hosts=1)
    found = CongestionScorer().update(
        net.tick(
            tx_stalled_ns=column(net, h0_0__eth0=0.9e9),
            queue_peak_bytes=column(net, leaf0__host0=200e3, leaf0__up0_0=190e3),
        ),
        net.fabric,
    )
    assert found.score[net.find("leaf0:up0.0")] >= 0.5
    assert found.score[net.find("leaf0:host0")] == 0


def test_stall_seen_by_the_other_end_counts_as_much(site):
    net = site()
    stalled = np.full(len(net.ports), np.nan)
    stalled[net.find("leaf0:host0")] = 0.7e9
    found = CongestionScorer().update(net.tick(rx_stalled_ns=stalled, tx_bytes=0.0), net.fabric)
    assert found.held[net.find("h0.0:eth0")] == pytest.approx(0.7)
    assert found.score[net.find("h0.0:eth0")] >= 0.5
    assert np.isnan(found.held[net.find("leaf1:host0")])


@pytest.mark.parametrize("duty", [1.0, 0.5, 0.2])
def test_slow_polling_does_not_hide_a_stall(site, duty):
    net = site()
    found = CongestionScorer().update(
        net.tick(tx_bytes=0.35 * LINE * duty, tx_stalled_ns=0.65e9 * duty), net.fabric
    )
    np.testing.assert_allclose(found.held_ratio, 0.65)
    assert (found.score >= 0.5).all()


def test_lossy_queue_must_stand_for_two_ticks(site):
    net = site()
    scorer = CongestionScorer()
    port, host = net.find("leaf0:up0.0"), net.find("h0.0:eth0")
    deep = column(net, leaf0__up0_0=200e3, h0_0__eth0=200e3)
    calm = scorer.update(net.tick(0, queue_bytes=0.0), net.fabric)
    burst = scorer.update(net.tick(1, queue_bytes=deep), net.fabric)
    standing = scorer.update(net.tick(2, queue_bytes=deep), net.fabric)
    assert np.isnan(calm.score[port])
    assert burst.score[port] == 0
    assert standing.score[port] == 1
    assert EVIDENCE[standing.evidence[port]] == "queue"
    assert np.isnan(standing.held[port])
    # A host waits for nobody but itself.
    assert np.isnan(standing.score[host])


def test_a_queue_counts_where_pauses_could_be_told_but_never_were(site):
    net = site()
    scorer, port = CongestionScorer(), net.find("leaf0:up0.0")
    deep = {"queue_bytes": column(net, leaf0__up0_0=200e3), "rx_stalled_ns": 0.0}
    scorer.update(net.tick(0, tx_stalled_ns=0.0, **deep), net.fabric)
    assert scorer.update(net.tick(1, tx_stalled_ns=0.0, **deep), net.fabric).score[port] == 1
    paused = column(net, leaf0__up1_0=0.01e9)
    scorer.update(net.tick(2, tx_stalled_ns=paused, **deep), net.fabric)
    assert scorer.update(net.tick(3, tx_stalled_ns=0.0, **deep), net.fabric).score[port] == 0


def test_small_queues_of_a_calm_fabric_are_not_scaled_up(site):
    net = site(speed=lambda *_: 200e6)
    scorer = CongestionScorer()
    for second in range(3):
        found = scorer.update(net.tick(second, queue_bytes=8e3), net.fabric)
    assert np.nanmax(found.score) < 0.1


@pytest.mark.parametrize(
    ("columns", "score", "evidence"),
    [
        ({"tx_discards": 1e3, "tx_packets": 1e6}, 0.5, "discards"),
        ({"tx_discards": 0.0, "tx_packets": 1e6}, 0.0, "none"),
        ({"ecn_marked_packets": 1e5, "tx_packets": 1e6}, 0.5, "ecn"),
        ({"ecn_marked_packets": 1e5}, np.nan, "none"),
        ({"cnp_handled": 1e3, "tx_packets": 1e6}, 0.5, "cnp"),
        ({"retransmits": 1e4, "tx_packets": 1e6}, 0.5, "retransmits"),
        ({"retransmits": 1.0, "tx_packets": 2.0}, 0.262, "retransmits"),
        ({"tx_bytes": LINE}, np.nan, "none"),
    ],
)
def test_shares_of_packets(site, columns, score, evidence):
    net = site()
    found = CongestionScorer().update(net.tick(**columns), net.fabric)
    np.testing.assert_allclose(found.score, score, atol=2e-3)
    assert {EVIDENCE[index] for index in found.evidence} == {evidence}


def test_discards_at_the_receiver_blame_the_sender(site):
    net = site()
    found = CongestionScorer().update(
        net.tick(rx_discards=column(net, h0_0__eth0=1e4), tx_packets=1e6), net.fabric
    )
    assert found.score[net.find("leaf0:host0")] >= 0.5
    assert found.score[net.find("h0.0:eth0")] == 0


def test_ports_may_appear_midway_and_need_no_topology(site, tick):
    net = site()
    scorer = CongestionScorer()
    known = len(net.ports)
    scorer.update(tick(known, queue_bytes=90e3), net.fabric)
    grown = scorer.update(tick(known + 7, 1, queue_bytes=90e3), net.fabric)
    assert len(grown.score) == known + 7
    assert grown.score[net.find("leaf0:up0.0")] >= 0.5
    # The queue of a port that was not there before has not stood yet.
    assert np.isnan(grown.score[-1])
    assert np.isnan(grown.tx_utilization[-1])
    fewer = scorer.update(tick(known - 2, 2, tx_stalled_ns=0.9e9), net.fabric)
    assert len(fewer.score) == known - 2
    assert (fewer.score >= 0.5).all()


def test_nothing_known_is_nan_and_never_zero(site):
    net = site()
    found = CongestionScorer().update(net.tick(), net.fabric)
    assert np.isnan(found.score).all()
    assert np.isnan(found.held).all()
    assert np.isnan(found.busy).all()
    assert (found.evidence == 0).all()


VALUES = st.one_of(st.just(np.nan), st.just(0.0), st.floats(0, 1e13, allow_subnormal=False))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), extra=st.integers(-3, 5))
def test_any_mixture_of_signals_stays_within_bounds(site, tick, data, extra):
    net = site()
    size = len(net.ports) + extra
    scorer = CongestionScorer()
    for second in range(2):
        columns = {
            name: data.draw(hnp.arrays(np.float64, size, elements=VALUES))
            for name in data.draw(st.sets(st.sampled_from(CUMULATIVE + GAUGES), max_size=8))
        }
        found = scorer.update(tick(size, second, **columns), net.fabric)
        for name in ("score", "held", "held_ratio", "busy", "tx_utilization", "rx_utilization"):
            values = getattr(found, name)
            assert values.shape == (size,)
            told = values[~np.isnan(values)]
            assert ((told >= 0) & (told <= 1)).all(), name
        assert not np.isinf(found.speed_bps).any()
        assert (found.evidence[~(found.score > 0)] == 0).all()
