"""The counter dictionary: what a vendor's name means, as data.

One TOML file a vendor or system in `collector/vendors/`; operators add their own files. Scale (an
InfiniBand word is four bytes), width, and what absence means are facts about a name, so they stand
beside it and nowhere in the code.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from collector.counters import CANONICAL, CUMULATIVE_INDEX
from collector.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Rule:
    """How one foreign counter becomes a canonical one: `counter` = raw value x `scale`."""

    counter: str
    scale: int
    width: Literal[32, 64]
    kind: Literal["cumulative", "gauge"]
    absent: Literal["null", "zero"]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    counter: str
    scale: int = Field(default=1, ge=1)
    width: Literal[32, 64] = 64
    absent: Literal["null", "zero"] = "null"

    @field_validator("counter")
    @classmethod
    def _canonical(cls, name: str) -> str:
        if name not in CANONICAL:
            raise ValueError(
                f"{name!r} is not a canonical counter ({', '.join(sorted(CANONICAL))})"
            )
        return name


def _expand(entry: object) -> object:
    """The short form: a bare name stands for an unscaled 64-bit counter."""
    return {"counter": entry} if isinstance(entry, str) else entry


class _Vendor(BaseModel):
    model_config = ConfigDict(extra="forbid")
    system: str = Field(min_length=1)
    source: str = ""
    counters: dict[str, Annotated[_Entry, BeforeValidator(_expand)]]


class Dictionary:
    """(system, foreign name) -> Rule. Canonical names mean themselves in every system."""

    def __init__(self, rules: Mapping[tuple[str, str], Rule]) -> None:
        self._rules = dict(rules)

    def lookup(self, system: str, name: str) -> Rule | None:
        """The rule for a name, or None where nobody has said what it means."""
        rule = self._rules.get((system, name))
        if rule is None and name in CANONICAL:
            return Rule(name, 1, 64, _kind(name), "null")
        return rule

    def names(self, system: str) -> tuple[str, ...]:
        """Every foreign name that a system's file explains."""
        return tuple(name for owner, name in self._rules if owner == system)


def load_dictionary(extra: Iterable[Path] = ()) -> Dictionary:
    """The built-in vendor files, then the operator's own, which win.

    Raises ConfigError that names file, entry and the allowed values.
    """
    rules = dict(_built_in())
    for path in extra:
        rules |= _read(path.name, _text(path))
    return Dictionary(rules)


@cache
def _built_in() -> Mapping[tuple[str, str], Rule]:
    rules: dict[tuple[str, str], Rule] = {}
    for entry in sorted(resources.files("collector").joinpath("vendors").iterdir(), key=str):
        if entry.name.endswith(".toml"):
            rules |= _read(entry.name, entry.read_text(encoding="utf-8"))
    return rules


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def _read(name: str, text: str) -> dict[tuple[str, str], Rule]:
    try:
        vendor = _Vendor.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: not valid TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{name}: {where}: {first['msg']}") from error
    return {
        (vendor.system, foreign): Rule(
            entry.counter, entry.scale, entry.width, _kind(entry.counter), entry.absent
        )
        for foreign, entry in vendor.counters.items()
    }


def _kind(counter: str) -> Literal["cumulative", "gauge"]:
    return "cumulative" if counter in CUMULATIVE_INDEX else "gauge"
