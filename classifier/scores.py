"""Scores of byte shares and labels, weighted by bytes."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from classifier.truth import ACTIVE
from collector.record import Bools, Floats

BINS: Final = 10


def scores(predicted: Floats, true: Floats, volume: Floats) -> dict[str, Any]:
    """Scores of (rows, 4) predicted shares against true ones; rows weigh by `volume`.

    A window's true class is the one with most of its bytes. `f1` is the mean over the classes
    that occur in the truth; `balanced` is the mean recall of parameter_sync and gradient_update,
    where any third answer counts as wrong.
    """
    table = confusion(predicted, true, volume)
    right = np.diag(table)
    precision = right / np.maximum(table.sum(axis=0), 1e-12)
    recall = right / np.maximum(table.sum(axis=1), 1e-12)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    occurs = table.sum(axis=1) > 0
    total = max(float(table.sum()), 1e-12)
    error = np.abs(predicted - true).mean(axis=1)
    return {
        "f1": _round(f1[occurs].mean() if occurs.any() else 0.0),
        "balanced": _round(recall[:2].mean()),
        "accuracy": _round(right.sum() / total),
        "share_error": _round(float((error * volume).sum()) / max(float(volume.sum()), 1e-12)),
        "classes": {
            name: {
                "precision": _round(precision[place]),
                "recall": _round(recall[place]),
                "f1": _round(f1[place]),
                "bytes": _round(table[place].sum() / total),
            }
            for place, name in enumerate(ACTIVE)
        },
        "confusion": np.round(table / total, 4).tolist(),
    }


def confusion(predicted: Floats, true: Floats, volume: Floats) -> NDArray[np.float64]:
    """(4 true, 4 predicted) bytes by the classes with the largest shares."""
    table = np.zeros((len(ACTIVE), len(ACTIVE)))
    np.add.at(table, (true.argmax(axis=1), predicted.argmax(axis=1)), volume)
    return table


def calibration_error(certain: Floats, right: Bools, volume: Floats) -> float:
    """Expected calibration error: mean gap between stated and met confidence over ten bins."""
    place = np.minimum((certain * BINS).astype(np.int64), BINS - 1)
    stated = np.bincount(place, certain * volume, BINS)
    met = np.bincount(place, right * volume, BINS)
    return _round(float(np.abs(stated - met).sum()) / max(float(volume.sum()), 1e-12))


def separation(known: Floats, strange: Floats) -> float:
    """Probability that a strange row lies further out than a known one (AUROC)."""
    if not len(known) or not len(strange):
        return float("nan")
    ordered = np.sort(known)
    low = np.searchsorted(ordered, strange, side="left")
    high = np.searchsorted(ordered, strange, side="right")
    return _round(float((low + high).mean()) / 2 / len(known))


def _round(value: float) -> float:
    return round(float(value), 4)
