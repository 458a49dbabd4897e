"""Splits a batch into rounds, in which every port has at most one row, in time order.

The counter state is then advanced with plain array arithmetic. Where a port was sampled many times
within one tick and nothing odd happened in between, its rows telescope: the last one says it all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.counters import CUMULATIVE_INDEX
from collector.record import Batch, Bools, Int32s, Int64s, UInt64s

Base = Callable[[NDArray[np.intp], Int32s], tuple[UInt64s, Bools]]


@dataclass(frozen=True, slots=True)
class Round:
    """Rows of distinct ports (n), as a block of counters (c).

    counters: (c,) rows of CUMULATIVE. values, valid: (c, n). folded: (n,) samples that each row
    stands for. alone: the batch held one row per port, so its arrival time is the row's.
    """

    names: tuple[str, ...]
    counters: NDArray[np.intp]
    port: Int32s
    time: Int64s
    values: UInt64s
    valid: Bools
    folded: Int64s
    narrow: frozenset[str]
    received: int | None
    alone: bool
    discontinuity: Int64s | None

    def select(self, rows: NDArray[np.intp]) -> "Round":
        """The same round with some of its rows."""
        return Round(
            names=self.names,
            counters=self.counters,
            port=self.port[rows],
            time=self.time[rows],
            values=self.values[:, rows],
            valid=self.valid[:, rows],
            folded=self.folded[rows],
            narrow=self.narrow,
            received=self.received,
            alone=self.alone,
            discontinuity=None if self.discontinuity is None else self.discontinuity[rows],
        )


def rounds(batch: Batch, foldable: Bools, base: Base) -> Iterator[Round]:
    """The batch as rounds.

    foldable: (rows,) the row's port is sampled so fast that its rows may telescope.
    base: gives the last accepted values of counters on ports, so that a fall at the seam is noticed.
    """
    whole = _whole(batch)
    if np.bincount(batch.port).max() == 1:
        yield whole
        return
    order = np.lexsort((batch.time, batch.port))
    whole, foldable = whole.select(order), foldable[order]
    starts = np.flatnonzero(np.r_[True, whole.port[1:] != whole.port[:-1]])
    if foldable.any():
        whole, starts = _fold(whole, foldable, starts, base)
    lengths = np.diff(np.r_[starts, len(whole.port)])
    rank = np.arange(len(whole.port)) - np.repeat(starts, lengths)
    for number in range(int(lengths.max())):
        yield whole.select(np.flatnonzero(rank == number))


def _whole(batch: Batch) -> Round:
    names = tuple(batch.counters)
    rows = len(batch)
    values = np.empty((len(names), rows), np.uint64)
    valid = np.ones((len(names), rows), np.bool_)
    for row, name in enumerate(names):
        values[row] = batch.counters[name]
        if name in batch.valid:
            valid[row] = batch.valid[name]
    return Round(
        names=names,
        counters=np.array([CUMULATIVE_INDEX[name] for name in names], np.intp),
        port=batch.port,
        time=batch.time,
        values=values,
        valid=valid,
        folded=np.ones(rows, np.int64),
        narrow=batch.narrow,
        received=batch.received,
        alone=bool(rows) and np.bincount(batch.port).max() == 1,
        discontinuity=batch.discontinuity,
    )


def _fold(
    whole: Round, foldable: Bools, starts: NDArray[np.intp], base: Base
) -> tuple[Round, NDArray[np.intp]]:
    """Keep only the last row of every port whose counters rose quietly through the tick.

    A counter that is not in every row counts with its newest value, at the time of the last row.
    """
    values, valid = _carried(whole, starts)
    quiet = foldable.copy()
    quiet[1:] &= (whole.time[1:] > whole.time[:-1]) | (whole.port[1:] != whole.port[:-1])
    steady = np.ones(values.shape, np.bool_)
    steady[:, 1:] = (values[:, 1:] >= values[:, :-1]) | ~valid[:, :-1]
    last, known = base(whole.counters, whole.port[starts])
    steady[:, starts] = (values[:, starts] >= last) | ~known | ~valid[:, starts]
    quiet &= steady.all(axis=0)
    lengths = np.diff(np.r_[starts, len(quiet)])
    calm = np.logical_and.reduceat(quiet, starts)
    ends = starts + lengths - 1
    keep = np.repeat(~calm, lengths)
    keep[ends] = True
    folded = whole.folded.copy()
    folded[ends] = np.where(calm, lengths, 1)
    rows = np.flatnonzero(keep)
    calm_rows = np.repeat(calm, lengths)
    kept = Round(
        names=whole.names,
        counters=whole.counters,
        port=whole.port,
        time=whole.time,
        values=np.where(calm_rows, values, whole.values),
        valid=np.where(calm_rows, valid, whole.valid),
        folded=folded,
        narrow=whole.narrow,
        received=whole.received,
        alone=whole.alone,
        discontinuity=whole.discontinuity,
    ).select(rows)
    return kept, np.flatnonzero(np.r_[True, kept.port[1:] != kept.port[:-1]])


def _carried(whole: Round, starts: NDArray[np.intp]) -> tuple[UInt64s, Bools]:
    """Values carried forward over absent ones, within each port's rows."""
    if whole.valid.all():
        return whole.values, whole.valid
    rows = np.arange(len(whole.port))
    newest = np.maximum.accumulate(np.where(whole.valid, rows, -1), axis=1)
    lengths = np.diff(np.r_[starts, len(rows)])
    known = newest >= np.repeat(starts, lengths)
    carried = np.take_along_axis(whole.values, np.where(known, newest, rows), axis=1)
    return carried, known
