"""What is stored comes back the same; anything else is refused, by name."""

import hashlib
import io
import json
import pickle
import shutil
import warnings
import zipfile

import numpy as np
import pytest
import skops.io as sio
from sklearn.linear_model import LinearRegression

from classifier import store
from classifier.names import NAMES
from collector.errors import ConfigError


@pytest.fixture
def folder(tmp_path):
    """A copy of the bundled model, to be damaged."""
    target = tmp_path / "model"
    shutil.copytree(store.BUNDLED, target)
    return target


def vouch(folder, data):
    """Put other bytes in the place of the model, with a card that vouches for them."""
    (folder / store.MODEL).write_bytes(data)
    card = json.loads((folder / store.CARD).read_text())
    card["sha256"] = hashlib.sha256(data).hexdigest()
    (folder / store.CARD).write_text(json.dumps(card))


def refuse(folder, match):
    with pytest.raises(ConfigError, match=match) as caught:
        store.load(folder)
    assert str(folder) in str(caught.value)


def test_the_bundled_model_is_small_and_says_what_it_is():
    model = store.load()
    assert sum(file.stat().st_size for file in store.BUNDLED.iterdir()) < 3 << 20
    assert len(model.card.data) >= 40
    assert set(model.card.scores) == {"traces held out", "schemes held out"}
    assert "random" not in json.dumps(model.card.scores)


def test_the_allow_list_is_what_the_file_needs_and_no_more():
    assert sio.get_untrusted_types(file=store.BUNDLED / store.MODEL) == list(store.ALLOWED)


def test_walking_the_trees_equals_the_estimator():
    forest = store.load().forest
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(500, len(NAMES))).astype(np.float32) * 2
    np.testing.assert_allclose(forest.outputs(rows), forest.estimator.predict(rows), atol=1e-5)


def test_a_row_does_not_depend_on_the_rows_beside_it():
    forest = store.load().forest
    rows = np.random.default_rng(4).normal(size=(64, len(NAMES))).astype(np.float32)
    together = forest.outputs(rows)
    alone = np.concatenate([forest.outputs(rows[place : place + 1]) for place in range(64)])
    np.testing.assert_array_equal(together, alone)


def test_saving_and_loading_gives_the_same_predictions(tmp_path):
    model = store.load()
    data = store.packed(model.forest)
    card = model.card.model_copy(update={"sha256": hashlib.sha256(data).hexdigest()})
    store.save(tmp_path / "again", data, card)
    rows = np.random.default_rng(5).normal(size=(50, len(NAMES))).astype(np.float32)
    again = store.load(tmp_path / "again")
    np.testing.assert_array_equal(again.forest.outputs(rows), model.forest.outputs(rows))
    assert again.card == card


def test_a_pickle_is_refused(folder):
    vouch(folder, pickle.dumps(LinearRegression()))
    refuse(folder, r"model\.skops.*not a readable skops file.*never read")


class Intruder:
    """A type that has no business in a model file."""


def test_a_foreign_type_is_refused_before_it_is_built(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vouch(folder, sio.dumps(Intruder()))
    refuse(folder, r"model\.skops.*refused.*Intruder")


def test_a_foreign_type_inside_the_right_estimator_is_refused(folder):
    estimator = store.load(folder).forest.estimator
    estimator.verbose = Intruder()
    vouch(folder, sio.dumps(estimator))
    refuse(folder, r"refused.*Intruder")


def test_another_estimator_is_refused(folder):
    vouch(folder, sio.dumps(LinearRegression()))
    refuse(folder, r"LinearRegression")


@pytest.mark.parametrize("part", [0.0, 0.3, 0.99])
def test_a_truncated_model_is_refused(folder, part):
    data = (folder / store.MODEL).read_bytes()
    vouch(folder, data[: int(len(data) * part)])
    refuse(folder, r"model\.skops")


def test_an_archive_without_a_schema_is_refused(folder):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("hello.txt", "hello")
    vouch(folder, buffer.getvalue())
    refuse(folder, r"model\.skops")


def test_changed_bytes_are_noticed_before_anything_is_read(folder):
    file = folder / store.MODEL
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    refuse(folder, "SHA-256")


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("feature_hash", "0" * 64, "feature_hash"),
        ("format", 99, "format"),
        ("sklearn", "0.1.0", "sklearn.*train"),
        ("classes", ["a", "b", "c", "d"], "classes"),
        ("seed", "many", "seed"),
        ("surprise", 1, "surprise"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(folder, field, value, match):
    card = json.loads((folder / store.CARD).read_text())
    card[field] = value
    (folder / store.CARD).write_text(json.dumps(card))
    refuse(folder, rf"card\.json: {match}")


def test_a_missing_file_is_named(folder, tmp_path):
    refuse(tmp_path / "nowhere", r"card\.json: cannot be read")
    (folder / store.MODEL).unlink()
    refuse(folder, r"model\.skops: cannot be read")
    (folder / store.CARD).write_bytes(b"\xff{")
    refuse(folder, r"card\.json: is not JSON")
