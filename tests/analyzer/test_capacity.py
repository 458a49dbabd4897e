import numpy as np
import pytest

from analyzer.capacity import PERSIST_SECONDS, REASONS, RECOVER_SECONDS, Capacities
from analyzer.congestion import CongestionScorer
from analyzer.paths import Tiers


class Watch:
    """Feeds hand-made ticks to Capacities and remembers when something changed."""

    def __init__(self, net):
        self.net = net
        self.scorer = CongestionScorer()
        self.capacities = Capacities(Tiers.of(net.fabric))
        self.second = 0
        self.changes = []

    def run(self, seconds, **columns):
        for _ in range(seconds):
            self.second += 1
            tick = self.net.tick(self.second, **columns)
            congestion = self.scorer.update(tick, self.net.fabric)
            if self.capacities.update(tick, congestion, self.net.fabric):
                self.changes.append(self.second)
        return self

    def at(self, name):
        row = int(np.flatnonzero(self.capacities.tiers.port == self.net.find(name))[0])
        ratio = self.capacities.settled[row] / self.capacities.nominal[row]
        return round(float(ratio), 3), REASONS[self.capacities.reason[row]]


def speeds(net, **ports):
    values = np.full(len(net.ports), 100e9)
    for name, value in ports.items():
        values[net.find(name.replace("__", ":").replace("_", "."))] = value
    return values


def test_a_slow_end_slows_both_directions_after_its_time(site):
    net = site()
    watch = Watch(net).run(5, speed_bps=100e9)
    slow = speeds(net, leaf0__up1_0=25e9)
    watch.run(int(PERSIST_SECONDS), speed_bps=slow)
    assert watch.changes == []
    watch.run(1, speed_bps=slow)
    assert watch.changes == [5 + int(PERSIST_SECONDS) + 1]
    assert watch.at("leaf0:up1.0") == (0.25, "degraded")
    assert watch.at("spine1:down0.0") == (0.25, "degraded")
    assert watch.at("leaf0:up0.0") == (1.0, "none")


def test_a_blink_changes_nothing(site):
    net = site()
    watch = Watch(net).run(3, speed_bps=100e9)
    for _ in range(10):
        watch.run(2, speed_bps=speeds(net, leaf0__up1_0=25e9)).run(2, speed_bps=100e9)
    assert watch.changes == []


def test_recovery_is_slower_and_slower_after_each_relapse(site):
    net = site()
    watch, slow = Watch(net), speeds(net, leaf0__up1_0=25e9)
    waits = []
    for _ in range(3):
        watch.run(5, speed_bps=slow)
        healed = watch.second + 1
        watch.run(200, speed_bps=100e9)
        waits.append(watch.changes[-1] - healed)
    assert waits[0] == RECOVER_SECONDS
    # The second loss came soon after the recovery, the third did not.
    watch.run(5, speed_bps=slow).run(20, speed_bps=100e9).run(5, speed_bps=slow)
    healed = watch.second + 1
    watch.run(100, speed_bps=100e9)
    assert watch.changes[-1] - healed > waits[0]


def test_a_link_that_is_down_carries_nothing(site):
    net = site()
    up = np.ones(len(net.ports))
    up[net.find("spine0:down1.0")] = 0
    watch = Watch(net).run(5, oper_up=up)
    assert watch.at("spine0:down1.0") == (0, "down")
    assert watch.at("leaf1:up0.0") == (0, "down")
    assert watch.at("leaf0:up0.0") == (1, "none")


def test_a_lost_collector_drains_nothing_and_heals_nothing(site):
    net = site()
    watch = Watch(net).run(5, speed_bps=speeds(net, leaf0__up1_0=25e9))
    dead = np.zeros(len(net.ports), np.bool_)
    watch.run(60, live=dead)
    assert watch.at("leaf0:up1.0") == (0.25, "degraded")
    assert len(watch.changes) == 1


@pytest.mark.parametrize(
    ("columns", "ratio"),
    [
        ({"fec_uncorrected": 0.0}, 1.0),
        ({"fec_uncorrected": 3.0}, 0.75),
        ({"fec_uncorrected": 1e4}, 0.0),
        ({"symbol_errors": 1.0}, 1.0),
        ({"symbol_errors": 2e3}, 0.5),
        ({"rx_errors": 1e5, "rx_packets": 1e6}, 0.0),
    ],
)
def test_errors_at_the_receiver_lower_the_sender(site, columns, ratio):
    net = site()
    port = net.find("spine0:down1.0")
    given = {name: np.zeros(len(net.ports)) for name in columns}
    for name, value in columns.items():
        given[name][port] = value
    watch = Watch(net).run(120, **given)
    assert watch.at("leaf1:up0.0") == (ratio, "errors" if ratio < 1 else "none")
    assert watch.at("spine0:down1.0") == (1.0, "none")


def test_without_design_speeds_the_first_ones_seen_are_the_design(site):
    net = site(speed=lambda *_: None)
    watch = Watch(net).run(3)
    assert (watch.capacities.settled == 1).all()
    watch.run(3, speed_bps=speeds(net, leaf0__up0_0=np.nan))
    assert (watch.capacities.settled == 100e9).all()
    watch.run(5, speed_bps=speeds(net, leaf0__up0_0=40e9))
    assert watch.at("leaf0:up0.0") == (0.4, "degraded")


LINE = 100e9 / 8


def capped(net, share, duty=1.0, reach=0.95):
    """leaf0 sends to spine0 at a share of the rate, while its host waits and spine1 is well."""
    columns = {
        name: np.zeros(len(net.ports)) for name in ("tx_bytes", "tx_stalled_ns", "queue_peak_bytes")
    }
    columns["tx_bytes"][net.find("leaf0:up0.0")] = share * duty * LINE
    columns["tx_bytes"][net.find("leaf0:up1.0")] = reach * LINE
    columns["tx_bytes"][net.find("h0.0:eth0")] = share * duty * LINE
    columns["tx_stalled_ns"][net.find("h0.0:eth0")] = (1 - share) * duty * 1e9
    columns["queue_peak_bytes"][net.find("leaf0:up0.0")] = 280e3
    return columns


def test_a_flat_rate_before_a_standing_queue_is_hidden_degradation(site):
    net = site()
    watch = Watch(net).run(30, **capped(net, 0.4))
    assert watch.at("leaf0:up0.0") == (0.4, "hidden")
    assert watch.at("spine0:down0.0") == (1.0, "none")
    # Seen once above its plateau, it is well again.
    watch.run(int(RECOVER_SECONDS) + 2, tx_bytes=0.9 * LINE, tx_stalled_ns=0.0)
    assert watch.at("leaf0:up0.0") == (1.0, "none")


@pytest.mark.parametrize(
    "change",
    [{"duty": 0.5}, {"reach": 0.5}, {"share": 0.9}],
    ids=["pauses between bursts", "no sibling at full rate", "nearly full"],
)
def test_no_hidden_degradation_without_all_the_signs(site, change):
    net = site()
    watch = Watch(net).run(60, **capped(net, **{"share": 0.4, **change}))
    assert watch.changes == []


def test_a_rate_that_varies_is_no_plateau(site):
    net = site()
    watch = Watch(net)
    for turn in range(60):
        watch.run(1, **capped(net, 0.3 + 0.4 * (turn % 2)))
    assert watch.changes == []
