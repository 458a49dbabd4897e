"""Frames made by hand: a small one whose every value is known, and large ones of any size."""

from dataclasses import replace

import numpy as np

from analyzer.frame import Congestion, Frame, Suggestion
from classifier.labels import IDLE, LABELS, REASONS, UNKNOWN, Labels
from collector.counters import CUMULATIVE, CUMULATIVE_INDEX, GAUGE_INDEX, GAUGES
from collector.measured import Measured
from collector.topology import Fabric

START = 1_700_000_000_000_000_000
USUAL = (
    "rx_bytes",
    "tx_bytes",
    "rx_packets",
    "tx_packets",
    "rx_discards",
    "tx_discards",
    "rx_errors",
    "tx_errors",
    "rx_pause_frames",
    "tx_pause_frames",
    "tx_stalled_ns",
)
AVOID = Suggestion(
    id="avoid-leaf0-p1",
    kind="avoid_link",
    device="leaf0",
    port="p1",
    destination="",
    weights=(),
    reason="degraded",
    evidence=(("speed_ratio", 0.25, 0.9),),
    expected_gain=1.5,
    since=START,
)
WEIGHTS = Suggestion(
    id="weights-leaf0-leaf1",
    kind="set_weights",
    device="leaf0",
    port="",
    destination="leaf1",
    weights=(("p0", 4), ("p1", 0)),
    reason="capacity",
    evidence=(),
    expected_gain=1.25,
    since=START,
)


def large_frame(
    ports: int, *, number: int = 0, per_device: int = 64, counters=USUAL, seed: int = 1
) -> Frame:
    """A frame of so many live ports with plausible values; device and port names are numbered."""
    random, base = np.random.default_rng(seed + number), np.random.default_rng(seed)
    devices = -(-ports // per_device)
    totals = np.zeros((len(CUMULATIVE), ports), dtype=np.uint64)
    rates = np.full((len(CUMULATIVE), ports), np.nan)
    present = np.zeros((len(CUMULATIVE), ports), dtype=np.bool_)
    for name in counters:
        row = CUMULATIVE_INDEX[name]
        totals[row] = base.integers(0, 2**50, ports, dtype=np.uint64) + np.uint64(number * 10**9)
        rates[row] = random.random(ports) * 5e10
        present[row] = True
    gauges = np.full((len(GAUGES), ports), np.nan)
    gauges[GAUGE_INDEX["oper_up"]] = 1.0
    gauges[GAUGE_INDEX["queue_bytes"]] = random.integers(0, 10**6, ports)
    gauges[GAUGE_INDEX["speed_bps"]] = 400e9
    share = random.random((ports, 5)).astype(np.float32)
    score = random.random(ports) * 0.4
    everywhere = np.ones(ports, dtype=np.bool_)
    return Frame(
        number=number,
        time=START + number * 1_000_000_000,
        seconds=1.0,
        devices=tuple(f"leaf{port // per_device:04d}" for port in range(ports)),
        ports=tuple(f"Ethernet{port % per_device * 4}" for port in range(ports)),
        measured=Measured(
            time=START + number * 1_000_000_000,
            seconds=1.0,
            rates=rates,
            totals=totals,
            present=present,
            gauges=gauges,
            fresh=everywhere,
            live=everywhere.copy(),
            age=random.random(ports),
            interval=np.ones(ports),
            events={},
        ),
        labels=Labels(
            label=random.integers(0, 5, ports).astype(np.int8),
            reason=np.zeros(ports, dtype=np.int8),
            share=share / share.sum(axis=1, keepdims=True),
            confidence=random.random(ports).astype(np.float32),
        ),
        congestion=Congestion(
            speed_bps=np.full(ports, 400e9),
            tx_utilization=random.random(ports),
            rx_utilization=random.random(ports),
            held=random.random(ports),
            held_ratio=random.random(ports),
            busy=random.random(ports),
            score=score,
            cause=np.zeros(ports, dtype=np.int8),
            evidence=np.zeros(ports, dtype=np.int8),
        ),
        fabric=Fabric(
            device=(np.arange(ports) // per_device).astype(np.int32),
            peer=np.full(ports, -1, dtype=np.int32),
            nominal_bps=np.full(ports, 400e9),
            names=tuple(f"leaf{device:04d}" for device in range(devices)),
            role=np.full(devices, 2, dtype=np.int32),
            site=("",) * devices,
        ),
        suggestions=(),
    )


def small_frame(number: int = 0, *, suggestions=(AVOID, WEIGHTS)) -> Frame:
    """Two leaves of two ports each; leaf1 p1 is silent, leaf0 p1 is congested and degraded.

    leaf0 p0 - leaf1 p0 are the ends of one cable. leaf1 p0 has no discard counters, an unknown
    label and no known speed. leaf0 p0 has sent more than 2**53 bytes.
    """
    frame = large_frame(4, number=number, per_device=2)
    measured, found = frame.measured, frame.congestion
    totals, rates, present = measured.totals, measured.rates, measured.present
    tx, rx = CUMULATIVE_INDEX["tx_bytes"], CUMULATIVE_INDEX["rx_bytes"]
    step = np.uint64(number)
    moving = np.array([1000, 1000, 1000, 0], dtype=np.uint64)  # the last port is silent
    totals[tx] = np.array([2**53 + 1, 1000, 2000, 3000], dtype=np.uint64) + step * moving
    totals[rx] = np.array([10, 20, 30, 40], dtype=np.uint64) + step * np.uint64(10)
    totals[CUMULATIVE_INDEX["tx_stalled_ns"]] = 1_500_000_000
    rates[tx], rates[rx] = 1000.0, 10.0
    for name in ("rx_discards", "tx_discards"):
        present[CUMULATIVE_INDEX[name], 2] = False
    measured.live[3] = False
    measured.fresh[3] = False
    measured.age[:] = [0.25, 0.25, 0.5, 60.0]
    frame.labels.label[:] = [1, 2, UNKNOWN, IDLE]
    frame.labels.reason[2] = REASONS.index("speed_unknown")
    frame.labels.share[:] = [
        [0.25, 0.75, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0.2, 0.2, 0.2, 0.2, 0.2],
        [np.nan] * 5,
    ]
    found.score[:] = [0.125, 0.875, 0.0, np.nan]
    found.tx_utilization[:] = [0.5, 0.75, np.nan, np.nan]
    found.rx_utilization[:] = [0.25, 0.5, np.nan, np.nan]
    found.held[:] = [0.0, 0.5, np.nan, np.nan]
    found.busy[:] = [0.5, 1.0, np.nan, np.nan]
    found.speed_bps[2:] = np.nan
    fabric = replace(
        frame.fabric,
        names=("leaf0", "leaf1"),
        peer=np.array([2, -1, 0, -1], dtype=np.int32),
    )
    return replace(
        frame,
        devices=("leaf0", "leaf0", "leaf1", "leaf1"),
        ports=("p0", "p1", "p0", "p1"),
        fabric=fabric,
        suggestions=suggestions,
    )


assert len(LABELS) == 6
