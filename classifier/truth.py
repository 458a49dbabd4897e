"""The truth of a recorded trace: what every port's bytes were for, window by window."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from classifier.labels import LABELS, OTHER
from collector.errors import TraceError
from collector.record import Floats, Int32s, Int64s
from collector.trace import read_labels

ACTIVE: Final = LABELS[:4]
"""The classes that move bytes, in column order."""
UNLOGGED: Final = 0.01
"""A window in which less than this share of the bytes was logged is `other` altogether."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Labelled communication calls, columns over calls.

    device, port: names. label: index into ACTIVE. start, end: ns between which bytes could flow.
    volume: bytes on the port, both directions.
    """

    device: tuple[str, ...]
    port: tuple[str, ...]
    label: Int32s
    start: Int64s
    end: Int64s
    volume: Floats


def read_calls(path: Path) -> Calls:
    """The calls of a `labels.parquet`; TraceError where it cannot be read or lacks a column.

    Without `active_start` and `wire_end` the call's own `start` and `end` serve.
    """
    table = read_labels(path)
    names = table.column("label").to_pylist()
    strange = sorted(set(names) - set(ACTIVE))
    if strange:
        raise TraceError(
            f"{path}: label: {strange[0]!r} is not one of {', '.join(ACTIVE)}", reason="labels"
        )
    volume = np.zeros(table.num_rows)
    for name in ("tx_bytes", "rx_bytes"):
        if name not in table.column_names:
            raise TraceError(f"{path}: has no column {name!r}, needed as truth", reason="labels")
        volume += table.column(name).fill_null(0).to_numpy()
    start = _nanoseconds(table, "active_start", "start")
    end = _nanoseconds(table, "wire_end", "end")
    return Calls(
        device=tuple(table.column("device").to_pylist()),
        port=tuple(table.column("port").to_pylist()),
        label=np.array([ACTIVE.index(name) for name in names], dtype=np.int32),
        start=start,
        end=np.maximum(end, start + 1),
        volume=volume,
    )


def _nanoseconds(table: pa.Table, name: str, otherwise: str) -> Int64s:
    column = table.column(name if name in table.column_names else otherwise)
    whole: Int64s = column.cast(pa.int64()).fill_null(0).to_numpy()
    return whole


def spread(start: Int64s, end: Int64s, volume: Floats, edges: Int64s) -> NDArray[np.float64]:
    """(windows,) bytes between neighbouring `edges` (windows + 1, ns), each call spread evenly."""
    if not len(start):
        return np.zeros(len(edges) - 1)
    # The running total of all calls is piecewise linear: its slope changes where calls begin
    # and end.
    slope = volume / (end - start)
    times = np.concatenate((start, end))
    order = np.argsort(times, kind="stable")
    times = times[order]
    slopes = np.cumsum(np.concatenate((slope, -slope))[order])
    origin = times[0]
    place = (times - origin).astype(np.float64)
    total = np.concatenate(([0.0], np.cumsum(slopes[:-1] * np.diff(place))))
    return np.diff(np.interp((edges - origin).astype(np.float64), place, total))


def logged_bytes(calls: Calls, device: str, port: str, edges: Int64s) -> NDArray[np.float64]:
    """(windows, 4) bytes per class of ACTIVE that were logged on one port."""
    here = np.array(
        [a == device and b == port for a, b in zip(calls.device, calls.port, strict=True)],
        dtype=np.bool_,
    )
    columns = []
    for label in range(len(ACTIVE)):
        rows = here & (calls.label == label)
        columns.append(spread(calls.start[rows], calls.end[rows], calls.volume[rows], edges))
    return np.stack(columns, axis=-1)


def shares(logged: Floats, observed: Floats) -> NDArray[np.float64]:
    """(..., 4) byte shares, from logged bytes per class and (...) bytes seen on the port.

    Bytes that nobody logged are `other`. Spreading a call evenly is an approximation, so that a
    window with some logged bytes is divided by those alone; only where (almost) none were logged
    is the window `other`.
    """
    filled = logged.copy()
    total = logged.sum(axis=-1)
    strange = total <= UNLOGGED * observed
    filled[strange] = 0.0
    filled[strange, OTHER] = np.maximum(observed[strange], 1.0)
    result: Floats = filled / filled.sum(axis=-1, keepdims=True)
    return result
