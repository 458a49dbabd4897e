"""How unlike anything in training a port's job is, by the distance of job-level features."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from classifier.card import Novelty
from classifier.dataset import Rows
from classifier.names import NAMES
from collector.record import Floats

SIGNATURE: Final = (
    "active_30s", "spread_30s", "skew_30s", "peak", "starts_30s", "step_period",
    "block_volume_spread", "block_gap_mean_of_step", "block_mean_of_step", "share_10s",
    "busiest_over_pool",
)  # fmt: skip
"""Slow features: they describe the job, not the moment."""
_COLUMNS: Final = tuple(NAMES.index(name) for name in SIGNATURE)
PERCENT: Final = 99.0
CLIP: Final = 5.0


def learn(rows: Sequence[Rows]) -> Novelty:
    """Signatures of the training traces; the limit is what each keeps from all the others."""
    raw, trace = [], []
    for one in rows:
        for scheme in np.unique(one.scheme):
            here = one.features[one.scheme == scheme][:, _COLUMNS]
            if len(here):
                raw.append(np.median(here, axis=0))
                trace.append(one.trace)
    signatures = np.array(raw, dtype=np.float64)
    offset = np.median(signatures, axis=0)
    spread = np.percentile(signatures, 84, axis=0) - np.percentile(signatures, 16, axis=0)
    scale = np.maximum(spread / 2, 1e-3)
    centres = np.clip((signatures - offset) / scale, -CLIP, CLIP)
    names = np.array(trace)
    kept = []
    for one in rows:
        others = centres[names != one.trace]
        if len(others) and len(one.features):
            distances = _nearest(_scaled(one.features, offset, scale), others)
            kept.append(float(np.median(distances)))
    limit = float(np.percentile(kept, PERCENT)) if kept else float("inf")
    return Novelty(
        names=SIGNATURE,
        offset=tuple(offset.tolist()),
        scale=tuple(scale.tolist()),
        centres=tuple(tuple(row) for row in centres.tolist()),
        limit=min(limit, 1e9),
    )


class Gate:
    """Distances to the nearest training signature."""

    def __init__(self, novelty: Novelty) -> None:
        self._offset = np.array(novelty.offset)
        self._scale = np.array(novelty.scale)
        self._centres = np.array(novelty.centres)
        self.limit = novelty.limit

    def distance(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """(rows,) distance of (rows, F) features."""
        return _nearest(_scaled(features, self._offset, self._scale), self._centres)


def _scaled(features: NDArray[np.float32], offset: Floats, scale: Floats) -> Floats:
    chosen = features[:, _COLUMNS].astype(np.float64)
    result: Floats = np.minimum(np.maximum((chosen - offset) / scale, -CLIP), CLIP)
    return result


def _nearest(points: Floats, centres: Floats) -> Floats:
    square = (
        (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)[None]
    )
    result: Floats = np.sqrt(np.maximum(square.min(axis=1), 0.0) / points.shape[1])
    return result
