"""How much each leaf-spine egress can really carry, settled so that routes do not flutter."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyzer.frame import Congestion
from analyzer.paths import Tiers
from analyzer.plateau import Plateaus
from collector.measured import Measured
from collector.record import Bools, Floats, Int64s
from collector.topology import Fabric

REASONS: Final = ("none", "asymmetric", "degraded", "hidden", "errors", "down")
"""Why a capacity is what it is, from harmless to worst."""
ASYMMETRIC, DEGRADED, HIDDEN, ERRORS, DOWN = range(1, 6)

PERSIST_SECONDS: Final = 3.0
"""A loss of capacity is believed when it has lasted this long."""
RECOVER_SECONDS: Final = 15.0
RECOVER_LONGEST: Final = 3600.0
"""A recovery is believed after this long, twice as long after each relapse, an hour at most."""
RELAPSE: Final = 10.0
"""A loss is a relapse within this many times the last wait for recovery."""
SAME: Final = 0.03
"""Two capacities closer than this share of the larger are one."""
ERROR_SECONDS: Final = 10.0
UNCORRECTED: Final = (0.1, 100.0)
SYMBOLS: Final = (10.0, 1e5)
BAD_FRAMES: Final = (1e-5, 1e-2)
"""Errors a second (frames: a share) at which health is 1, and 0; logarithmic between."""
HEALTH_STEPS: Final = 4


class Capacities:
    """The usable capacity of each egress (E) of a two-tier fabric, and why.

    tiers: the egresses. settled: (E,) bit/s; relative units where no speed is known at all. reason:
    (E,) index into REASONS. Design speeds count from the first tick; what counters claim must
    persist, in seconds. A port without a living sample keeps what was last known: a lost collector
    drains nothing.
    """

    def __init__(self, tiers: Tiers) -> None:
        known = tiers.nominal_bps[~np.isnan(tiers.nominal_bps)]
        fill = float(np.median(known)) if known.size else 1.0
        self.nominal: Floats = np.where(np.isnan(tiers.nominal_bps), fill, tiers.nominal_bps)
        self.settled: Floats = self.nominal.copy()
        self.reason: NDArray[np.int8] = np.zeros(len(tiers), np.int8)
        self.tiers = tiers
        self._blind = not known.size
        self._candidate: Floats = self.nominal.copy()
        self._why: NDArray[np.int8] = self.reason.copy()
        self._since: Int64s = np.zeros(len(tiers), np.int64)
        self._wait: Floats = np.full(len(tiers), RECOVER_SECONDS)
        self._recovered: Int64s = np.full(len(tiers), np.iinfo(np.int64).min // 2, np.int64)
        self._errors: Floats = np.zeros((3, len(tiers)))
        self._plateaus = Plateaus(len(tiers))

    def update(self, measured: Measured, congestion: Congestion, fabric: Fabric) -> bool:
        """Take one tick; True where a settled capacity changed."""
        with np.errstate(all="ignore"):
            claimed, why = self._claims(measured, congestion, fabric)
        return self._settle(claimed, why, measured.time)

    def _claims(
        self, measured: Measured, congestion: Congestion, fabric: Fabric
    ) -> tuple[Floats, NDArray[np.int8]]:
        """(E,) what this tick says that each egress can carry, and why."""
        port, peer = self.tiers.port, self.tiers.peer
        speed = np.fmin(congestion.speed_bps[port], congestion.speed_bps[peer])
        if self._blind and (speed > 0).any():
            self._learn_nominal(speed)
        speed = np.where(speed > 0, speed, self.nominal)
        why = np.where(speed < self.nominal * (1 - SAME), DEGRADED, 0).astype(np.int8)
        capped = self._plateaus.update(
            congestion, fabric, self.tiers, measured.time, measured.seconds
        )
        hidden = capped < 1 - SAME
        claimed = np.where(hidden, speed * np.nan_to_num(capped), speed)
        why[hidden] = HIDDEN
        health = self._health(measured)
        claimed = claimed * health
        why[health < 1] = ERRORS
        up = measured.gauge("oper_up")
        down = (up[port] == 0) | (up[peer] == 0)
        claimed[down], why[down] = 0.0, DOWN
        known = measured.live[port] | measured.live[peer]
        return np.where(known, claimed, self._candidate), np.where(known, why, self._why)

    def _learn_nominal(self, speed: Floats) -> None:
        """Without any design speed, the speeds first seen are the design."""
        self.nominal = np.where(speed > 0, speed, np.median(speed[speed > 0]))
        self.settled = self.nominal.copy()
        self._candidate = self.nominal.copy()
        self._blind = False

    def _health(self, measured: Measured) -> Floats:
        """(E,) 1 down to 0 in quarters, from the errors that the receiving end counts."""
        peer = self.tiers.peer
        frames = np.maximum(measured.rate("rx_packets")[peer], 100.0)
        told = np.stack(
            (
                measured.rate("fec_uncorrected")[peer],
                measured.rate("symbol_errors")[peer],
                measured.rate("rx_errors")[peer] / frames,
            )
        )
        if not (np.nan_to_num(told).any() or self._errors.any()):
            return np.ones(len(peer))
        new = min(measured.seconds / ERROR_SECONDS, 1.0)
        self._errors += new * (np.where(np.isnan(told), self._errors, told) - self._errors)
        self._errors[self._errors < 1e-9] = 0.0
        low, high = np.log10(np.array([UNCORRECTED, SYMBOLS, BAD_FRAMES])).T[:, :, None]
        grade = (np.log10(np.maximum(self._errors, 1e-12)) - low) / (high - low)
        lost = np.clip(grade.max(axis=0), 0.0, 1.0)
        quarters: Floats = np.ceil((1 - lost) * HEALTH_STEPS) / HEALTH_STEPS
        return np.where(lost >= 1, 0.0, quarters)

    def _settle(self, claimed: Floats, why: NDArray[np.int8], time: int) -> bool:
        """Adopt claims that have stood for their time."""
        moved = _differ(claimed, self._candidate)
        self._candidate = np.where(moved, claimed, self._candidate)
        self._why = np.where(moved | (why > self._why), why, self._why).astype(np.int8)
        self._since = np.where(moved, time, self._since)
        wanting = _differ(self._candidate, self.settled)
        if not wanting.any():
            return False
        lost = self._candidate < self.settled
        patience = np.where(lost, PERSIST_SECONDS, self._wait) * 1e9
        due = wanting & (time - self._since >= patience)
        if not due.any():
            return False
        relapse = due & lost & (time - self._recovered < RELAPSE * self._wait * 1e9)
        self._wait = np.where(relapse, np.minimum(self._wait * 2, RECOVER_LONGEST), self._wait)
        self._recovered = np.where(due & ~lost, time, self._recovered)
        self.settled = np.where(due, self._candidate, self.settled)
        self.reason = np.where(due, self._why, self.reason).astype(np.int8)
        return True


def _differ(one: Floats, other: Floats) -> Bools:
    differs: Bools = np.abs(one - other) > SAME * np.maximum(one, other)
    return differs
