"""Training and evaluation from end to end, on a few short pieces of real captures."""

import json
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from classifier import held_out, store
from classifier.dataset import extract
from classifier.evaluate import evaluate
from classifier.train import train
from classifier.truth import ACTIVE
from collector.errors import ConfigError, TraceError

NAMES = ("ho_ddp_bf16_6", "ho_fsdp_gpt", "ho_moe_small4", "ho_zero1_gpt")
SECONDS = 16


@pytest.fixture(scope="module")
def pieces(shared, tmp_path_factory):
    """The first seconds of four captures, every third sample."""
    folder = tmp_path_factory.mktemp("pieces")
    for name in NAMES:
        source = shared / "captures" / name
        target = folder / name
        target.mkdir()
        table = pq.read_table(source / "counters.parquet")
        time = table["time"].cast("int64").to_numpy()
        step = (time - time.min()) // 10_000_000
        kept = (step < SECONDS * 100) & (step % 3 == 0)
        pq.write_table(table.filter(kept), target / "counters.parquet")
        labels = pq.read_table(source / "labels.parquet")
        early = pc.less(labels["start"].cast("int64"), int(time.min() + SECONDS * 10**9))
        pq.write_table(labels.filter(early), target / "labels.parquet")
        for file in ("topology.json", "meta.json"):
            shutil.copy(source / file, target / file)
    return [folder / name for name in NAMES]


@pytest.fixture(scope="module")
def trained(pieces, tmp_path_factory):
    out = tmp_path_factory.mktemp("model")
    heard = []
    card = train(
        pieces,
        out,
        progress=lambda what, done: heard.append((what, done)),
        seed=1,
        ticks=(0.1, 0.5),
    )
    return out, card, heard


def test_a_trained_model_loads_and_its_card_names_the_data(trained, pieces):
    out, card, heard = trained
    model = store.load(out)
    assert model.card == card
    assert [source.name for source in card.data] == list(NAMES)
    assert card.band.shortest_tick == 0.1
    assert card.band.longest_tick == 0.5
    assert set(card.scores) == {"traces held out", "schemes held out"}
    assert {what for what, _ in heard} == {"read traces", "hold out traces", "hold out schemes"}
    assert heard[-1][1] == 1.0


def test_training_again_gives_the_same_model(trained, pieces, tmp_path):
    """Also through a pool of processes: the seam must not change the result."""
    out, card, _ = trained
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        again = train(pieces, tmp_path / "again", executor=executor, seed=1, ticks=(0.1, 0.5))
    assert again.scores == card.scores
    assert again.calibration == card.calibration
    rows = extract(pieces[0], 0.1).features
    np.testing.assert_array_equal(
        store.load(out).forest.outputs(rows), store.load(tmp_path / "again").forest.outputs(rows)
    )


def test_a_model_that_is_scored_on_its_own_data_says_so(trained, pieces):
    out, _, _ = trained
    report = evaluate(pieces[:2], model=out)
    assert len(report.warnings) == 2
    assert "training data" in report.warnings[0]
    assert "warning: " in report.table()


def test_cross_validation_reports_scores_beside_baselines(pieces):
    report = evaluate(pieces, model=None, seed=1)
    section = report.as_dict()["sections"]["traces held out"]
    assert set(section["baselines"]) == {"majority", "local features"}
    assert set(section["classes"]) == set(ACTIVE)
    assert 0 <= section["f1"] <= 1
    assert json.loads(json.dumps(report.as_dict())) == report.as_dict()
    for word in ("traces held out", "schemes held out", "majority", "answered", "AUROC"):
        assert word in report.table()


def test_no_fold_learns_from_what_it_is_judged_on(pieces):
    rows = [extract(path, 0.5) for path in pieces]
    folds = held_out.trace_folds(rows, rows, seed=0)
    judged = [one.trace for fold in folds for one in fold.test]
    assert sorted(judged) == sorted(NAMES)
    for fold in folds:
        assert not {one.trace for one in fold.test} & {one.trace for one in fold.train}
    for name, fold in held_out.scheme_folds(rows, rows, seed=0).items():
        assert not any((one.scheme == name).any() for one in fold.train)


def test_too_few_or_unlabelled_traces_are_refused(pieces, tmp_path):
    with pytest.raises(ConfigError, match="two traces"):
        train(pieces[:1], tmp_path)
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(pieces[0] / "counters.parquet", bare)
    with pytest.raises(TraceError, match=r"bare.*labels\.parquet"):
        train([bare, pieces[0]], tmp_path)
