"""Every live port gets a label or a reason, and shares that add up."""

import numpy as np
import pytest
from traffic import play, tick

from classifier import store
from classifier.classify import Classifier
from classifier.dataset import extract, measured_ticks
from classifier.labels import IDLE, LABELS, REASONS, SHARES, UNKNOWN
from collector.ports import PortTable
from collector.topology import bind, read_topology
from collector.trace import Trace

SPEED = 100e9


@pytest.fixture(scope="module")
def model():
    return store.load()


def why(labels):
    return [REASONS[place] for place in labels.reason]


def check(labels, live):
    """What always holds of one tick's labels."""
    size = len(live)
    assert labels.label.shape == labels.reason.shape == labels.confidence.shape == (size,)
    assert labels.share.shape == (size, len(SHARES))
    assert labels.label.dtype == labels.reason.dtype == np.int8
    assert labels.share.dtype == labels.confidence.dtype == np.float32
    assert np.isnan(labels.share[~live]).all()
    np.testing.assert_allclose(labels.share[live].sum(axis=1), 1.0, atol=1e-4)
    assert (labels.share[live] >= 0).all()
    assert ((labels.confidence >= 0) & (labels.confidence <= 1)).all()
    assert ((labels.label == UNKNOWN) == (labels.reason != 0)).all()
    known = labels.label < UNKNOWN
    np.testing.assert_array_equal(labels.share[known].argmax(axis=1), labels.label[known])


@pytest.mark.parametrize(("level", "label"), [(0.0, "idle"), (0.0099, "idle"), (0.0101, "unknown")])
def test_idle_is_a_rule_on_the_busier_direction(model, level, label):
    labels = Classifier(model).update(tick(0.1, 0.1, [0.0], [level]), np.array([SPEED]))
    assert LABELS[labels.label[0]] == label
    check(labels, np.array([True]))
    if label == "idle":
        assert labels.share[0, IDLE] == labels.confidence[0] == 1.0
    else:
        assert why(labels) == ["too_little_history"]


def test_what_cannot_be_said_has_its_reason(model):
    classifier = Classifier(model)
    for number in range(1, 60):
        labels = classifier.update(
            tick(number * 0.1, 0.1, [0.5, 0.5, np.nan, 0.5], [0.5, 0.5, np.nan, 0.5],
                 live=np.array([True, False, True, True])),
            np.array([np.nan, SPEED, SPEED, SPEED]),
        )  # fmt: skip
        check(labels, np.array([True, False, True, True]))
    assert why(labels)[:3] == ["speed_unknown", "no_data", "no_data"]
    assert classifier.reasons["speed_unknown"] == 59
    assert sum(classifier.labels.values()) == 59 * 4


@pytest.mark.parametrize(("seconds", "interval"), [(10.0, 1.0), (0.01, 0.01), (0.1, 5.0)])
def test_outside_the_trained_band_nothing_is_said(model, seconds, interval):
    classifier = Classifier(model)
    for number in range(1, round(20 / seconds) + 1):
        measured = tick(number * seconds, seconds, [0.5], [0.5], interval=interval)
        labels = classifier.update(measured, np.array([SPEED]))
    assert why(labels) == ["interval_outside_trained_band"]


def test_both_gates_work(model):
    """A limit of nothing finds everything strange; a demand for certainty finds all too close."""
    strange = model.card.novelty.model_copy(update={"limit": 0.0})
    for update, reason in (
        ({"novelty": strange}, "unlike_training"),
        ({"answer_above": 1.1, "novelty": strange.model_copy(update={"limit": 1e9})},
         "too_close_to_call"),
    ):  # fmt: skip
        card = model.card.model_copy(update=update)
        classifier = Classifier(type(model)(forest=model.forest, card=card))
        labels = play(
            lambda measured, to=classifier: to.update(measured, np.full(3, SPEED)),
            seconds=0.1,
            until=41.0,
        )
        assert set(why(labels)) == {reason}
        check(labels, np.ones(3, bool))


def test_the_number_of_ports_may_grow(model):
    classifier = Classifier(model)
    rng = np.random.default_rng(0)
    for number in range(1, 80):
        size = 1 + number // 10
        out, inn = rng.random((2, size))
        live = rng.random(size) < 0.9
        labels = classifier.update(
            tick(number * 0.1, 0.1, out, inn, live=live), np.full(size, SPEED)
        )
        check(labels, live)


def test_a_recorded_job_is_named_as_its_truth_says(model, shared):
    """On a capture of the training set: this checks the wiring, not the skill."""
    path = shared / "captures" / "ho_ps_sync"
    rows = extract(path, 0.1)
    ports = PortTable()
    trace = Trace.open(path, ports)
    fabric = bind(read_topology(path / "topology.json"), ports)
    classifier, inward = Classifier(model), fabric.faces_host()
    found = {}
    for number, measured in enumerate(measured_ticks(trace, fabric, 0.1)):
        labels = classifier.update(measured, fabric.nominal_bps, inward)
        check(labels, measured.live)
        found[number] = labels
    share = np.stack([found[t].share[p, :4] for t, p in zip(rows.tick, rows.port, strict=True)])
    right = share.argmax(axis=1) == rows.share.argmax(axis=1)
    assert (right * rows.volume).sum() / rows.volume.sum() > 0.8
    label = np.array([found[t].label[p] for t, p in zip(rows.tick, rows.port, strict=True)])
    given = label != UNKNOWN
    assert given.mean() > 0.3
    assert (label[given] == rows.share[given].argmax(axis=1)).mean() > 0.85
    # The switch's side of the same cable tells the same story.
    hosts = rows.port
    peers = np.array([found[t].share[fabric.peer[p], :4]
                      for t, p in zip(rows.tick, hosts, strict=True)])  # fmt: skip
    same = peers.argmax(axis=1) == share.argmax(axis=1)
    assert np.nanmean(same[~np.isnan(peers[:, 0])]) > 0.9


def test_labels_do_not_depend_on_the_size_of_the_blocks(model, monkeypatch):
    def run():
        classifier, rng = Classifier(model), np.random.default_rng(11)
        for number in range(1, 80):
            out, inn = rng.choice([0.0, 0.4, 0.9], (2, 23))
            labels = classifier.update(tick(number * 0.1, 0.1, out, inn), np.full(23, SPEED))
        return labels

    whole = run()
    for module in ("classify", "averages", "period", "features", "model"):
        monkeypatch.setattr(f"classifier.{module}.BLOCK", 3)
    pieces = run()
    for name in ("label", "reason", "share", "confidence"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(pieces, name))
