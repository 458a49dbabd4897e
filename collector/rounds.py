"""Splits a block into rounds, in which every port has at most one row, in time order.

The counter state is then advanced with plain array arithmetic. Where a port was sampled many times
within one tick and nothing odd happened in between, its rows telescope: the last one says it all.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from collector.block import Block
from collector.record import Bools, Int32s, UInt64s

Base = Callable[[NDArray[np.intp], Int32s], tuple[UInt64s, Bools]]


def rounds(block: Block, foldable: Bools, base: Base) -> Iterator[Block]:
    """The block, sorted by port and time, as rounds.

    foldable: (rows,) the row's port is sampled so fast that its rows may telescope.
    base: gives the last accepted values of counters on ports: a fall at the seam is noticed.
    """
    starts = _starts(block.port)
    if len(starts) == len(block):
        yield block
        return
    if foldable.any():
        block = _fold(block, foldable, starts, base)
        starts = _starts(block.port)
    lengths = np.diff(np.r_[starts, len(block)])
    if len(starts) == len(block):
        yield block
        return
    rank = np.arange(len(block)) - np.repeat(starts, lengths)
    for number in range(int(lengths.max())):
        yield block.select(np.flatnonzero(rank == number))


def _starts(port: Int32s) -> NDArray[np.intp]:
    """Where each port's rows begin."""
    return np.flatnonzero(np.r_[True, port[1:] != port[:-1]])


def _fold(block: Block, foldable: Bools, starts: NDArray[np.intp], base: Base) -> Block:
    """Keep only the last row of every port whose counters rose quietly through the tick.

    A counter that is not in every row counts with its newest value, at the time of the last row.
    """
    lengths = np.diff(np.r_[starts, len(block)])
    values, valid = _carried(block, starts, lengths)
    steady = np.ones(values.shape, np.bool_)
    steady[:, 1:] = (values[:, 1:] >= values[:, :-1]) | ~valid[:, :-1]
    last, known = base(block.counters, block.port[starts])
    steady[:, starts] = (values[:, starts] >= last) | ~known | ~valid[:, starts]
    quiet = foldable & steady.all(axis=0)
    calm = np.logical_and.reduceat(quiet, starts)
    ends = starts + lengths - 1
    calm_rows = np.repeat(calm, lengths)
    keep = ~calm_rows
    keep[ends] = True
    folded = block.folded.copy()
    folded[ends] = np.where(calm, lengths, 1)
    return replace(
        block,
        values=np.where(calm_rows, values, block.values),
        valid=np.where(calm_rows, valid, block.valid),
        folded=folded,
    ).select(np.flatnonzero(keep))


def _carried(
    block: Block, starts: NDArray[np.intp], lengths: NDArray[np.intp]
) -> tuple[UInt64s, Bools]:
    """Values carried forward over absent ones, within each port's rows."""
    if block.valid.all():
        return block.values, block.valid
    rows = np.arange(len(block))
    newest = np.maximum.accumulate(np.where(block.valid, rows, -1), axis=1)
    known = newest >= np.repeat(starts, lengths)
    carried = np.take_along_axis(block.values, np.where(known, newest, rows), axis=1)
    return carried, known
