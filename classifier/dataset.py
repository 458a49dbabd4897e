"""From recorded traces to rows of features and truth, on the very path that live counters take."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from classifier.features import Features, Observed
from classifier.labels import IDLE_UTILIZATION
from classifier.truth import logged_bytes, read_calls, shares
from collector.errors import TraceError
from collector.measured import Measured
from collector.ports import PortTable
from collector.rates import Rates
from collector.record import Floats, Int32s
from collector.ticks import TickCutter
from collector.topology import HOST, Fabric, Topology, bind, read_topology, speed_in_force
from collector.trace import Trace

TICKS: Final[tuple[float, ...]] = (0.1, 0.2, 0.05, 0.5, 1.0)
"""Tick lengths that every trace is replayed with; the first is the one that scores are for."""
WARM_UP: Final = 3.0
"""Seconds of history before a window is learnt from or judged."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Active windows of one trace at one tick length, columns over rows.

    features: (rows, F) float32. share: (rows, 4) true byte shares of the classes that move bytes.
    volume: (rows,) bytes. scheme: (rows,) name of the job's scheme, `none` outside any job.
    port, tick: (rows,) which port and which tick. idle: how many windows were idle.
    """

    trace: str
    seconds: float
    features: NDArray[np.float32]
    share: Floats
    volume: Floats
    scheme: NDArray[np.str_]
    port: Int32s
    tick: Int32s
    idle: int

    def thin(self, most: int, seed: int) -> "Rows":
        """At most so many rows, drawn at random, still in order of time: neighbours are alike."""
        if len(self.volume) <= most:
            return self
        draw = np.random.default_rng(seed).choice(len(self.volume), most, replace=False)
        kept = np.sort(draw)
        return Rows(
            trace=self.trace,
            seconds=self.seconds,
            features=self.features[kept],
            share=self.share[kept],
            volume=self.volume[kept],
            scheme=self.scheme[kept],
            port=self.port[kept],
            tick=self.tick[kept],
            idle=self.idle,
        )


def measured_ticks(trace: Trace, fabric: Fabric, seconds: float) -> Iterator[Measured]:
    """A trace's ticks through the same rates as live."""
    rates = Rates()
    cutter = TickCutter(seconds)
    for batch in trace.batches():
        cutter.push(batch)
        for window in cutter.advance(int(batch.time[-1])):
            yield rates.update(window.batches, window.end, window.seconds, fabric.nominal_bps)
    for window in cutter.flush():
        yield rates.update(window.batches, window.end, window.seconds, fabric.nominal_bps)


def extract(path: Path, seconds: float) -> Rows:
    """The rows of one labelled trace; TraceError where labels or topology are missing."""
    ports = PortTable()
    trace = Trace.open(path, ports)
    if trace.labels_path is None or trace.topology_path is None:
        raise TraceError(
            f"{path}: needs labels.parquet and topology.json beside the counters to be learnt from",
            reason="labels",
        )
    calls = read_calls(trace.labels_path)
    topology = read_topology(trace.topology_path)
    fabric = bind(topology, ports)
    labelled = sorted({ports.intern(*pair) for pair in zip(calls.device, calls.port, strict=True)})
    hosts = np.flatnonzero(fabric.port_role() == HOST)
    chosen = np.union1d(hosts, np.array(labelled, dtype=np.int64)).astype(np.int64)
    times, observed, volume, features = _replay(trace, ports, topology, seconds, chosen)
    edges = np.concatenate(([times[0] - round(seconds * 1e9)], times))
    logged = np.stack(
        [logged_bytes(calls, ports.devices[p], ports.ports[p], edges) for p in chosen], axis=1
    )
    moved = volume[:, chosen]
    share = shares(logged, moved)
    busier = np.stack([one.busier[chosen] for one in observed])
    history = np.stack([one.history[chosen] for one in observed])
    with np.errstate(invalid="ignore"):
        active = (busier >= IDLE_UTILIZATION) & (history >= WARM_UP)
    tick, column = np.nonzero(active)
    schemes = np.array(_schemes(path, [ports.devices[p] for p in chosen]))
    return Rows(
        trace=path.name,
        seconds=seconds,
        features=features[tick, column],
        share=share[tick, column],
        volume=moved[tick, column],
        scheme=schemes[column],
        port=chosen[column].astype(np.int32),
        tick=tick.astype(np.int32),
        idle=int(np.count_nonzero(busier < IDLE_UTILIZATION)),
    )


def _replay(
    trace: Trace, ports: PortTable, topology: Topology, seconds: float, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[Observed], Floats, NDArray[np.float32]]:
    """Tick ends, what was observed, (ticks, P) bytes both ways, (ticks, chosen, F) features."""
    features = Features()
    fabric = bind(topology, ports)
    inward = fabric.faces_host()
    times, observed, volume, rows = [], [], [], []
    for measured in measured_ticks(trace, fabric, seconds):
        if len(measured) > len(fabric):
            fabric = bind(topology, ports)
            inward = fabric.faces_host()
        speed = speed_in_force(measured.gauge("speed_bps"), fabric.nominal_bps)
        observed.append(features.update(measured, speed, inward))
        rows.append(observed[-1].rows_of(chosen))
        times.append(measured.time)
        moved = measured.rate("rx_bytes") + measured.rate("tx_bytes")
        volume.append(np.nan_to_num(moved) * seconds)
    return np.array(times, dtype=np.int64), observed, np.stack(volume), np.stack(rows)


def _schemes(path: Path, devices: list[str]) -> list[str]:
    """The training scheme of the job on each device, from meta.json where there is one."""
    file = path / "meta.json"
    jobs = json.loads(file.read_bytes()).get("jobs", []) if file.is_file() else []
    of = {host: str(job.get("variant", "none")) for job in jobs for host in job.get("hosts", [])}
    return [of.get(device, "none") for device in devices]


def digest(path: Path) -> str:
    """SHA-256 of a trace's counters, to recognise it in a model's manifest."""
    total = hashlib.sha256()
    files = [path] if path.is_file() else sorted(path.glob("counters*.parquet"))
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()
