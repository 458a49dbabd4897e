"""Parquet files, read with errors that an operator can act on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from collector.errors import TraceError
from collector.record import Int32s, Int64s

_MAGIC: Final = b"PAR1"
_FINEST: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever Arrow or the kernel raises about `path` into a TraceError that names it."""
    try:
        yield
    # A damaged page surfaces as almost any of these: bad text, bad lengths, absurd allocations.
    except (pa.ArrowException, OSError, ValueError, OverflowError, EOFError) as error:
        _explain(path, error)


def _explain(path: Path, error: Exception) -> NoReturn:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
            file.seek(max(size - len(_MAGIC), 0))
            tail = file.read(len(_MAGIC))
    except OSError as cause:
        raise TraceError(f"{path}: cannot be read: {cause.strerror}", reason="missing") from cause
    if size == 0:
        raise TraceError(
            f"{path}: is empty (0 bytes); record or copy it again", reason="empty"
        ) from error
    if head != _MAGIC:
        raise TraceError(
            f"{path}: is not a Parquet file; convert it to Parquet with the columns time, device, "
            "port and the counters",
            reason="foreign",
        ) from error
    if tail != _MAGIC:
        raise TraceError(
            f"{path}: is truncated after {size} bytes (the footer is missing); copy it again, or "
            "leave it out of the trace",
            reason="truncated",
        ) from error
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise TraceError(
        f"{path}: is corrupt: {first}; copy it again, or leave it out of the trace",
        reason="corrupt",
    ) from error


@contextmanager
def opened(path: Path, names: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """An open Parquet file; columns in `names` are read as dictionaries. Raises TraceError."""
    with (
        reading(path),
        pq.ParquetFile(path, read_dictionary=list(names), page_checksum_verification=True) as file,
    ):
        yield file


def mistyped(path: Path, column: str, found: object, expected: str) -> TraceError:
    """The error for a column of the wrong type."""
    return TraceError(
        f"{path}: column {column!r} has the type {found}; expected {expected}", reason="mistyped"
    )


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, whether dictionary-encoded or not."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether a column's type can hold names."""
    plain = value_type(kind)
    return bool(
        pa.types.is_string(plain)
        or pa.types.is_large_string(plain)
        or pa.types.is_string_view(plain)
    )


def ticks_of(kind: pa.DataType) -> int | None:
    """Nanoseconds in one unit of a time column's type, None where it cannot hold times."""
    if pa.types.is_timestamp(kind):
        return _FINEST[kind.unit]
    return 1 if pa.types.is_int64(kind) else None


def contiguous(column: pa.ChunkedArray) -> Any:
    """The column as one plain array."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def nanoseconds(column: pa.ChunkedArray, name: str, path: Path) -> Int64s:
    """(rows,) ns since the epoch; nulls are refused, since a row without a time is no sample."""
    if column.null_count:
        raise TraceError(
            f"{path}: column {name!r} has {column.null_count} nulls; every row needs a time",
            reason="mistyped",
        )
    array = contiguous(column)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ns", tz=array.type.tz)).cast(pa.int64())
    times: Int64s = array.to_numpy(zero_copy_only=False)
    return times


def codes(column: pa.ChunkedArray, name: str, path: Path) -> tuple[list[str], Int32s]:
    """A column of names as a list of distinct ones and (rows,) indices into it."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    names = array.dictionary.to_pylist()
    if array.null_count or None in names:
        raise TraceError(
            f"{path}: column {name!r} has nulls; every row needs a {name}", reason="mistyped"
        )
    index: Int32s = array.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(names)):
        raise TraceError(f"{path}: column {name!r} is corrupt; copy it again", reason="corrupt")
    return names, index
