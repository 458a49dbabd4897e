"""Recorded traces: a folder of counters files (or one file), read as batches in time order.

A file may be sorted by time (the recorder's form, then it is streamed), by device, port and time
(archives compress best so) or not at all. Row groups whose times overlap are read together and
sorted; the others are streamed one after another, so memory follows the largest such span.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from collector.columns import DISCONTINUITY, KEYS, counter_values, gauge_values
from collector.concat import concat
from collector.counters import CUMULATIVE, GAUGES
from collector.dictionary import Dictionary, load_dictionary
from collector.errors import TraceError
from collector.pairs import Pairs
from collector.parquet import is_text, mistyped, nanoseconds, opened, reading, ticks_of
from collector.ports import PortTable
from collector.record import Batch, Int32s, Int64s
from collector.spans import Group, Order, in_spans, row_groups, survey

FILES: Final = "counters*.parquet"
_LABEL_TIMES: Final = ("start", "end", "active_start", "wire_end")
_LABEL_NAMES: Final = ("device", "port", "label")
_LABEL_BYTES: Final = ("tx_bytes", "rx_bytes")
_LABEL_REQUIRED: Final = ("start", "end", "device", "port", "label")
_UTC: Final = pa.timestamp("ns", tz="UTC")


class Trace:
    """A trace whose footers and times were read; counters are read later, and may be damaged.

    path: what was opened. rows: in all. start, end: ns of the first and the last row. interval:
    seconds, the median sampling interval of a port (1 where no port was sampled twice). columns:
    canonical names present. ignored: columns that the dictionary does not know. order: how the rows
    lie in the file. topology_path, labels_path: None where the folder has none.
    sorted_rows, negative_values: rows that had to be put into time order and values below zero
    that were taken for absent, counted over all readings so far.
    """

    def __init__(self, path: Path, ports: PortTable, spans: Sequence[Sequence[Group]]) -> None:
        groups = [group for span in spans for group in span]
        self.path = path
        self.spans = spans
        self.rows = sum(group.rows for group in groups)
        self.start = min(group.first for group in groups)
        self.end = max(group.last for group in groups)
        found = {column.counter for group in groups for column in group.layout.columns}
        self.columns = tuple(name for name in (*CUMULATIVE, *GAUGES) if name in found)
        self.ignored = tuple(
            dict.fromkeys(name for group in groups for name in group.layout.ignored)
        )
        self.topology_path = topology_beside(path)
        self.labels_path = _beside(path, "labels.parquet")
        self.sorted_rows = 0
        self.negative_values = 0
        self._ports = ports
        self.order: Order
        self.order, self.interval = survey(spans)

    @classmethod
    def open(cls, path: Path, ports: PortTable, dictionary: Dictionary | None = None) -> "Trace":
        """Open a folder or a single counters file; raises TraceError with the file's name."""
        dictionary = load_dictionary() if dictionary is None else dictionary
        files = _files(path)
        groups: list[Group] = []
        for file in files:
            groups += row_groups(file, dictionary, len(groups))
        if not groups:
            raise TraceError(
                f"{files[0]}: has no rows; a trace needs at least one sample", reason="empty"
            )
        return cls(path, ports, in_spans(groups))

    def batches(self, rows: int = 65536) -> Iterator[Batch]:
        """All rows in time order (ties in file order), about `rows` to a batch, no instant split.

        Raises TraceError where a file turns out to be damaged.
        """
        passage = self.passage(rows)
        while (batch := passage.read()) is not None:
            yield passage.intern(batch)

    def passage(self, rows: int = 65536) -> "Passage":
        """One reading in two halves: decoding may run in a thread, interning stays at home."""
        return Passage(self, rows, self._ports)


class Passage:
    """One reading of a trace from start to end.

    `read` decodes, sorts and cuts; its batches number ports by themselves. `intern` gives them the
    port table's ids, in order of first appearance, so that a trace always numbers its ports alike.
    """

    def __init__(self, trace: Trace, rows: int, ports: PortTable) -> None:
        self._trace = trace
        self._ports = ports
        self._pairs = Pairs()
        self._ids: Int32s = np.empty(0, np.int32)
        self._chunks = _cut(self._parts(), rows)

    def read(self) -> Batch | None:
        """The next batch with ports as numbers of this passage, None at the end."""
        return next(self._chunks, None)

    def intern(self, batch: Batch) -> Batch:
        """The same batch with ids of the port table."""
        missing = len(self._pairs.names) - len(self._ids)
        if missing:
            self._ids = np.append(self._ids, np.full(missing, -1, np.int32))
        fresh = batch.port[self._ids[batch.port] < 0]
        if len(fresh):
            slots, first = np.unique(fresh, return_index=True)
            for slot in slots[np.argsort(first)]:
                self._ids[slot] = self._ports.intern(*self._pairs.names[slot])
        return replace(batch, port=self._ids[batch.port])

    def _parts(self) -> Iterator[Batch]:
        """One batch per span, sorted by time."""
        for span in self._trace.spans:
            part = concat([self._group(group) for group in span])
            if (part.time[1:] < part.time[:-1]).any():
                self._trace.sorted_rows += len(part)
                part = part.select(np.argsort(part.time, kind="stable"))
            yield part

    def _group(self, group: Group) -> Batch:
        path, plan = group.path, group.layout
        with opened(path, KEYS[1:]) as file, reading(path):
            table = file.read_row_group(group.index, columns=plan.names())
            time = nanoseconds(table.column("time"), "time", path)
            _check_range(group, time)
            counters, gauges, valid = {}, {}, {}
            for column in plan.columns:
                if column.gauge:
                    gauges[column.counter] = gauge_values(table.column(column.name)) * column.scale
                    continue
                values, mask, negative = counter_values(
                    table.column(column.name), column.name, path
                )
                self._trace.negative_values += negative
                counters[column.counter] = (
                    values if column.scale == 1 else values * np.uint64(column.scale)
                )
                if mask is not None:
                    valid[column.counter] = mask
            return Batch(
                source="trace",
                time=time,
                port=self._pairs.number(table, path),
                counters=counters,
                gauges=gauges,
                valid=valid,
                narrow=frozenset(column.counter for column in plan.columns if column.narrow),
                discontinuity=_discontinuity(table, path) if plan.discontinuity else None,
            )


