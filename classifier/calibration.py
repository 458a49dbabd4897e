"""How far to trust a top share: fitted on predictions for traces that were held out."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from classifier.card import Table
from collector.record import Bools, Floats

POINTS: Final = 21
WORTH: Final = 2 / 3
"""A label is given from this probability on: a wrong one costs twice what a right one is worth."""


def raw_score(share: Floats) -> NDArray[np.float64]:
    """(rows,) what is calibrated: mean of the top share and its lead over the runner-up."""
    ordered = np.sort(share, axis=1)
    result: Floats = ordered[:, -1] - 0.5 * ordered[:, -2]
    return result


def calibrate(score: Floats, right: Bools, weight: Floats) -> Table:
    """A monotone table from raw score to the probability that the top class is the right one."""
    grid = np.linspace(0.0, 1.0, POINTS)
    if not len(score):
        return Table(score=(0.0, 1.0), probability=(0.0, 1.0))
    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    fitted.fit(score, right.astype(np.float64), sample_weight=np.maximum(weight, 1e-12))
    return Table(
        score=tuple(grid.tolist()), probability=tuple(np.round(fitted.predict(grid), 4).tolist())
    )


def confidence(table: Table, score: Floats) -> NDArray[np.float64]:
    """(rows,) calibrated probabilities."""
    result: Floats = np.interp(score, table.score, table.probability)
    return result
