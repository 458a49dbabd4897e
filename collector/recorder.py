"""Writes what the daemon sees as a trace that replay reads.

A file is written whole, under a name that readers pass over, synced and then renamed. So a folder
holds only finished files at any instant, and a kill loses at most the rows since the last rotation.
"""

import fcntl
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from collector.clock import Clock, SteadyClock
from collector.columns import DISCONTINUITY
from collector.concat import agreeing, concat
from collector.errors import ConfigError
from collector.ports import PortTable
from collector.record import Batch, Bools, UInt64s

_ROW_GROUP: Final = 131_072
_UTC: Final = pa.timestamp("ns", tz="UTC")
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Recorded:
    """Counts of a recorder, for the exporter."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    failures: int = 0
    lost_rows: int = 0
    removed_files: int = 0


class Recorder:
    """Buffers batches and writes them as `counters-000001.parquet` and so on.

    A file is closed after `rotate_rows` rows or `rotate_seconds` seconds, whichever comes first.
    With `keep_bytes` the oldest files are removed once all of them hold more. `write` never raises
    for a full or vanished disk: the rows of that file are lost and counted, and the next rotation
    tries again. All methods are called from one thread.
    """

    def __init__(
        self,
        directory: Path,
        ports: PortTable,
        *,
        rotate_rows: int = 1 << 19,
        rotate_seconds: float = 60.0,
        keep_bytes: int | None = None,
        topology: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.directory = directory
        self.counts = Recorded()
        self.pending_rows = 0
        self._ports = ports
        self._rotate_rows = rotate_rows
        self._rotate_seconds = rotate_seconds
        self._keep_bytes = keep_bytes
        self._topology = topology
        self._clock: Clock = SteadyClock() if clock is None else clock
        self._pending: list[Batch] = []
        self._begun = 0
        self._lock = -1
        self._number = 0
        self._sources: set[str] = set()
        self._span: tuple[int, int] | None = None
        self._failing = False

    def open(self) -> None:
        """Make the folder and claim it; ConfigError where it cannot be used. `write` also opens."""
        if self._lock >= 0:
            return
        try:
            self._claim()
        except BlockingIOError as error:
            raise ConfigError(
                f"{self.directory}: another recorder writes here; give each one its own folder"
            ) from error
        except OSError as error:
            raise ConfigError(
                f"{self.directory}: cannot record here: {error.strerror}; name a folder that can "
                "be written"
            ) from error

    def write(self, batch: Batch) -> None:
        """Take a batch; now and then this writes a file, so call it off the event loop."""
        if not len(batch) or not (batch.counters or batch.gauges):
            return
        if not self._pending:
            self._begun = self._clock.monotonic()
        self._pending.append(batch)
        self.pending_rows += len(batch)
        elapsed = (self._clock.monotonic() - self._begun) / 1e9
        if self.pending_rows >= self._rotate_rows or elapsed >= self._rotate_seconds:
            self.rotate()

    def rotate(self) -> None:
        """Close the open file, if it holds rows."""
        if not self._pending:
            return
        batches, rows = self._pending, self.pending_rows
        self._pending, self.pending_rows = [], 0
        try:
            self.open()
            for group in agreeing(batches):
                self._store(group)
        except (ConfigError, OSError) as error:
            self.counts.failures += 1
            self.counts.lost_rows += rows
            if not self._failing:
                _log.error(
                    "recording failed; trying again at the next rotation",
                    directory=str(self.directory),
                    error=str(error),
                    lost_rows=rows,
                )
            self._failing = True
            return
        if self._failing:
            _log.info("recording again", directory=str(self.directory))
        self._failing = False

    def close(self) -> None:
        """Write what is left and let go of the folder."""
        self.rotate()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _claim(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # The kernel drops the lock with the process, however it ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for leftover in self.directory.glob(".*.tmp"):
                leftover.unlink()
            if self._topology is not None:
                self._replace("topology.json", self._topology.read_bytes())
            self._number = max((_number(file) for file in self._files()), default=0)
            self._describe(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        self._lock = descriptor

    def _store(self, batches: list[Batch]) -> None:
        whole = concat(batches)
        if (whole.time[1:] < whole.time[:-1]).any():
            whole = whole.select(np.argsort(whole.time, kind="stable"))
        number = self._number + 1
        final = self.directory / f"counters-{number:06d}.parquet"
        partial = self.directory / f".{final.name}.tmp"
        try:
            _save(_table(whole, self._ports), partial)
            partial.rename(final)
        except (OSError, pa.ArrowException):
            partial.unlink(missing_ok=True)
            raise
        os.fsync(self._lock)
        self._number = number
        self.counts.files += 1
        self.counts.rows += len(whole)
        self.counts.bytes += final.stat().st_size
        self._sources |= {batch.source for batch in batches}
        first, last = int(whole.time[0]), int(whole.time[-1])
        begin, end = self._span or (first, last)
        self._span = min(begin, first), max(end, last)
        self._describe(self._lock)
        self._forget()

    def _describe(self, descriptor: int) -> None:
        """Write meta.json."""
        content: dict[str, Any] = {
            "name": self.directory.name,
            "note": "recorded by fabriclens",
            "sources": sorted(self._sources),
            "rows": self.counts.rows,
            "files": self.counts.files,
        }
        if self._span is not None:
            content["start"], content["end"] = (_text(time) for time in self._span)
        self._replace("meta.json", orjson.dumps(content, option=orjson.OPT_INDENT_2))
        os.fsync(descriptor)

    def _replace(self, name: str, content: bytes) -> None:
        """Put a small file in place at once, never half written."""
        partial = self.directory / f".{name}.tmp"
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(self.directory / name)

    def _files(self) -> list[Path]:
        return sorted(self.directory.glob("counters-*.parquet"), key=_number)

    def _forget(self) -> None:
        """Remove the oldest files beyond `keep_bytes`; the newest always stays."""
        if self._keep_bytes is None:
            return
        sizes = {file: file.stat().st_size for file in self._files()}
        total = sum(sizes.values())
        for file in list(sizes)[:-1]:
            if total <= self._keep_bytes:
                return
            file.unlink()
            total -= sizes[file]
            self.counts.removed_files += 1


def _number(file: Path) -> int:
    digits = file.stem.removeprefix("counters-")
    return int(digits) if digits.isdecimal() else 0


def _text(time: int) -> str:
    return datetime.fromtimestamp(time / 1e9, tz=UTC).isoformat()


def _table(batch: Batch, ports: PortTable) -> pa.Table:
    """The rows as columns of the trace format; 32-bit counters are kept in 32 bits."""
    used, inverse = np.unique(batch.port, return_inverse=True)
    index = pa.array(inverse.astype(np.int32))
    columns: dict[str, pa.Array] = {"time": pa.array(batch.time).cast(_UTC)}
    for name, names in (("device", ports.devices), ("port", ports.ports)):
        coded = pa.array([names[port] for port in used]).dictionary_encode()
        columns[name] = pa.DictionaryArray.from_arrays(coded.indices.take(index), coded.dictionary)
    for name, values in batch.counters.items():
        columns[name] = _counter(values, batch.valid.get(name), narrow=name in batch.narrow)
    for name, gauge in batch.gauges.items():
        columns[name] = pa.array(gauge, mask=np.isnan(gauge))
    if batch.discontinuity is not None:
        told = pa.array(batch.discontinuity, mask=batch.discontinuity == 0)
        columns[DISCONTINUITY] = told.cast(_UTC)
    return pa.table(columns)


def _counter(values: UInt64s, valid: Bools | None, *, narrow: bool) -> pa.Array:
    absent = None if valid is None else ~valid
    held: UInt64s = values if valid is None else values * valid
    fits = narrow and int(held.max(initial=0)) < 1 << 32
    return pa.array(held.astype(np.uint32) if fits else held, mask=absent)


def _save(table: pa.Table, path: Path) -> None:
    """Write and sync. Neighbouring rows belong to different ports, so plain zstd packs best."""
    pq.write_table(
        table,
        path,
        row_group_size=_ROW_GROUP,
        compression="zstd",
        compression_level=3,
        use_dictionary=["device", "port"],
        column_encoding={"time": "DELTA_BINARY_PACKED"},
        write_page_checksum=True,
        write_statistics=["time"],
    )
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
