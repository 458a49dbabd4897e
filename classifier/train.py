"""From labelled traces to a stored model with a card that says how good it is.

The bundled model: `fabriclens train ../shared/captures/ho_* --out classifier/bundled`, about six
minutes on two cores; the same traces and seed give the same model.
"""

import datetime as dt
import hashlib
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Final

import sklearn

from classifier import novelty, store
from classifier.calibration import WORTH
from classifier.card import Band, Card, Source
from classifier.dataset import TICKS, WARM_UP, digest
from classifier.evaluate import MOST_ROWS, cross_validate, gather
from classifier.held_out import Progress, part
from classifier.model import fit
from classifier.names import NAMES
from classifier.truth import ACTIVE
from collector.errors import ConfigError

EXTRA_ROWS: Final = 300
"""Rows of one trace that are learnt from at each further tick length."""
LONGEST_INTERVAL: Final = 1.0
"""Seconds between samples beyond which a 1 s tick holds less than one."""


def train(
    traces: Sequence[Path],
    out: Path,
    *,
    progress: Progress | None = None,
    executor: Executor | None = None,
    seed: int = 0,
    ticks: Sequence[float] = TICKS,
) -> Card:
    """Learn from labelled traces, cross-validate, and store model and card in the folder `out`.

    ticks: tick lengths to replay every trace with, the main one first. Raises ConfigError where
    there are too few traces, TraceError where one has no labels or topology.
    """
    if len(traces) < 2:
        raise ConfigError(
            "training needs two traces or more, so that one can be held out to score the model"
        )
    every = gather(
        [(path, tick) for tick in ticks for path in traces], executor, part(progress, 0.0, 0.4)
    )
    main, other = every[: len(traces)], every[len(traces) :]
    learnt = [one.thin(MOST_ROWS, seed) for one in main]
    learnt += [one.thin(EXTRA_ROWS, seed) for one in other]
    report, calibration = cross_validate(
        main, learnt, seed=seed, executor=executor, progress=part(progress, 0.4, 1.0)
    )
    forest = fit(learnt, seed=seed)
    data = store.packed(forest)
    card = Card(
        name=out.name,
        created=dt.datetime.now(tz=dt.UTC).isoformat(timespec="seconds"),
        sklearn=sklearn.__version__,
        features=NAMES,
        feature_hash=store.feature_hash(),
        classes=ACTIVE,
        schemes=forest.schemes,
        pairs=forest.pairs,
        seed=seed,
        data=tuple(Source(name=path.name, sha256=digest(path)) for path in traces),
        band=Band(
            shortest_tick=min(ticks),
            longest_tick=max(ticks),
            longest_interval=LONGEST_INTERVAL,
            history=WARM_UP,
        ),
        answer_above=WORTH,
        calibration=calibration,
        novelty=novelty.learn(main),
        scores=report.as_dict()["sections"],
        sha256=hashlib.sha256(data).hexdigest(),
    )
    store.save(out, data, card)
    return card
