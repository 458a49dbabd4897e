"""Labels for every port, tick by tick, or `unknown` with the reason."""

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from classifier.calibration import confidence, raw_score
from classifier.features import Features, Observed
from classifier.labels import (
    IDLE,
    IDLE_UTILIZATION,
    LABELS,
    REASONS,
    SHARES,
    UNKNOWN,
    Labels,
)
from classifier.model import CLASSES, Model
from classifier.novelty import Gate
from classifier.posterior import Posterior
from collector.measured import Measured
from collector.record import Bools, Floats

SLACK: Final = 1.25
"""Ticks and intervals may leave the trained band by this factor."""
BLOCK: Final = 8192
"""Ports that the model is asked about at once: enough to be fast, few enough to be small."""
NO_DATA, SPEED, HISTORY, BAND, STRANGE, CLOSE = range(1, len(REASONS))


class Classifier:
    """Incremental: one `update` per tick, state per port.

    labels, reasons: how many ports got which label, or were withheld for which reason, summed
    over all ticks.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._features = Features()
        self._posterior = Posterior(len(model.forest.schemes))
        self._gate = Gate(model.card.novelty)
        self.labels: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

    def update(self, measured: Measured, speed_bps: Floats, inward: Bools | None = None) -> Labels:
        """Label one tick.

        speed_bps: (P,) line rates, NaN where unknown. inward: (P,) True on switch ports that face
        a host (`Fabric.faces_host`); without it, what such a port sends counts as sent by the
        host, which swaps pull and push of a parameter server.
        """
        observed = self._features.update(measured, speed_bps, inward)
        reason = self._withheld(measured, speed_bps, observed)
        with np.errstate(invalid="ignore"):
            idle = (observed.busier < IDLE_UTILIZATION) & (reason != NO_DATA) & (reason != SPEED)
        # A port on which nothing moved is idle whatever its speed.
        silent = (measured.rate("rx_bytes") == 0) & (measured.rate("tx_bytes") == 0)
        idle |= silent & measured.live
        size = len(measured)
        share = np.full((size, len(SHARES)), np.nan, dtype=np.float32)
        certain = np.zeros(size, dtype=np.float32)
        # A live port about which nothing can be said gets the shares of someone who knows nothing.
        share[measured.live] = (*[1 / CLASSES] * CLASSES, 0.0)
        label = np.full(size, UNKNOWN, dtype=np.int8)
        reason[idle] = 0
        label[idle] = IDLE
        share[idle] = np.eye(len(SHARES), dtype=np.float32)[IDLE]
        certain[idle] = 1.0
        active = np.flatnonzero(~idle & (reason == 0))
        for start in range(0, len(active), BLOCK):
            part = active[start : start + BLOCK]
            self._judge(measured, observed, part, (label, reason, share, certain))
        self._count(label, reason)
        return Labels(label=label, reason=reason, share=share, confidence=certain)

    def _withheld(
        self, measured: Measured, speed_bps: Floats, observed: Observed
    ) -> NDArray[np.int8]:
        """(P,) reason not to ask the model at all, 0 where there is none; the first one counts."""
        band = self._model.card.band
        outside = (
            measured.seconds > band.longest_tick * SLACK
            or measured.seconds < band.shortest_tick / SLACK
        )
        with np.errstate(invalid="ignore"):
            slow = measured.interval > band.longest_interval * SLACK
        reason = np.zeros(len(measured), dtype=np.int8)
        reason[observed.history < band.history] = HISTORY
        reason[slow | outside] = BAND
        reason[np.isnan(observed.busier)] = NO_DATA
        reason[~(speed_bps > 0)] = SPEED
        reason[~measured.live] = NO_DATA
        return reason

    def _judge(
        self,
        measured: Measured,
        observed: Observed,
        active: NDArray[np.intp],
        into: tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]],
    ) -> None:
        """Ask the model about the active ports and write its answer into the columns."""
        label, reason, share, certain = into
        rows = observed.rows_of(active)
        joint = self._model.forest.joint(rows)
        seconds = np.where(measured.fresh[active], measured.seconds, 0.0)
        shares = self._posterior.update(joint, active, seconds)
        sure = confidence(self._model.card.calibration, raw_score(shares))
        strange = self._gate.distance(rows) > self._gate.limit
        close = sure < self._model.card.answer_above
        share[active, :CLASSES] = shares
        share[active, CLASSES] = 0.0
        certain[active] = sure
        why = np.where(strange, STRANGE, np.where(close, CLOSE, 0)).astype(np.int8)
        reason[active] = why
        label[active] = np.where(why == 0, shares.argmax(axis=1), UNKNOWN)

    def _count(self, label: NDArray[np.int8], reason: NDArray[np.int8]) -> None:
        for place, number in enumerate(np.bincount(label, minlength=len(LABELS))):
            self.labels[LABELS[place]] += int(number)
        for place, number in enumerate(np.bincount(reason, minlength=len(REASONS))):
            if place:
                self.reasons[REASONS[place]] += int(number)
