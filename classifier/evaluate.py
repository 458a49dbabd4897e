"""How good the labels are on traces that the model has not seen, beside simple baselines.

Neighbouring windows are nearly alike, so a random split of windows would only measure memory.
Held out are whole traces (ten folds, every scheme spread over them) and whole schemes.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from classifier import held_out, store
from classifier.calibration import WORTH, calibrate, confidence, raw_score
from classifier.card import Table
from classifier.dataset import Rows, digest, extract
from classifier.held_out import Guess, Progress
from classifier.model import Model
from classifier.novelty import Gate
from classifier.scores import calibration_error, scores, separation
from classifier.truth import ACTIVE
from collector.errors import ConfigError
from collector.record import Floats

TICK: Final = 0.1
"""Seconds; the windows that scores are for."""
FEW: Final = 20
"""Traces below which held-out scores are warned about."""
MOST_ROWS: Final = 600
"""Rows of one trace that are learnt from."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Rows of several traces with their predictions, ready to be scored."""

    predicted: Floats
    local: Floats
    majority: Floats
    true: Floats
    volume: Floats
    trace: np.ndarray[Any, Any]
    scheme: np.ndarray[Any, Any]
    fold: np.ndarray[Any, Any]
    distance: Floats
    limit: Floats

    def where(self, rows: np.ndarray[Any, Any]) -> "Judged":
        return Judged(**{name: getattr(self, name)[rows] for name in self.__slots__})

    def right(self) -> np.ndarray[Any, Any]:
        """(rows,) the top class is the true one."""
        result: np.ndarray[Any, Any] = self.predicted.argmax(axis=1) == self.true.argmax(axis=1)
        return result


@dataclass(frozen=True, slots=True)
class Report:
    """Scores by section, and what to mind about them."""

    sections: dict[str, dict[str, Any]]
    warnings: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        return {"sections": self.sections, "warnings": list(self.warnings)}

    def table(self) -> str:
        """The scores as text, one block per section."""
        lines: list[str] = []
        for name, section in self.sections.items():
            lines += [name, *_block(section), ""]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines).rstrip()


def evaluate(
    traces: Sequence[Path],
    *,
    model: Path | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    seed: int = 0,
) -> Report:
    """Score a stored model on traces, or cross-validate on them where `model` is None.

    Raises TraceError where a trace has no labels or topology, ConfigError for a bad model.
    """
    loaded = None if model is None else store.load(model)
    if loaded is None and len(traces) < 2:
        raise ConfigError(
            "evaluating without --model holds traces out in turn, so it needs two or more; "
            "name more traces, or a model to score"
        )
    reading = held_out.part(progress, 0.0, 0.5 if loaded is None else 1.0)
    rows = gather([(path, TICK) for path in traces], executor, reading)
    if loaded is not None:
        return _score_model(loaded, traces, rows)
    learnt = [one.thin(MOST_ROWS, seed) for one in rows]
    report, _ = cross_validate(
        rows, learnt, seed=seed, executor=executor, progress=held_out.part(progress, 0.5, 1.0)
    )
    if len(traces) < FEW:
        few = f"{len(traces)} traces are few to learn from; below {FEW} the scores say little"
        report = replace(report, warnings=(*report.warnings, few))
    return report


def gather(
    wanted: Sequence[tuple[Path, float]], executor: Executor | None, progress: Progress | None
) -> list[Rows]:
    """Rows of (trace, tick length) pairs, in the same order, extracted through the executor."""
    if executor is None:
        result = []
        for done, (path, tick) in enumerate(wanted, start=1):
            result.append(extract(path, tick))
            _tell(progress, "read traces", done / len(wanted))
        return result
    futures = [executor.submit(extract, path, tick) for path, tick in wanted]
    for done, _ in enumerate(as_completed(futures), start=1):
        _tell(progress, "read traces", done / len(wanted))
    return [future.result() for future in futures]


