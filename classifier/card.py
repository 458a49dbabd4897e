"""The model's card: what it was made of, what it may be used for, and its scores."""

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

FORMAT: Final = 1


class Source(BaseModel):
    """One training trace: its name and the SHA-256 of its counters."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    sha256: str


class Band(BaseModel):
    """Tick lengths and sampling intervals, in seconds, that training covered."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    shortest_tick: float
    longest_tick: float
    longest_interval: float
    history: float


class Table(BaseModel):
    """A monotone map from a raw score to a probability, applied with linear interpolation."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    score: tuple[float, ...]
    probability: tuple[float, ...]


class Novelty(BaseModel):
    """Job-level signatures of the training traces, and how far from them is too far.

    names: features. scale, offset: per feature. centres: one signature per trace and scheme.
    limit: distance that 99 in 100 training traces keep within, each held out in turn.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    names: tuple[str, ...]
    offset: tuple[float, ...]
    scale: tuple[float, ...]
    centres: tuple[tuple[float, ...], ...]
    limit: float


class Card(BaseModel):
    """The contents of a `card.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    format: int = Field(default=FORMAT)
    name: str
    created: str
    sklearn: str
    features: tuple[str, ...]
    feature_hash: str
    classes: tuple[str, ...]
    schemes: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    seed: int
    data: tuple[Source, ...]
    band: Band
    answer_above: float
    """Confidence from which a label is given; below, it is too close to call."""
    calibration: Table
    novelty: Novelty
    scores: dict[str, Any]
    sha256: str
    """Of the model file."""
