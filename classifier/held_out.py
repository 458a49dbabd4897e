"""Predictions for traces that the model has not seen: whole traces or whole schemes held out."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from classifier import novelty
from classifier.dataset import Rows
from classifier.model import CLASSES, Forest, fit
from classifier.names import NAMES
from classifier.posterior import Posterior
from collector.record import Floats

Progress = Callable[[str, float], None]
FOLDS: Final = 10
LOCAL: Final = tuple(NAMES.index(name) for name in ("level", "lean", "peak"))
"""What one window of one port shows by itself: the baseline."""
FEW: Final = 20
"""Trees of the baseline, which needs no more."""


def part(progress: Progress | None, start: float, end: float) -> Progress | None:
    """A progress that runs from `start` to `end` while the work it is handed to runs to 1."""
    if progress is None:
        return None
    return lambda what, done: progress(what, start + (end - start) * done)


@dataclass(frozen=True, slots=True)
class Guess:
    """Predictions for one trace's rows by a model that was made without it.

    share: (rows, 4). local: (rows, 4) by local features only. majority: (4,) one-hot.
    distance: (rows,) novelty. limit: of the novelty gate in that fold. fold: which one.
    """

    trace: str
    share: Floats
    local: Floats
    majority: Floats
    distance: Floats
    limit: float
    fold: int


@dataclass(frozen=True, slots=True)
class Fold:
    """What one task needs, so that any executor may run it."""

    number: int
    train: tuple[Rows, ...]
    test: tuple[Rows, ...]
    seed: int


def by_trace(rows: Sequence[Rows], folds: int = FOLDS) -> NDArray[np.int64]:
    """(traces,) fold of each trace, with every scheme spread over the folds."""
    key = [("+".join(sorted(set(one.scheme.tolist()))), one.trace) for one in rows]
    order = sorted(range(len(rows)), key=lambda place: key[place])
    fold = np.empty(len(rows), dtype=np.int64)
    fold[order] = np.arange(len(rows)) % max(2, min(folds, len(rows)))
    return fold


def predict(forest: Forest, rows: Rows) -> NDArray[np.float64]:
    """(rows, 4) byte shares, tick by tick as the classifier gives them live."""
    joint = forest.joint(rows.features)
    posterior = Posterior(len(forest.schemes))
    result = np.zeros((len(joint), CLASSES))
    starts = np.flatnonzero(np.diff(rows.tick, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(joint)], strict=True):
        seconds = np.full(end - start, rows.seconds)
        result[start:end] = posterior.update(joint[start:end], rows.port[start:end], seconds)
    return result


def run(fold: Fold) -> list[Guess]:
    """Fit without the test traces, and predict them."""
    forest = fit(fold.train, seed=fold.seed)
    local = fit(fold.train, seed=fold.seed, columns=LOCAL, trees=FEW)
    gate = novelty.Gate(novelty.learn(fold.train))
    total = sum((one.share * one.volume[:, None]).sum(axis=0) for one in fold.train)
    majority = np.eye(CLASSES)[int(np.argmax(total))]
    return [
        Guess(
            trace=one.trace,
            share=predict(forest, one),
            local=local.joint(only(one.features, LOCAL)).sum(axis=1, dtype=np.float64),
            majority=majority,
            distance=gate.distance(one.features),
            limit=gate.limit,
            fold=fold.number,
        )
        for one in fold.test
    ]


def only(features: NDArray[np.float32], columns: Sequence[int]) -> NDArray[np.float32]:
    """The same features with all other columns blanked, as `fit` does for a baseline."""
    mask = np.zeros(features.shape[1], dtype=np.bool_)
    mask[list(columns)] = True
    return np.where(mask, features, np.float32(0))


def trace_folds(rows: Sequence[Rows], learnt: Sequence[Rows], seed: int) -> list[Fold]:
    """Folds by trace. rows: to judge. learnt: of the same traces, to train on."""
    fold = by_trace(rows)
    result = []
    for number in range(int(fold.max()) + 1):
        test = [one for one, at in zip(rows, fold, strict=True) if at == number]
        names = {one.trace for one in test}
        train = [one for one in learnt if one.trace not in names]
        result.append(Fold(number, tuple(train), tuple(test), seed))
    return result


def scheme_folds(rows: Sequence[Rows], learnt: Sequence[Rows], seed: int) -> dict[str, Fold]:
    """One fold per scheme: every trace with a job of that scheme is held out."""
    schemes = sorted({str(name) for one in rows for name in one.scheme} - {"none"})
    result = {}
    for number, name in enumerate(schemes):
        test = [one for one in rows if (one.scheme == name).any()]
        names = {one.trace for one in test}
        train = [one for one in learnt if one.trace not in names]
        if train:
            result[name] = Fold(number, tuple(train), tuple(test), seed)
    return result


def run_all(
    folds: Sequence[Fold], executor: Executor | None, progress: Progress | None, what: str
) -> list[list[Guess]]:
    """Run the folds through the executor; results in the order of the folds."""
    if executor is None:
        results = []
        for done, fold in enumerate(folds, start=1):
            results.append(run(fold))
            if progress is not None:
                progress(what, done / len(folds))
        return results
    futures = [executor.submit(run, fold) for fold in folds]
    for done, _ in enumerate(as_completed(futures), start=1):
        if progress is not None:
            progress(what, done / len(folds))
    return [future.result() for future in futures]
