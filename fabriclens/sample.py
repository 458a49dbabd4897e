"""A documented sample configuration, generated from the models so that it cannot drift."""

from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fabriclens.config import Config, source_models, table_of

_HEADER = """\
# fabriclens configuration. Every value here is the default; delete what you do not change.
# Check a file with: fabriclens check --config FILE
"""


def sample_config() -> str:
    """The text of the sample file; it is valid as it stands."""
    lines = [_HEADER]
    tables: list[str] = []
    for name, field in Config.model_fields.items():
        if name == "sources":
            tables += _sources()
        elif model := table_of(field):
            tables += _table(name, model, optional=field.default is None)
        else:
            lines += _setting(name, field)
    lines += tables
    return "\n".join(lines) + "\n"


def _table(name: str, model: type[BaseModel], *, optional: bool) -> list[str]:
    lines = ["", f"# {_sentence(model)}", f"{'# ' if optional else ''}[{name}]"]
    for key, field in model.model_fields.items():
        lines += _setting(key, field, commented=optional)
    return lines


def _sources() -> list[str]:
    """One table a source; only the first is in force, the others are there to be copied."""
    lines: list[str] = []
    for number, model in enumerate(source_models().values()):
        mark = "# " if number else ""
        lines += ["", f"# {_sentence(model)}", f"{mark}[[sources]]"]
        for key, field in model.model_fields.items():
            lines += _setting(key, field, commented=bool(number))
    return lines


def _setting(name: str, field: FieldInfo, *, commented: bool = False) -> list[str]:
    about = f"# {field.description}" if field.description else ""
    unset = field.is_required() or field.default is None
    mark = "# " if commented or unset else ""
    value = '"..."' if unset else _toml(field.get_default(call_default_factory=True))
    return [*([about] if about else []), f"{mark}{name} = {value}"]


def _toml(value: Any) -> str:
    if isinstance(value, Path):
        return _toml(str(value))
    if isinstance(value, BaseModel):
        return _toml(value.model_dump())
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, dict):
        pairs = [f"{key} = {_toml(item)}" for key, item in value.items()]
        return "{" + ", ".join(pairs) + "}"
    return orjson.dumps(value).decode()


def _sentence(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]
