"""Links that are slower than they claim: a flat rate below the line rate with a queue before it."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyzer.frame import EVIDENCE, Congestion
from analyzer.paths import Tiers
from collector.record import Bools, Floats
from collector.topology import Fabric

INTERIOR: Final = 3
"""A tick whose neighbours are queued as well was queued from end to end."""
FEWEST: Final = 8
SHORTEST_SECONDS: Final = 2.0
"""Interior ticks, and their time together, before a plateau is believed."""
HIGHEST: Final = 0.8
"""A plateau above this share of the line rate is no finding."""
FLAT: Final = 1.15
"""Largest over mean rate on a plateau; a queue that merely comes and goes is not flat."""
REACHED: Final = 0.9
"""Some sibling must have reached this: other links of the device do carry what they claim."""
FREE: Final = 0.05
WAITING: Final = 0.2
BUSY: Final = 0.95
"""Somebody who feeds the device was held (ratio) and, sent or held, never idle through the tick.
Without it a busy link with pauses between its bursts looks like a slow one."""
FORGET_SECONDS: Final = 1800.0
_OWN_QUEUE: Final = (EVIDENCE.index("queue"), EVIDENCE.index("discards"))


class Plateaus:
    """Watches the fabric's egresses (E) for hidden degradation."""

    def __init__(self, size: int) -> None:
        self._run = np.zeros(size, np.int32)
        self._previous: Floats = np.zeros(size)
        self._pressed: Bools = np.zeros(size, np.bool_)
        self._count = np.zeros(size, np.int32)
        self._seconds: Floats = np.zeros(size)
        self._sum: Floats = np.zeros(size)
        self._peak: Floats = np.zeros(size)
        self._reach: Floats = np.zeros(size)
        self._found: Floats = np.full(size, np.nan)
        self._seen: NDArray[np.int64] = np.zeros(size, np.int64)

    def update(
        self, congestion: Congestion, fabric: Fabric, tiers: Tiers, time: int, seconds: float
    ) -> Floats:
        """(E,) share of the line rate at which the egress seems capped, NaN where it does not."""
        port = tiers.port
        moved = np.nan_to_num(congestion.tx_utilization[port])
        self._reach = np.maximum(self._reach * 0.5 ** (seconds / FORGET_SECONDS), moved)
        queued = congestion.score[port] >= 0.5
        if queued.any():
            evidence = congestion.evidence[port]
            own = (evidence == _OWN_QUEUE[0]) | (evidence == _OWN_QUEUE[1])
            queued &= own & ~(congestion.held_ratio[port] >= FREE)
        self._run = np.where(queued, self._run + 1, 0)
        interior = (self._run >= INTERIOR) & self._pressed
        if interior.any():
            self._collect(interior, seconds)
            self._judge(tiers, interior, time)
        self._previous = moved
        if queued.any():
            self._pressed = _pressed(congestion, fabric)[fabric.device[port]]
        if not np.isnan(self._found).all():
            refuted = (self._reach > self._found * FLAT + 0.05) | (
                time - self._seen > FORGET_SECONDS * 1e9
            )
            self._found[refuted] = np.nan
        return self._found

    def _collect(self, interior: Bools, seconds: float) -> None:
        """The tick before is the interior one: queued before, during and after."""
        moved = np.where(interior, self._previous, 0.0)
        self._count += interior
        self._seconds += np.where(interior, seconds, 0.0)
        self._sum += moved
        self._peak = np.maximum(self._peak, moved)

    def _judge(self, tiers: Tiers, interior: Bools, time: int) -> None:
        mean = self._sum / np.maximum(self._count, 1)
        flat = (self._peak <= HIGHEST) & (self._peak <= mean * FLAT) & (self._reach <= HIGHEST)
        enough = (self._count >= FEWEST) & (self._seconds >= SHORTEST_SECONDS)
        capped = interior & flat & enough
        if capped.any():
            capped &= _sibling_reach(tiers, self._reach) >= REACHED
            self._found = np.where(capped, self._peak, self._found)
            self._seen = np.where(capped, time, self._seen)


def _pressed(congestion: Congestion, fabric: Fabric) -> Bools:
    """(D,) a feeder of the device waited or sent through the whole tick, and waited much."""
    size = min(len(fabric), len(congestion.busy))
    waiting = (congestion.held_ratio[:size] >= WAITING) & (congestion.busy[:size] >= BUSY)
    ahead = fabric.peer[:size][waiting]
    flags = np.zeros(len(fabric.names), np.bool_)
    flags[fabric.device[ahead[ahead >= 0]]] = True
    return flags


def _sibling_reach(tiers: Tiers, reach: Floats) -> Floats:
    """(E,) the highest rate seen on any egress of the same device in the fabric."""
    device = np.where(tiers.up, tiers.leaf, tiers.spine)
    most = np.zeros(int(device.max()) + 1)
    np.maximum.at(most, device, reach)
    highest: Floats = most[device]
    return highest
