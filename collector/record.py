"""The record contract: what a source hands on.

A source yields a `Batch`: columns over rows, one row per (time, port). No Python object exists
per sample. Whatever a source lacks is absent (masked or NaN), never zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collector.counters import CUMULATIVE_INDEX, GAUGE_INDEX

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples of one source, in canonical names and units.

    time: (rows,) ns since the epoch, UTC, as the source stamped the sample.
    port: (rows,) ids handed out by `collector.ports.PortTable`.
    counters: canonical cumulative name -> (rows,) raw values, as read, before any repair.
    gauges: canonical gauge name -> (rows,) values, NaN where absent.
    valid: counter name -> (rows,) mask; a counter without a mask is present in every row.
    narrow: counters that wrap at 2**32 although they are stored in 64 bits. narrow_rows: the same
        for counters of which that is true in some rows only: name -> (rows,) mask.
    received: ns of our own monotonic clock when the batch arrived; None in replay, where the
        recorded time is all there is. Intervals follow it when the source's clock jumps.
    discontinuity: (rows,) device-told time of the last loss of continuity (IF-MIB
        ifCounterDiscontinuityTime, OpenConfig last-clear), 0 where unknown.
    """

    source: str
    time: Int64s
    port: Int32s
    counters: Mapping[str, UInt64s]
    gauges: Mapping[str, Floats] = field(default_factory=dict)
    valid: Mapping[str, Bools] = field(default_factory=dict)
    narrow: frozenset[str] = frozenset()
    narrow_rows: Mapping[str, Bools] = field(default_factory=dict)
    received: int | None = None
    discontinuity: Int64s | None = None

    def __len__(self) -> int:
        return len(self.time)

    def select(self, rows: slice | Bools | NDArray[np.intp]) -> "Batch":
        """The same batch restricted to some rows."""
        return Batch(
            source=self.source,
            time=self.time[rows],
            port=self.port[rows],
            counters={name: column[rows] for name, column in self.counters.items()},
            gauges={name: column[rows] for name, column in self.gauges.items()},
            valid={name: mask[rows] for name, mask in self.valid.items()},
            narrow=self.narrow,
            narrow_rows={name: mask[rows] for name, mask in self.narrow_rows.items()},
            received=self.received,
            discontinuity=None if self.discontinuity is None else self.discontinuity[rows],
        )

    def check(self) -> None:
        """Raise ValueError where the batch breaks the contract (used by contract tests)."""
        rows = len(self.time)
        if self.time.dtype != np.int64 or self.port.dtype != np.int32 or len(self.port) != rows:
            raise ValueError(f"{self.source}: time must be int64, port int32, of one length")
        for name, column in self.counters.items():
            if name not in CUMULATIVE_INDEX:
                raise ValueError(f"{self.source}: {name} is not a canonical counter")
            if column.dtype != np.uint64 or len(column) != rows:
                raise ValueError(f"{self.source}: counter {name} must be uint64 of {rows} rows")
        for name, values in self.gauges.items():
            if name not in GAUGE_INDEX:
                raise ValueError(f"{self.source}: {name} is not a canonical gauge")
            if values.dtype != np.float64 or len(values) != rows:
                raise ValueError(f"{self.source}: gauge {name} must be float64 of {rows} rows")
        for name, mask in self.valid.items():
            if name not in self.counters or mask.dtype != np.bool_ or len(mask) != rows:
                raise ValueError(f"{self.source}: the mask of {name} does not fit its counter")
