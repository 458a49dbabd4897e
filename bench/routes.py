"""Times of the analyzer: scoring a tick, an ordinary tick of the router, and a full recomputation.

Run: python bench/routes.py
"""

import time
from collections.abc import Callable

import numpy as np

from analyzer.capacity import PERSIST_SECONDS
from analyzer.congestion import CongestionScorer
from analyzer.routes import Router
from collector.counters import CUMULATIVE, CUMULATIVE_INDEX, GAUGE_INDEX, GAUGES
from collector.measured import Measured
from collector.ports import PortTable
from collector.topology import Device, End, Fabric, Link, Topology, bind

SPEED = 400e9


def clos(leaves: int, spines: int, hosts: int) -> tuple[Fabric, PortTable]:
    """A leaf-spine fabric with one cable from every leaf to every spine."""
    devices = [Device(name=f"leaf{n}", role="leaf") for n in range(leaves)]
    devices += [Device(name=f"spine{n}", role="spine") for n in range(spines)]
    devices += [Device(name=f"h{n}", role="host") for n in range(leaves * hosts)]
    links = [
        Link(
            a=End(device=f"leaf{leaf}", port=f"up{spine}"),
            b=End(device=f"spine{spine}", port=f"down{leaf}"),
            speed_bps=SPEED,
        )
        for leaf in range(leaves)
        for spine in range(spines)
    ]
    links += [
        Link(
            a=End(device=f"h{host}", port="eth0"),
            b=End(device=f"leaf{host // hosts}", port=f"host{host % hosts}"),
            speed_bps=SPEED,
        )
        for host in range(leaves * hosts)
    ]
    ports = PortTable()
    return bind(Topology(devices=tuple(devices), links=tuple(links)), ports), ports


def measured(size: int, second: int, rng: np.random.Generator) -> Measured:
    """A busy tick: half the ports full, some held, some queued."""
    rates = np.full((len(CUMULATIVE), size), np.nan)
    gauges = np.full((len(GAUGES), size), np.nan)
    for name, scale in (
        ("tx_bytes", SPEED / 8),
        ("rx_bytes", SPEED / 8),
        ("tx_packets", SPEED / 8 / 4096),
        ("tx_stalled_ns", 2e8),
        ("rx_stalled_ns", 2e8),
        ("tx_discards", 10.0),
        ("rx_discards", 1.0),
        ("ecn_marked_packets", 1e5),
    ):
        rates[CUMULATIVE_INDEX[name]] = rng.random(size) * scale
    gauges[GAUGE_INDEX["queue_peak_bytes"]] = rng.random(size) * 1e6
    gauges[GAUGE_INDEX["queue_bytes"]] = rng.random(size) * 1e5
    gauges[GAUGE_INDEX["speed_bps"]] = SPEED
    gauges[GAUGE_INDEX["oper_up"]] = 1.0
    yes = np.ones(size, np.bool_)
    return Measured(
        time=second * 10**9,
        seconds=1.0,
        rates=rates,
        totals=np.zeros((len(CUMULATIVE), size), np.uint64),
        present=~np.isnan(rates),
        gauges=gauges,
        fresh=yes,
        live=yes,
        age=np.zeros(size),
        interval=np.ones(size),
        events={},
    )


def best(work: Callable[[], object], times: int = 9) -> float:
    """The shortest of several runs, in milliseconds."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken) * 1e3


def ordinary(leaves: int, spines: int, hosts: int) -> None:
    fabric, ports = clos(leaves, spines, hosts)
    rng = np.random.default_rng(1)
    tick = measured(len(ports), 1, rng)
    scorer, router = CongestionScorer(), Router()
    congestion = scorer.update(tick, fabric)
    router.update(tick, congestion, fabric, ports)
    score = best(lambda: scorer.update(tick, fabric))
    route = best(lambda: router.update(tick, congestion, fabric, ports))
    print(f"{len(ports):7d} ports: score {score:7.3f} ms, ordinary router tick {route:7.3f} ms")


def recompute(leaves: int, spines: int, slow: int, *, mixed: bool) -> None:
    """All routes anew after `slow` links lost three quarters (or each its own share) of speed."""
    fabric, ports = clos(leaves, spines, 1)
    rng = np.random.default_rng(2)
    scorer, router = CongestionScorer(), Router()
    longest = 0.0
    for second in range(int(PERSIST_SECONDS) + 2):
        tick = measured(len(ports), second, rng)
        if second:
            speed = tick.gauges[GAUGE_INDEX["speed_bps"]]
            for link in range(slow):
                ends = [
                    ports.find(f"leaf{link % leaves}", f"up{link // leaves % spines}"),
                    ports.find(f"spine{link // leaves % spines}", f"down{link % leaves}"),
                ]
                speed[ends] *= 0.2 + 0.6 * (link / slow) if mixed else 0.25
        congestion = scorer.update(tick, fabric)
        began = time.perf_counter()
        found = router.update(tick, congestion, fabric, ports)
        longest = max(longest, time.perf_counter() - began)
    kind = "mixed" if mixed else "quarter"
    print(
        f"{leaves}x{spines} = {leaves * spines:6d} links, {slow:5d} slow ({kind}): "
        f"recomputed {router.recomputed} times, longest tick {longest * 1e3:7.1f} ms, "
        f"{len(found)} suggestions, {router.left_out} left out"
    )


if __name__ == "__main__":
    ordinary(2, 2, 5)
    ordinary(16, 8, 16)
    ordinary(128, 32, 46)
    ordinary(640, 64, 16)
    recompute(100, 100, 0, mixed=False)
    recompute(100, 100, 1, mixed=False)
    recompute(100, 100, 20, mixed=False)
    recompute(100, 100, 2000, mixed=True)
    recompute(512, 64, 1, mixed=False)
