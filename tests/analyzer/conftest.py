"""Small fabrics and ticks made by hand, and the field captures replayed through the real parts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from collector.counters import CUMULATIVE, CUMULATIVE_INDEX, GAUGE_INDEX, GAUGES
from collector.measured import Measured
from collector.ports import PortTable
from collector.rates import Rates
from collector.ticks import TickCutter
from collector.topology import Device, End, Fabric, Link, Topology, bind, read_topology
from collector.trace import Trace

SPEED = 100e9


@dataclass(frozen=True)
class Site:
    """A fabric, its port table, and a way to make ticks for it."""

    fabric: Fabric
    ports: PortTable

    def find(self, name: str) -> int:
        found = self.ports.find(*name.split(":"))
        assert found >= 0, name
        return found

    def tick(self, second: float = 0, seconds: float = 1.0, **columns) -> Measured:
        return make_tick(len(self.ports), second, seconds, **columns)


def make_tick(size: int, second: float = 0, seconds: float = 1.0, live=None, **columns) -> Measured:
    """A Measured of `size` ports; columns are rates and gauges by canonical name, else NaN."""
    rates = np.full((len(CUMULATIVE), size), np.nan)
    gauges = np.full((len(GAUGES), size), np.nan)
    for name, values in columns.items():
        if name in CUMULATIVE_INDEX:
            rates[CUMULATIVE_INDEX[name]] = values
        else:
            gauges[GAUGE_INDEX[name]] = values
    alive = np.ones(size, np.bool_) if live is None else np.asarray(live, np.bool_)
    return Measured(
        time=round(second * 1e9),
        seconds=seconds,
        rates=rates,
        totals=np.zeros((len(CUMULATIVE), size), np.uint64),
        present=~np.isnan(rates),
        gauges=gauges,
        fresh=alive,
        live=alive,
        age=np.zeros(size),
        interval=np.full(size, seconds),
        events={},
    )


def make_site(
    leaves: int = 2,
    spines: int = 2,
    hosts: int = 1,
    cables: int = 1,
    speed: Callable[[int, int, int], float | None] = lambda *_: SPEED,
) -> Site:
    """leafL:upS.C to spineS:downL.C for each cable C, and leafL:hostH to hL.H:eth0."""
    devices = [Device(name=f"leaf{leaf}", role="leaf") for leaf in range(leaves)]
    devices += [Device(name=f"spine{spine}", role="spine") for spine in range(spines)]
    links = []
    for leaf in range(leaves):
        for spine in range(spines):
            links += [
                Link(
                    a=End(device=f"leaf{leaf}", port=f"up{spine}.{cable}"),
                    b=End(device=f"spine{spine}", port=f"down{leaf}.{cable}"),
                    speed_bps=speed(leaf, spine, cable),
                )
                for cable in range(cables)
            ]
        for host in range(hosts):
            devices.append(Device(name=f"h{leaf}.{host}", role="host"))
            links.append(
                Link(
                    a=End(device=f"h{leaf}.{host}", port="eth0"),
                    b=End(device=f"leaf{leaf}", port=f"host{host}"),
                    speed_bps=SPEED,
                )
            )
    ports = PortTable()
    return Site(bind(Topology(devices=tuple(devices), links=tuple(links)), ports), ports)


@dataclass(frozen=True)
class Replayed:
    """A capture, measured tick by tick."""

    folder: Path
    fabric: Fabric
    ports: PortTable
    ticks: tuple[Measured, ...]


@lru_cache(maxsize=2)
def _replay(folder: Path, seconds: float) -> Replayed:
    ports = PortTable()
    fabric = bind(read_topology(folder / "topology.json"), ports)
    rates, cutter, ticks = Rates(), TickCutter(seconds), []

    def measure(windows) -> None:
        ticks.extend(
            rates.update(window.batches, window.end, window.seconds, fabric.nominal_bps)
            for window in windows
        )

    for batch in Trace.open(folder, ports).batches():
        cutter.push(batch)
        measure(cutter.advance(int(batch.time[-1])))
    measure(cutter.flush())
    return Replayed(folder, fabric, ports, tuple(ticks))


@pytest.fixture(scope="session")
def site() -> Callable[..., Site]:
    return make_site


@pytest.fixture(scope="session")
def tick() -> Callable[..., Measured]:
    return make_tick


@pytest.fixture
def replayed(shared: Path) -> Callable[[str, float], Replayed]:
    """A capture by its path below the shared folder, at a tick length in seconds."""
    return lambda name, seconds: _replay(shared / name, seconds)
