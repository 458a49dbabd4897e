"""The findings of a replay as files: `ports.parquet`, `routes.json` and `summary.json`.

Everything is written under a temporary name and renamed when it is whole: a folder never holds half
a file under its final name.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from analyzer.frame import CAUSES, Frame
from classifier.labels import LABELS, REASONS, SHARES, UNKNOWN
from collector.errors import ConfigError
from exporters.summary import Summary
from exporters.timeline import Timeline

ROWS_PER_GROUP: Final = 100_000
_NAMES: Final = pa.dictionary(pa.int32(), pa.string())
_CHOICE: Final = pa.dictionary(pa.int8(), pa.string())
_FLOATS: Final = {
    **{f"share_{name}": np.float32 for name in SHARES},
    "confidence": np.float32,
    "tx_bytes_per_second": np.float64,
    "rx_bytes_per_second": np.float64,
    "utilization": np.float32,
    "held": np.float32,
    "congestion_score": np.float32,
}
_BUFFERS: Final[Mapping[str, Any]] = {
    "time": np.int64,
    "id": np.int32,
    "label": np.int8,
    "reason": np.int8,
    **_FLOATS,
    "congestion_cause": np.int8,
}
SCHEMA: Final = pa.schema(
    [
        ("time", pa.timestamp("ns", tz="UTC")),
        ("device", _NAMES),
        ("port", _NAMES),
        ("label", _CHOICE),
        ("reason", pa.string()),
        *((name, pa.from_numpy_dtype(kind)) for name, kind in _FLOATS.items()),
        ("congestion_cause", _CHOICE),
    ]
)
"""One row per tick and live port. `time` is the end of the tick, `utilization` that of the busier
direction, `reason` null unless the label is `unknown`; NaN is unknown."""


class FindingsWriter:
    """Writes the findings of every tick into a folder.

    `write` copies a tick's columns into buffers of many ticks; a full buffer becomes a row group.
    Use as a context manager, or call `close`; `abort` leaves no file behind. ConfigError where the
    folder cannot be made.
    """

    def __init__(self, directory: Path, rows_per_group: int = ROWS_PER_GROUP) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{directory}: cannot hold findings: {error.strerror}") from error
        self._directory = directory
        self._group = rows_per_group
        self._buffers = {
            name: np.empty(rows_per_group, dtype=kind) for name, kind in _BUFFERS.items()
        }
        self._used = 0
        self._names = _Names()
        self._summary = Summary()
        self._timeline = Timeline()
        self._partial = directory / ".ports.parquet.partial"
        self._writer: Any = self._opened()

    def _opened(self) -> Any:
        try:
            return pq.ParquetWriter(
                self._partial,
                SCHEMA,
                compression="zstd",
                compression_level=1,
                use_dictionary=["time", "device", "port", "label", "reason", "congestion_cause"],
                write_statistics=["time"],
            )
        except OSError as error:
            raise ConfigError(
                f"{self._directory}: findings cannot be written here: {error.strerror or error}"
            ) from error

    def write(self, frame: Frame) -> None:
        """Take in one tick."""
        self._summary.add(frame)
        self._timeline.add(frame)
        self._names.grow(frame.devices, frame.ports)
        ids = np.flatnonzero(frame.measured.live)
        columns = _columns(frame)
        start = 0
        while start < len(ids):
            taken = min(self._group - self._used, len(ids) - start)
            rows = ids[start : start + taken]
            into = slice(self._used, self._used + taken)
            self._buffers["time"][into] = frame.time
            self._buffers["id"][into] = rows
            # A tick in which every port is live needs no gather.
            pick = slice(start, start + taken) if len(ids) == len(frame.ports) else rows
            for name, column in columns.items():
                self._buffers[name][into] = column[pick]
            start += taken
            self._used += taken
            if self._used == self._group:
                self._flush()

    def summary(self) -> dict[str, Any]:
        """Ports, ticks, rows, bytes by label, congested ports and suggestions so far."""
        return {**self._summary.document(), "suggestions": self._timeline.in_force()}

    def close(self, summary: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Finish every file; `summary` adds to what `summary.json` says. Returns its contents."""
        self._flush()
        self._writer.close()
        self._partial.replace(self._directory / "ports.parquet")
        whole = {**self.summary(), **(summary or {})}
        self._put("routes.json", self._timeline.document())
        self._put("summary.json", whole)
        return whole

    def abort(self) -> None:
        """Drop what was written; files of an earlier run stay."""
        with suppress(OSError):  # a full disk cannot take the footer either
            self._writer.close()
        self._partial.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _flush(self) -> None:
        if not self._used:
            return
        self._writer.write_table(self._table(), row_group_size=self._group)
        self._used = 0

    def _table(self) -> Any:
        """The buffered rows as Arrow; floats are handed over without a copy."""
        used = {name: buffer[: self._used] for name, buffer in self._buffers.items()}
        time = pa.array(used["time"]).cast(pa.timestamp("ns", tz="UTC"))
        device, port = self._names.columns(used["id"])
        no_reason = used["label"] != UNKNOWN
        columns = [
            time,
            device,
            port,
            _choice(used["label"], LABELS),
            pa.array(REASONS, pa.string()).take(pa.array(used["reason"], mask=no_reason)),
            *(pa.array(used[name]) for name in _FLOATS),
            _choice(used["congestion_cause"], CAUSES),
        ]
        return pa.table(columns, schema=SCHEMA)

    def _put(self, name: str, document: Any) -> None:
        partial = self._directory / f".{name}.partial"
        partial.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
        partial.replace(self._directory / name)


class _Names:
    """Device and port names of every port id, each name once."""

    def __init__(self) -> None:
        self._seen = 0
        self._lists: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._codes = np.empty((2, 0), dtype=np.int32)

    def grow(self, devices: tuple[str, ...], ports: tuple[str, ...]) -> None:
        if len(ports) == self._seen:
            return
        fresh = [
            [known.setdefault(name, len(known)) for name in names[self._seen :]]
            for known, names in zip(self._lists, (devices, ports), strict=True)
        ]
        self._codes = np.concatenate([self._codes, np.array(fresh, dtype=np.int32)], axis=1)
        self._seen = len(ports)

    def columns(self, ids: NDArray[np.int32]) -> list[Any]:
        """Dictionary columns of device and of port."""
        return [
            pa.DictionaryArray.from_arrays(pa.array(codes[ids]), pa.array(known, pa.string()))
            for codes, known in zip(self._codes, self._lists, strict=True)
        ]


def _columns(frame: Frame) -> dict[str, NDArray[Any]]:
    """The frame's columns over all ports, by the names of the buffers they go to."""
    labels, found, measured = frame.labels, frame.congestion, frame.measured
    return {
        "label": labels.label,
        "reason": labels.reason,
        **{f"share_{name}": labels.share[:, index] for index, name in enumerate(SHARES)},
        "confidence": labels.confidence,
        "tx_bytes_per_second": measured.rate("tx_bytes"),
        "rx_bytes_per_second": measured.rate("rx_bytes"),
        "utilization": np.fmax(found.tx_utilization, found.rx_utilization),
        "held": found.held,
        "congestion_score": found.score,
        "congestion_cause": found.cause,
    }


def _choice(codes: NDArray[np.int8], options: tuple[str, ...]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(options, pa.string()))