def cross_validate(
    rows: Sequence[Rows],
    learnt: Sequence[Rows],
    *,
    seed: int,
    executor: Executor | None,
    progress: Progress | None,
) -> tuple[Report, Table]:
    """Scores by trace and by scheme held out, and the calibration that the former yield.

    rows: what is judged. learnt: what is learnt from, of the same traces; a fold takes the rows of
    those traces only that it does not hold out.
    """
    folds = held_out.trace_folds(rows, learnt, seed)
    guesses = held_out.run_all(
        folds, executor, held_out.part(progress, 0.0, 0.5), "hold out traces"
    )
    traces = judge(rows, [one for fold in guesses for one in fold])
    calibration = _calibrated(traces)
    certain = _cross_fitted(traces)
    sections = {"traces held out": section(traces, certain)}
    by_scheme = held_out.scheme_folds(rows, learnt, seed)
    if len(by_scheme) > 1:
        results = held_out.run_all(
            list(by_scheme.values()),
            executor,
            held_out.part(progress, 0.5, 1.0),
            "hold out schemes",
        )
        parts = []
        for name, fold_guesses in zip(by_scheme, results, strict=True):
            judged = judge(rows, fold_guesses)
            parts.append(judged.where(judged.scheme == name))
        schemes = Judged(
            **{
                name: np.concatenate([getattr(part, name) for part in parts])
                for name in Judged.__slots__
            }
        )
        sections["schemes held out"] = section(
            schemes, confidence(calibration, raw_score(schemes.predicted)), traces
        )
    return Report(sections=sections), calibration


def judge(rows: Sequence[Rows], guesses: Sequence[Guess]) -> Judged:
    """Join predictions with the rows that they are for."""
    of = {one.trace: one for one in rows}
    pairs = [(of[guess.trace], guess) for guess in guesses]
    join: Callable[[list[Any]], Any] = np.concatenate
    return Judged(
        predicted=join([guess.share for _, guess in pairs]),
        local=join([guess.local for _, guess in pairs]),
        majority=join([np.tile(guess.majority, (len(one.share), 1)) for one, guess in pairs]),
        true=join([one.share for one, _ in pairs]),
        volume=join([one.volume for one, _ in pairs]),
        trace=join([np.full(len(one.share), one.trace) for one, _ in pairs]),
        scheme=join([one.scheme for one, _ in pairs]),
        fold=join([np.full(len(one.share), guess.fold) for one, guess in pairs]),
        distance=join([guess.distance for _, guess in pairs]),
        limit=join([np.full(len(one.share), guess.limit) for one, guess in pairs]),
    )


def section(judged: Judged, certain: Floats, known: Judged | None = None) -> dict[str, Any]:
    """Scores of one way of holding out. known: rows of seen schemes, to judge the novelty gate."""
    kept = (certain >= WORTH) & (judged.distance <= judged.limit)
    answered = judged.where(kept)
    total = max(float(judged.volume.sum()), 1e-12)
    result = scores(judged.predicted, judged.true, judged.volume) | {
        "calibration_error": calibration_error(certain, judged.right(), judged.volume),
        "answered_share": round(float(answered.volume.sum()) / total, 4),
        "answered": scores(answered.predicted, answered.true, answered.volume),
        "baselines": {
            "local features": scores(judged.local, judged.true, judged.volume),
            "majority": scores(judged.majority, judged.true, judged.volume),
        },
        "by_scheme": _by_scheme(judged, kept),
        "rows": len(judged.volume),
        "traces": len(np.unique(judged.trace)),
    }
    if known is not None:
        result["novelty_auroc"] = separation(
            known.distance / known.limit, judged.distance / judged.limit
        )
    return result


