"""The configuration: one TOML file, checked whole before anything connects."""

import difflib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from collector.errors import ConfigError
from collector.sources.linux import LinuxConfig
from collector.sources.replay import ReplayConfig

SourceConfig = Annotated[LinuxConfig | ReplayConfig, Field(discriminator="kind")]


class Section(BaseModel):
    """A table of the file: unknown keys are errors, values never change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class HttpConfig(Section):
    """Where /metrics, the health checks and the API are served."""

    host: str = Field(default="127.0.0.1", description="Address to bind; loopback unless changed.")
    port: int = Field(default=9400, ge=0, le=65535, description="TCP port; 0 picks a free one.")


class MetricsConfig(Section):
    """How many series /metrics may hold."""

    ports: Literal["all", "congested", "none"] = Field(
        default="all", description="Ports that get series of their own."
    )
    max_series: int = Field(
        default=2_000_000, ge=1000, description="Series above this are left out, and counted."
    )


class RecordConfig(Section):
    """Record everything that is received, in the format that `fabriclens replay` reads."""

    directory: Path = Field(description="Folder to write to; made if absent.")
    rotate_seconds: float = Field(default=60.0, gt=0, description="A file is closed after this.")
    rotate_rows: int = Field(default=524_288, ge=1000, description="... or after so many rows.")
    keep_bytes: int | None = Field(
        default=None, ge=1_000_000, description="The oldest files go when all are larger than this."
    )


class Config(Section):
    """The whole file."""

    tick: float = Field(
        default=1.0, ge=0.01, le=60, description="Seconds between two rounds of findings."
    )
    topology: Path | None = Field(
        default=None, description="topology.json: devices and links; routes need it."
    )
    dictionary: tuple[Path, ...] = Field(
        default=(), description="More counter dictionary files; they win over the built-in ones."
    )
    model: Path | None = Field(
        default=None, description="Folder with a model of your own (model.skops and card.json)."
    )
    queue_rows: int = Field(
        default=2_000_000,
        ge=1000,
        description="Samples that may wait; then the oldest are dropped.",
    )
    http: HttpConfig = HttpConfig()
    metrics: MetricsConfig = MetricsConfig()
    record: RecordConfig | None = None
    sources: tuple[SourceConfig, ...] = Field(default=(LinuxConfig(),), min_length=1)

    @model_validator(mode="after")
    def _sources_agree(self) -> "Config":
        names = [source.name for source in self.sources]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two sources are called {twice[0]!r}; give each a name of its own")
        kinds = {source.kind for source in self.sources}
        if "replay" in kinds and len(self.sources) > 1:
            raise ValueError("a replay keeps its own time, so it must be the only source")
        return self


def read_config(path: Path) -> Config:
    """The configuration in a TOML file; relative paths in it start from the file's folder.

    Raises ConfigError with every fault found: file, field, what is wrong, and what is allowed.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    return parse_config(raw, str(path), path.parent)


def parse_config(raw: dict[str, Any], name: str, folder: Path) -> Config:
    """A configuration from its raw tables; `name` is what error messages call it."""
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        faults = dict.fromkeys(f"{name}: {_explain(dict(one))}" for one in _telling(error))
        raise ConfigError("\n".join(faults)) from error
    return _rooted(config, folder)


def _rooted(config: Config, folder: Path) -> Config:
    """The same with relative paths resolved against the file's folder."""

    def rooted(path: Path | None) -> Path | None:
        return path if path is None else folder / path

    record = config.record and config.record.model_copy(
        update={"directory": folder / config.record.directory}
    )
    sources = tuple(
        source.model_copy(update={"path": folder / source.path})
        if isinstance(source, ReplayConfig)
        else source
        for source in config.sources
    )
    return config.model_copy(
        update={
            "topology": rooted(config.topology),
            "model": rooted(config.model),
            "dictionary": tuple(folder / path for path in config.dictionary),
            "record": record,
            "sources": sources,
        }
    )


def _telling(error: ValidationError) -> list[Any]:
    """The faults without those that only follow from others."""
    faults = error.errors()
    inner = any(fault["loc"][:1] == ("sources",) and len(fault["loc"]) > 1 for fault in faults)
    return [one for one in faults if not (inner and one["loc"] == ("sources",))]


def _explain(fault: dict[str, Any]) -> str:
    """One fault in the words of the file."""
    # The names that alternatives of a type go by are no part of the file.
    place = [part for part in fault["loc"] if isinstance(part, int) or part.isidentifier()]
    where = ".".join(map(str, place)) or "the file as a whole"
    match fault["type"]:
        case "extra_forbidden":
            text = f": {_unknown(fault['loc'])}"
        case "union_tag_invalid":
            text = f".kind: {fault['ctx']['tag']!r} is no source (allowed: {_kinds()})"
        case "union_tag_not_found":
            text = f".kind: is missing (allowed: {_kinds()})"
        case "missing":
            text = ": is missing"
        case "tuple_type":
            form = "[[sources]] tables" if place == ["sources"] else "a list in [brackets]"
            text = f": must be {form}"
        case "value_error":
            text = f": {str(fault['msg']).removeprefix('Value error, ')}"
        case _:
            text = f": {fault['msg']} (found {fault['input']!r})"
    return where + text


def _unknown(loc: Sequence[str | int]) -> str:
    allowed = _allowed(loc[:-1])
    near = difflib.get_close_matches(str(loc[-1]), allowed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown key{hint} (allowed here: {', '.join(allowed)})"


def _kinds() -> str:
    return ", ".join(repr(kind) for kind in source_models())


def source_models() -> dict[str, type[BaseModel]]:
    """Kind of source -> its model."""
    union = get_args(get_args(SourceConfig)[0])
    return {model.model_fields["kind"].default: model for model in union}


def _allowed(loc: Sequence[str | int]) -> list[str]:
    """The keys that the table at a place in the file may hold."""
    model: type[BaseModel] = Config
    for part in loc:
        if part in source_models():
            model = source_models()[str(part)]
        elif part in model.model_fields:
            model = table_of(model.model_fields[str(part)]) or model
    return list(model.model_fields)


def table_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is a table, also where the table may be absent."""
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