def topology_beside(path: Path) -> Path | None:
    """The topology of a trace that is a folder, None where it brings none."""
    return _beside(path, "topology.json")


def _beside(path: Path, name: str) -> Path | None:
    return path / name if (path / name).is_file() else None


def _files(path: Path) -> list[Path]:
    """The counters files of a trace; names that start with a dot are unfinished recordings."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TraceError(f"{path}: no such file or folder", reason="missing")
    files = sorted(file for file in path.glob(FILES) if file.name[0] != "." and file.is_file())
    if not files:
        raise TraceError(
            f"{path}: has no counters.parquet (nor counters-*.parquet); name the folder of a trace "
            "or its counters file",
            reason="missing",
        )
    return files


def _check_range(group: Group, time: Int64s) -> None:
    """Streaming relies on the times seen at the opening."""
    if len(time) != group.rows or time.min() < group.first or time.max() > group.last:
        raise TraceError(
            f"{group.path}: changed while it was read (row group {group.index}); replay a copy, or "
            "a recording that has ended",
            reason="changed",
        )


def _cut(parts: Iterator[Batch], rows: int) -> Iterator[Batch]:
    """The same rows in batches of about `rows`, wherever the parts began and ended.

    Rows of one instant stay together, so that the newest time of a batch may serve as a watermark.
    """
    rest: Batch | None = None
    for part in parts:
        held = part if rest is None else concat([rest, part])
        begin = 0
        # One row more than asked for is needed to see whether an instant is over.
        while len(held) - begin > rows:
            end = int(np.searchsorted(held.time, held.time[begin + rows]))
            if end <= begin:
                end = int(np.searchsorted(held.time, held.time[begin], side="right"))
                if end == len(held):
                    break
            yield concat([held.select(slice(begin, end))])
            begin = end
        rest = held.select(slice(begin, None))
    if rest is not None:
        yield concat([rest])


def _discontinuity(table: pa.Table, path: Path) -> Int64s:
    column = table.column(DISCONTINUITY)
    told: Int64s = column.is_valid().combine_chunks().to_numpy(zero_copy_only=False)
    unit = column.type
    zero = pa.scalar(0, pa.int64()).cast(unit)
    return np.where(told, nanoseconds(column.fill_null(zero), DISCONTINUITY, path), 0)


def read_labels(path: Path) -> pa.Table:
    """The true labels of a trace: one row per communication call, as in `labels.parquet`.

    Required: start, end (times), device, port, label (names). Optional: active_start, wire_end
    (times), tx_bytes, rx_bytes (whole numbers). Times come back as timestamp[ns, UTC], further
    columns as they are. Raises TraceError naming file and column.
    """
    with opened(path) as file:
        _check_labels(file.schema_arrow, path)
        with reading(path):
            table = file.read()
        if not table.num_rows:
            raise TraceError(f"{path}: has no rows; leave the file out instead", reason="empty")
        for name in _LABEL_NAMES:
            if table.column(name).null_count:
                raise TraceError(f"{path}: column {name!r} has nulls", reason="mistyped")
        with reading(path):
            for name in _LABEL_TIMES:
                place = table.schema.get_field_index(name)
                if place >= 0:
                    column = table.column(place)
                    if name in _LABEL_REQUIRED:
                        nanoseconds(column, name, path)
                    table = table.set_column(place, name, column.cast(_UTC))
    return table


def _check_labels(schema: pa.Schema, path: Path) -> None:
    for name in _LABEL_REQUIRED:
        if schema.get_field_index(name) < 0:
            raise TraceError(
                f"{path}: has no column {name!r}; columns found: {', '.join(schema.names)}; "
                f"labels need {', '.join(_LABEL_REQUIRED)}",
                reason="mistyped",
            )
    for field in schema:
        if field.name in _LABEL_TIMES and ticks_of(field.type) is None:
            raise mistyped(path, field.name, field.type, "timestamp (UTC) or int64 nanoseconds")
        if field.name in _LABEL_NAMES and not is_text(field.type):
            raise mistyped(path, field.name, field.type, "string or dictionary of strings")
        if field.name in _LABEL_BYTES and not pa.types.is_integer(field.type):
            raise mistyped(path, field.name, field.type, "int64")
