"""The Frame: one tick's frozen result. Exporters read the newest one and compute nothing."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from classifier.labels import Labels
from collector.measured import Measured
from collector.topology import Fabric

CAUSES: Final[tuple[str, ...]] = (
    "none",
    "ecmp_collision",
    "under_capacity",
    "incast",
    "slow_receiver",
    "degraded_link",
    "pause_storm",
    "link_flap",
    "misconfigured",
    "victim",
)
"""Values of `congestion_cause`. Until causes are inferred, every port says `none`."""


@dataclass(frozen=True, slots=True)
class Congestion:
    """One tick's congestion per port (P), for the direction that leaves the port (egress).

    speed_bps: (P,) line rate in force, NaN where unknown.
    tx_utilization, rx_utilization: (P,) share of the line rate, NaN where unknown.
    held: (P,) share of time in which the port had data and was not allowed to send; NaN without
        a stall counter.
    held_ratio: (P,) held / (held + tx_utilization): the same, undiluted by a low duty cycle.
    busy: (P,) tx_utilization + held, at most 1.
    score: (P,) 0 (clear) to 1 (congested). cause: (P,) index into CAUSES.
    evidence: (P,) index into EVIDENCE, the signal that carries most of the score.
    """

    speed_bps: NDArray[np.float64]
    tx_utilization: NDArray[np.float64]
    rx_utilization: NDArray[np.float64]
    held: NDArray[np.float64]
    held_ratio: NDArray[np.float64]
    busy: NDArray[np.float64]
    score: NDArray[np.float64]
    cause: NDArray[np.int8]
    evidence: NDArray[np.int8]


EVIDENCE: Final[tuple[str, ...]] = (
    "none",
    "stalled",
    "queue",
    "discards",
    "ecn",
    "cnp",
    "retransmits",
)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One suggested change of routing, level L1 (from counters and topology alone).

    kind: `avoid_link`, `drain_link` or `set_weights`. device: where it is to be applied.
    destination: the leaf that the weights are for, empty for avoid and drain.
    weights: (port of the device, weight) pairs, positive integers; 0 takes the link out.
    reason: one word. evidence: (metric, value, threshold) rows. expected_gain: the largest
        bytes-over-capacity before, divided by after; 1 where nothing is gained.
    since: ns, the tick at which it appeared.
    """

    id: str
    kind: str
    device: str
    port: str
    destination: str
    weights: tuple[tuple[str, int], ...]
    reason: str
    evidence: tuple[tuple[str, float, float], ...]
    expected_gain: float
    since: int


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything one tick found. Columns are over ports; `devices`/`ports` name them.

    number: ticks since the start, from 0. time: ns, end of the tick. seconds: its length.
    """

    number: int
    time: int
    seconds: float
    devices: tuple[str, ...]
    ports: tuple[str, ...]
    measured: Measured
    labels: Labels
    congestion: Congestion
    fabric: Fabric
    suggestions: tuple[Suggestion, ...]