def _by_scheme(judged: Judged, kept: np.ndarray[Any, Any]) -> dict[str, dict[str, float]]:
    """Accuracy per scheme, over all bytes and over those answered, and the share answered."""
    result = {}
    right = judged.right()
    for name in np.unique(judged.scheme):
        here = judged.volume * (judged.scheme == name)
        given = here * kept
        result[str(name)] = {
            "accuracy": round(float((here * right).sum() / max(here.sum(), 1e-12)), 4),
            "answered_share": round(float(given.sum() / max(here.sum(), 1e-12)), 4),
            "answered_accuracy": round(float((given * right).sum() / max(given.sum(), 1e-12)), 4),
        }
    return result


def _calibrated(judged: Judged) -> Table:
    return calibrate(raw_score(judged.predicted), judged.right(), judged.volume)


def _cross_fitted(judged: Judged) -> Floats:
    """(rows,) confidence from a table fitted on the other folds' rows."""
    certain = np.zeros(len(judged.volume))
    for fold in np.unique(judged.fold):
        here = judged.fold == fold
        table = _calibrated(judged.where(~here))
        certain[here] = confidence(table, raw_score(judged.predicted[here]))
    return certain


def _score_model(model: Model, traces: Sequence[Path], rows: Sequence[Rows]) -> Report:
    """Score a stored model; its own training traces are allowed but called out."""
    gate = Gate(model.card.novelty)
    volume = sum((one.share * one.volume[:, None]).sum(axis=0) for one in rows)
    majority = np.eye(len(ACTIVE))[int(np.argmax(volume))]
    guesses = []
    for fold, one in enumerate(rows):
        share = held_out.predict(model.forest, one)
        distance = gate.distance(one.features)
        guesses.append(Guess(one.trace, share, share, majority, distance, gate.limit, fold))
    judged = judge(rows, guesses)
    certain = confidence(model.card.calibration, raw_score(judged.predicted))
    result = section(judged, certain)
    del result["baselines"]["local features"]
    seen = {source.sha256 for source in model.card.data}
    warnings = tuple(
        f"{path.name} was in the model's training data; its score says nothing of new jobs"
        for path in traces
        if digest(path) in seen
    )
    return Report(sections={"the model as it is": result}, warnings=warnings)


def _tell(progress: Progress | None, what: str, done: float) -> None:
    if progress is not None:
        progress(what, done)


def _block(section: dict[str, Any]) -> list[str]:
    """One section as lines of text."""
    head = f"{'':24}{'macro F1':>9}{'sync/grad':>10}{'accuracy':>9}{'share err':>10}{'bytes':>7}"
    lines = [f"  {section['traces']} traces, {section['rows']} active windows, by bytes", head]
    lines.append(_line("all windows", section, 1.0))
    lines.append(_line("answered", section["answered"], section["answered_share"]))
    lines += [_line(f"baseline: {name}", one, 1.0) for name, one in section["baselines"].items()]
    lines.append(f"{'':24}{'precision':>9}{'recall':>10}{'F1':>9}{'':>10}{'bytes':>7}")
    lines += [
        f"  {name:22}{one['precision']:9.2f}{one['recall']:10.2f}{one['f1']:9.2f}{'':10}"
        f"{one['bytes']:7.0%}"
        for name, one in section["classes"].items()
    ]
    lines.append(f"{'':24}{'accuracy':>9}{'answered':>10}{'right':>9}")
    lines += [
        f"  {name:22}{one['accuracy']:9.2f}{one['answered_share']:10.0%}"
        f"{one['answered_accuracy']:9.2f}"
        for name, one in section["by_scheme"].items()
    ]
    tail = f"  calibration error {section['calibration_error']:.3f}"
    if "novelty_auroc" in section:
        tail += "; strange schemes told from known ones by distance: AUROC "
        tail += f"{section['novelty_auroc']:.2f} (0.5 is chance)"
    return [*lines, tail]


def _line(name: str, one: dict[str, Any], part: float) -> str:
    return (
        f"  {name:22}{one['f1']:9.3f}{one['balanced']:10.3f}{one['accuracy']:9.3f}"
        f"{one['share_error']:10.3f}{part:7.0%}"
    )
