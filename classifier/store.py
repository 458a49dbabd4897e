"""Where a model lies on disk: `model.skops` and `card.json`, side by side; never a pickle."""

import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Final

import sklearn
import skops.io as sio
from pydantic import ValidationError
from sklearn.ensemble import ExtraTreesRegressor
from skops.io.exceptions import UntrustedTypesFoundException

from classifier.card import FORMAT, Card
from classifier.model import Forest, Model
from classifier.names import NAMES
from classifier.truth import ACTIVE
from collector.errors import ConfigError

MODEL: Final = "model.skops"
CARD: Final = "card.json"
BUNDLED: Final = Path(__file__).parent / "bundled"
ALLOWED: Final = ("sklearn.tree._tree.Tree",)
"""The one type that a model file may hold beyond what skops trusts by itself."""
LARGEST: Final = 64 << 20
"""Bytes that a model file may have, packed or unpacked times ten."""


def feature_hash() -> str:
    """SHA-256 of the features' names in order: a model fits one set of features only."""
    return hashlib.sha256("\n".join(NAMES).encode()).hexdigest()


def packed(forest: Forest) -> bytes:
    """The model file's bytes."""
    data: bytes = sio.dumps(forest.estimator, compression=zipfile.ZIP_DEFLATED, compresslevel=9)
    return data


def save(folder: Path, data: bytes, card: Card) -> None:
    """Write model and card into a folder; the card comes last and names the model's digest."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / MODEL, data)
    _write(folder / CARD, (card.model_dump_json(indent=1) + "\n").encode())


def load(path: Path | None = None) -> Model:
    """The model in a folder, or the bundled one; ConfigError names the file and what is wrong."""
    folder = BUNDLED if path is None else path
    card_file = folder / CARD
    model_file = folder / MODEL
    card = _read_card(card_file)
    try:
        data = model_file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{model_file}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != card.sha256:
        raise ConfigError(
            f"{model_file}: is not the file that {card_file} describes (SHA-256 differs); "
            "copy both again, or train anew"
        )
    forest = Forest(
        estimator=_unpack(model_file, data),
        schemes=card.schemes,
        pairs=card.pairs,
    )
    if len(forest.leaves) == 0 or forest.leaves[0].shape[1] != len(card.pairs):
        raise ConfigError(f"{model_file}: has not the {len(card.pairs)} outputs of {card_file}")
    return Model(forest=forest, card=card)


def _read_card(file: Path) -> Card:
    try:
        raw = json.loads(file.read_bytes())
        card = Card.model_validate(raw)
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read: {error.strerror}; a model is a folder with {MODEL} and {CARD}"
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: is not JSON: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        raise ConfigError(f"{file}: {where}: {first['msg']}") from error
    if card.format != FORMAT:
        raise ConfigError(f"{file}: format: is {card.format}, this version reads {FORMAT}")
    if card.feature_hash != feature_hash() or card.features != NAMES:
        raise ConfigError(
            f"{file}: feature_hash: the model was made for other features than this version "
            "computes; train it anew with `fabriclens train`"
        )
    if card.classes != ACTIVE:
        raise ConfigError(f"{file}: classes: must be {', '.join(ACTIVE)}")
    ours = sklearn.__version__
    if card.sklearn.split(".")[:2] != ours.split(".")[:2]:
        raise ConfigError(
            f"{file}: sklearn: the model was made with {card.sklearn}, this is {ours}; "
            "train it anew with `fabriclens train`"
        )
    return card


def _unpack(file: Path, data: bytes) -> ExtraTreesRegressor:
    """The estimator of a model file; nothing outside the allow-list is ever constructed."""
    try:
        if len(data) > LARGEST:
            raise ConfigError(f"{file}: is larger than {LARGEST >> 20} MiB; no model of ours is")
        estimator = sio.loads(data, trusted=list(ALLOWED))
    except UntrustedTypesFoundException as error:
        raise ConfigError(
            f"{file}: holds types that no model of ours needs and is refused: {error}"
        ) from error
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, EOFError) as error:
        raise ConfigError(
            f"{file}: is not a readable skops file ({type(error).__name__}: {error}); pickle and "
            "joblib files are never read, train the model anew with `fabriclens train`"
        ) from error
    if type(estimator) is not ExtraTreesRegressor:
        raise ConfigError(
            f"{file}: holds a {type(estimator).__name__}, expected an ExtraTreesRegressor"
        )
    if estimator.n_features_in_ != len(NAMES):
        raise ConfigError(
            f"{file}: takes {estimator.n_features_in_} features, this version has {len(NAMES)}"
        )
    return estimator


def _write(file: Path, data: bytes) -> None:
    """Write under a temporary name and rename, so that a reader never sees half a file."""
    scratch = file.with_name(f".{file.name}.{os.getpid()}")
    scratch.write_bytes(data)
    scratch.replace(file)
