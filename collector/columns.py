"""Columns of a trace as canonical counters and gauges."""

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.counters import CUMULATIVE_INDEX, GAUGE_INDEX
from collector.dictionary import Dictionary
from collector.errors import TraceError
from collector.parquet import contiguous, is_text, mistyped, ticks_of, value_type
from collector.record import Bools, Floats, UInt64s

KEYS: Final = ("time", "device", "port")
DISCONTINUITY: Final = "discontinuity"
"""Optional column of times: when the device last lost continuity (`Batch.discontinuity`)."""

_TOP: Final = 2.0**64


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a file: its name there, the canonical counter it holds, and the rule for it."""

    name: str
    counter: str
    scale: int
    narrow: bool

    @property
    def gauge(self) -> bool:
        """Whether the column holds a gauge."""
        return self.counter in GAUGE_INDEX


@dataclass(frozen=True, slots=True)
class Layout:
    """What a counters file holds: columns in canonical order, and names nobody has explained."""

    columns: tuple[Column, ...]
    ignored: tuple[str, ...]
    discontinuity: bool

    def names(self) -> list[str]:
        """The file's columns that are worth reading."""
        extra = [DISCONTINUITY] if self.discontinuity else []
        return [*KEYS, *(column.name for column in self.columns), *extra]


def layout(schema: pa.Schema, path: Path, dictionary: Dictionary) -> Layout:
    """Match a file's schema against the dictionary; TraceError where it cannot be a trace."""
    _check_keys(schema, path)
    known: dict[str, Column] = {}
    ignored: list[str] = []
    told = False
    for field in schema:
        if field.name in KEYS:
            continue
        if field.name == DISCONTINUITY and ticks_of(field.type) is not None:
            told = True
            continue
        rule = dictionary.lookup("captures", field.name)
        if rule is None:
            ignored.append(field.name)
            continue
        if pa.types.is_null(field.type):
            continue
        _check_number(field, rule.counter, path)
        # A counter kept in 32 bits wraps there, whatever the dictionary says of its name.
        narrow = rule.counter in CUMULATIVE_INDEX and (
            rule.width == 32 or value_type(field.type) == pa.uint32()
        )
        column = Column(field.name, rule.counter, rule.scale, narrow)
        other = known.get(rule.counter)
        if other is not None:
            # The canonical spelling wins over a second column of the same meaning.
            kept, dropped = (column, other) if field.name == rule.counter else (other, column)
            known[rule.counter] = kept
            ignored.append(dropped.name)
        else:
            known[rule.counter] = column
    if not known:
        found = ", ".join(ignored) or "none"
        raise TraceError(
            f"{path}: has no column with a known counter (others: {found}); add their names to the "
            "counter dictionary",
            reason="mistyped",
        )
    order = [name for name in (*CUMULATIVE_INDEX, *GAUGE_INDEX) if name in known]
    return Layout(tuple(known[name] for name in order), tuple(ignored), told)


def _check_keys(schema: pa.Schema, path: Path) -> None:
    twice = [name for name, times in Counter(schema.names).items() if times > 1]
    if twice:
        raise TraceError(
            f"{path}: has the column {twice[0]!r} more than once; keep one of them",
            reason="mistyped",
        )
    for name in KEYS:
        if schema.get_field_index(name) < 0:
            present = ", ".join(schema.names) or "none"
            raise TraceError(
                f"{path}: has no column {name!r}; columns found: {present}; "
                "a trace needs time, device and port",
                reason="mistyped",
            )
    kind = schema.field("time").type
    if ticks_of(kind) is None:
        raise mistyped(path, "time", kind, "timestamp (UTC) or int64 nanoseconds since the epoch")
    for name in KEYS[1:]:
        if not is_text(schema.field(name).type):
            raise mistyped(path, name, schema.field(name).type, "string or dictionary of strings")


def _check_number(field: pa.Field, counter: str, path: Path) -> None:
    kind = value_type(field.type)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if number or (counter in GAUGE_INDEX and pa.types.is_boolean(kind)):
        return
    expected = "a number" if counter in GAUGE_INDEX else "uint64 (or whole numbers of another type)"
    raise mistyped(path, field.name, field.type, expected)


def counter_values(
    column: pa.ChunkedArray, name: str, path: Path
) -> tuple[UInt64s, Bools | None, int]:
    """(rows,) values, (rows,) mask or None if none is absent, and how many were negative.

    Nulls, NaN and negative values are absent; a negative count is none at all. Raises TraceError
    where a value is not a whole number, since rounding a counter would invent traffic.
    """
    array = contiguous(column)
    negative = 0
    if pa.types.is_decimal(array.type):
        below = pc.less(array, pa.scalar(Decimal(0), array.type))
        negative = pc.sum(below).as_py() or 0
        array = pc.if_else(below, pa.scalar(None, array.type), array)
        try:
            array = array.cast(pa.uint64())
        except pa.ArrowInvalid as error:
            raise _fraction(path, name) from error
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    raw: Any = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
    if raw.dtype == np.uint64:
        return raw, valid, negative
    absent = np.zeros(len(raw), np.bool_)
    if raw.dtype.kind == "f":
        absent |= np.isnan(raw)
        raw = np.where(absent, 0, raw)
        if not (np.abs(raw) < _TOP).all() or (raw != np.floor(raw)).any():
            raise _fraction(path, name)
    if raw.dtype.kind in "if":
        below = raw < 0
        negative = int(below.sum())
        absent |= below
        raw = np.where(below, 0, raw)
    if absent.any():
        valid = ~absent if valid is None else valid & ~absent
    return raw.astype(np.uint64), valid, negative


def gauge_values(column: pa.ChunkedArray) -> Floats:
    """(rows,) float64, NaN where null."""
    array = contiguous(column)
    if pa.types.is_decimal(array.type) or pa.types.is_boolean(array.type):
        kind = pa.float64() if pa.types.is_decimal(array.type) else pa.uint8()
        array = array.cast(kind)
    if not array.null_count:
        values: Floats = array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        return values
    absent = array.is_null().to_numpy(zero_copy_only=False)
    filled: Floats = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    filled[absent] = np.nan
    return filled


def _fraction(path: Path, name: str) -> TraceError:
    return TraceError(
        f"{path}: column {name!r} holds values that are not whole numbers below 2**64; expected a "
        "cumulative counter",
        reason="mistyped",
    )
