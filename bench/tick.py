"""One whole tick, rates to baked metrics: 20,000 and 100,000 ports with 25 counters each.

Ports are grouped into leaves of 64 below spines; three quarters of them are active. Each size runs
in a process of its own, so that peak memory is its own. Prints the median and the slowest tick
after warm-up, by stage, and the ratio to a reference of the same run: what prometheus-client takes
to render as many series.
"""

import multiprocessing
import os
import resource
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from classifier.store import load
from collector.counters import CUMULATIVE
from collector.ports import PortTable
from collector.record import Batch
from collector.ticks import Window
from collector.topology import Topology
from exporters.bake import Baker, BakeSettings, Form
from fabriclens.tick import Tick

TICKS = 14
WARM = 6
COUNTERS = CUMULATIVE[:25]
HEALTHY = {"fec_uncorrected", "symbol_errors", "link_downs", "rx_errors", "tx_errors"}
START = 1_700_000_000 * 10**9
FORM = Form(openmetrics=False, gzip=True)


def fabric(ports):
    """A leaf-spine: half of each leaf's 64 ports are cabled to hosts, half to spines."""
    devices = [{"name": f"spine-{number}", "role": "spine"} for number in range(32)]
    links = []
    leaves = ports // (2 * 64)
    for leaf in range(leaves):
        name = f"leaf-{leaf}"
        devices.append({"name": name, "role": "leaf"})
        for port in range(32):
            host = f"host-{leaf}-{port}"
            devices.append({"name": host, "role": "host"})
            links.append(cable(name, f"swp{port}", host, "eth0"))
            links.append(cable(name, f"swp{port + 32}", f"spine-{port}", f"swp{leaf}"))
    return Topology.model_validate({"devices": devices, "links": links})


def cable(a, a_port, b, b_port):
    return {
        "a": {"device": a, "port": a_port},
        "b": {"device": b, "port": b_port},
        "speed_bps": 400e9,
    }


class Counters:
    """Counters of all ports that rise by bursts, so that features have something to see."""

    def __init__(self, ports):
        self.random = np.random.default_rng(1)
        self.port = np.arange(ports, dtype=np.int32)
        self.values = {name: np.zeros(ports, np.uint64) for name in COUNTERS}
        self.active = self.random.random(ports) < 0.75

    def batch(self, tick):
        duty = self.random.random(len(self.port)) * self.active
        for name in COUNTERS:
            if name in HEALTHY:
                continue
            rise = 40e9 * duty if name.endswith("_bytes") else 1e6 * duty
            self.values[name] = self.values[name] + rise.astype(np.uint64)
        time_ns = np.full(len(self.port), START + tick * 10**9 - 10**8, np.int64)
        return Batch("bench", time_ns, self.port, dict(self.values), received=tick * 10**9 + 1)


def measure(ports, answer):
    table = PortTable()
    topology = fabric(ports)
    tick = Tick(table, topology, load(None))
    tick.run(Window(START, 1.0, ()))
    counters = Counters(len(table))
    baker = Baker(BakeSettings(max_series=10_000_000))
    spent, stages = [], []
    for number in range(1, TICKS + 1):
        window = Window(START + number * 10**9, 1.0, (counters.batch(number),))
        begun = time.process_time()
        frame = tick.run(window)
        middle = time.process_time()
        baked = baker.bake(frame)
        baked.make(FORM)
        done = time.process_time()
        if number > WARM:
            spent.append(done - begun)
            stages.append(tick.seconds_by_stage | {"bake": done - middle})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    active = int((frame.labels.label != 4).sum())
    answer.put((len(table), baked.series, active, spent, stages, peak))


def reference(series):
    """Seconds that prometheus-client takes to render so many series."""
    registry = CollectorRegistry(auto_describe=False)
    gauge = Gauge("bench", "Reference.", ["device", "port"], registry=registry)
    for number in range(series):
        gauge.labels(f"leaf-{number // 64}", f"swp{number % 64}").set(number / 7)
    begun = time.process_time()
    generate_latest(registry)
    return time.process_time() - begun


def main(sizes):
    context = multiprocessing.get_context("spawn")
    for ports in sizes:
        answer = context.Queue()
        worker = context.Process(target=measure, args=(ports, answer))
        worker.start()
        size, series, active, spent, stages, peak = answer.get()
        worker.join()
        median = float(np.median(spent))
        print(f"{size} ports, {len(COUNTERS)} counters, {series} series, {active} ports not idle")
        print(
            f"  tick: median {median:.3f} s, slowest {max(spent):.3f} s of CPU; peak {peak:.2f} GB"
        )
        for name in stages[0]:
            print(f"    {name:11s} {np.median([stage[name] for stage in stages]):.3f} s")
        stock = reference(series // 100) * 100
        print(
            f"  prometheus-client renders these series in {stock:.2f} s: {stock / median:.1f} ticks"
        )


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [20_000, 100_000])
