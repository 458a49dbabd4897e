"""How the rows of a trace lie: row groups, their times, and which of them must be read together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pyarrow.parquet as pq

from collector.columns import KEYS, Layout, layout
from collector.dictionary import Dictionary
from collector.errors import TraceError
from collector.pairs import Pairs
from collector.parquet import nanoseconds, opened, reading
from collector.record import Int32s, Int64s

Order = Literal["time", "port", "unsorted"]

_SAMPLED_ROWS: Final = 1 << 18
_DEFAULT_INTERVAL: Final = 1.0


@dataclass(frozen=True, slots=True)
class Group:
    """One row group: `place` is its rank in file order, `first` and `last` its times in ns."""

    path: Path
    layout: Layout
    index: int
    rows: int
    first: int
    last: int
    place: int


def row_groups(path: Path, dictionary: Dictionary, place: int) -> list[Group]:
    """The row groups of a file that hold rows, with their times."""
    with opened(path) as file:
        schema, meta = file.schema_arrow, file.metadata
        plan = layout(schema, path, dictionary)
        groups: list[Group] = []
        sizes = [meta.row_group(index).num_rows for index in range(meta.num_row_groups)]
        if sum(sizes) != meta.num_rows:
            raise TraceError(
                f"{path}: is corrupt: its row groups hold {sum(sizes)} rows, its footer says "
                f"{meta.num_rows}; copy it again, or leave it out of the trace",
                reason="corrupt",
            )
        for index, rows in enumerate(sizes):
            if rows:
                first, last = _times(file, index, path)
                groups.append(Group(path, plan, index, rows, first, last, place + len(groups)))
        return groups


def _times(file: pq.ParquetFile, index: int, path: Path) -> tuple[int, int]:
    """First and last time of a row group in ns.

    Read from the column, which costs a few nanoseconds a row: Arrow's accessor for the statistics
    aborts the whole process where a footer is damaged, while its readers raise.
    """
    with reading(path):
        table = file.read_row_group(index, columns=["time"])
        time = nanoseconds(table.column("time"), "time", path)
    return int(time.min()), int(time.max())


def in_spans(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups by time; those that overlap stand together, in file order."""
    spans: list[list[Group]] = []
    last, place = 0, 0
    for group in sorted(groups, key=lambda group: (group.first, group.place)):
        apart = group.first > last or (group.first == last and group.place > place)
        if not spans or apart:
            spans.append([])
            last, place = group.last, group.place
        spans[-1].append(group)
        last, place = max(last, group.last), max(place, group.place)
    return [sorted(span, key=lambda group: group.place) for span in spans]


def survey(spans: Sequence[Sequence[Group]]) -> tuple[Order, float]:
    """How the rows lie, and the usual interval in seconds, from the first few row groups."""
    times: list[Int64s] = []
    numbers: list[Int32s] = []
    pairs = Pairs()
    seen = 0
    for group in (group for span in spans for group in span):
        with opened(group.path, KEYS[1:]) as file, reading(group.path):
            table = file.read_row_group(group.index, columns=list(KEYS))
            times.append(nanoseconds(table.column("time"), "time", group.path))
            numbers.append(pairs.number(table, group.path))
        seen += group.rows
        if seen >= _SAMPLED_ROWS:
            break
    time, port = np.concatenate(times), np.concatenate(numbers)
    apart = all(len(span) == 1 for span in spans)
    return _order(time, port, apart=apart), _interval(time, port)


def _order(time: Int64s, port: Int32s, *, apart: bool) -> Order:
    falls = time[1:] < time[:-1]
    if apart and not falls.any():
        return "time"
    changes = port[1:] != port[:-1]
    grouped = int(changes.sum()) + 1 == len(np.unique(port))
    return "port" if grouped and not (falls & ~changes).any() else "unsorted"


def _interval(time: Int64s, port: Int32s) -> float:
    """Median over the ports of each port's median interval, in seconds."""
    order = np.lexsort((time, port))
    time, port = time[order], port[order]
    gaps = time[1:] - time[:-1]
    real = (port[1:] == port[:-1]) & (gaps > 0)
    gaps, port = gaps[real], port[1:][real]
    if not len(gaps):
        return _DEFAULT_INTERVAL
    order = np.lexsort((gaps, port))
    gaps, port = gaps[order], port[order]
    starts = np.flatnonzero(np.r_[True, port[1:] != port[:-1]])
    sizes = np.diff(np.r_[starts, len(port)])
    return float(np.median(gaps[starts + (sizes - 1) // 2])) / 1e9
