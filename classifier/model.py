"""The model: one forest over features, whose leaves hold shares per scheme and class.

A window alone hardly tells parameters from gradients; the scheme of the job does. So the forest
predicts the joint distribution of (scheme, class of the bytes); the scheme part is averaged over
time on each port (`classifier.posterior`), and decides how the window's bytes are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

from classifier.card import Card
from classifier.dataset import Rows
from classifier.truth import ACTIVE
from collector.record import Floats

CLASSES: Final = len(ACTIVE)
TREES: Final = 32
LEAF_ROWS: Final = 30
DEPTH: Final = 14
FEATURES_TRIED: Final = 0.4
BLOCK: Final = 256
"""Rows whose leaves are added up at once: what they need in between fits a cache."""
STEPS: Final = 128
"""Leaf values are rounded to this fraction, which makes the file small."""


@dataclass(frozen=True, slots=True)
class Forest:
    """A fitted estimator and what its outputs mean.

    schemes: names. pairs: per output, index of the scheme and of the class.
    """

    estimator: ExtraTreesRegressor
    schemes: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    leaves: tuple[NDArray[np.float32], ...] = field(init=False)
    trees: tuple[Any, ...] = field(init=False)
    _stacked: NDArray[np.float32] = field(init=False, repr=False)
    _first: NDArray[np.intp] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        trees = tuple(one.tree_ for one in self.estimator.estimators_)
        object.__setattr__(self, "trees", trees)
        leaves = tuple(tree.value[:, :, 0].astype(np.float32) for tree in trees)
        object.__setattr__(self, "leaves", leaves)
        object.__setattr__(self, "_stacked", np.concatenate(leaves))
        first = np.cumsum([0, *(len(one) for one in leaves)])[:-1, None]
        object.__setattr__(self, "_first", first)

    def outputs(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """(rows, outputs) mean over the trees; the same as the estimator's own `predict`.

        Walking the trees directly avoids the estimator's fixed cost per call, which is larger
        than the walk itself for a few dozen ports.
        """
        features = np.ascontiguousarray(features, dtype=np.float32)
        place = np.empty((len(self.trees), len(features)), dtype=np.intp)
        for number, tree in enumerate(self.trees):
            place[number] = tree.apply(features)
        place += self._first
        total = np.empty((len(features), len(self.pairs)), dtype=np.float32)
        for start in range(0, len(features), BLOCK):
            found = self._stacked.take(place[:, start : start + BLOCK], axis=0)
            found.sum(axis=0, out=total[start : start + BLOCK])
        total /= np.float32(len(self.trees))
        return total

    def joint(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """(rows, schemes, 4) joint distribution; every row sums to 1."""
        result = np.zeros((len(features), len(self.schemes), CLASSES), dtype=np.float32)
        scheme, label = np.array(self.pairs).T
        result[:, scheme, label] = self.outputs(features)
        result /= np.maximum(result.sum(axis=(1, 2), keepdims=True), np.float32(1e-6))
        return result


@dataclass(frozen=True, slots=True)
class Model:
    """A forest and the card that says what it is made of and how far to trust it."""

    forest: Forest
    card: Card


def weights(rows: Sequence[Rows]) -> NDArray[np.float64]:
    """Weights over all rows: by the root of the bytes, alike per trace, balanced over schemes."""
    parts = []
    for one in rows:
        root = np.sqrt(one.volume)
        parts.append(root / max(root.sum(), 1e-9))
    weight = np.concatenate(parts)
    scheme = np.concatenate([one.scheme for one in rows])
    for name in np.unique(scheme):
        here = scheme == name
        weight[here] /= np.sqrt(weight[here].sum())
    result: Floats = weight / weight.mean()
    return result


def fit(
    rows: Sequence[Rows], *, seed: int, columns: Sequence[int] | None = None, trees: int = TREES
) -> Forest:
    """Fit the forest on rows of any number of traces.

    columns: which features to look at, all of them if None.
    """
    features = np.concatenate([one.features for one in rows])
    share = np.concatenate([one.share for one in rows])
    scheme = np.concatenate([one.scheme for one in rows])
    schemes, which = np.unique(scheme, return_inverse=True)
    joint = np.zeros((len(share), len(schemes), CLASSES))
    joint[np.arange(len(share)), which] = share
    flat = joint.reshape(len(share), -1)
    kept = np.flatnonzero(flat.sum(axis=0) > 0)
    estimator = ExtraTreesRegressor(
        n_estimators=trees,
        min_samples_leaf=LEAF_ROWS,
        max_depth=DEPTH,
        max_features=FEATURES_TRIED if columns is None else 1.0,
        random_state=seed,
        n_jobs=1,
    )
    if columns is not None:
        mask = np.zeros(features.shape[1], dtype=np.bool_)
        mask[list(columns)] = True
        features = np.where(mask, features, np.float32(0))
    estimator.fit(features, flat[:, kept], sample_weight=weights(rows))
    for one in estimator.estimators_:
        _slim(one.tree_)
    return Forest(
        estimator=estimator,
        schemes=tuple(str(name) for name in schemes),
        pairs=tuple((int(place) // CLASSES, int(place) % CLASSES) for place in kept),
    )


def _slim(tree: Any) -> None:
    """Drop what prediction does not read, and digits that nobody needs: the file halves."""
    tree.value[:] = np.round(tree.value * STEPS) / STEPS
    tree.value[tree.children_left >= 0] = 0.0
    tree.threshold[:] = tree.threshold.astype(np.float32)
    for statistics in (tree.impurity, tree.weighted_n_node_samples, tree.n_node_samples):
        statistics[:] = 0
