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

    Counters that are absent from that row are kept in the row that has them last, provided that it
    is the same one: every value stays with its own time. A byte counter of 32 bits may wrap several
    times within a tick, so its port keeps all rows.
    """
    lengths = np.diff(np.r_[starts, len(block)])
    ends = starts + lengths - 1
    values, valid, newest = _carried(block, starts, lengths)
    steady = np.ones(values.shape, np.bool_)
    steady[:, 1:] = (values[:, 1:] >= values[:, :-1]) | ~valid[:, :-1]
    last, known = base(block.counters, block.port[starts])
    steady[:, starts] = (values[:, starts] >= last) | ~known | ~valid[:, starts]
    octets = np.array([name.endswith("_bytes") for name in block.names], np.bool_)
    quiet = foldable & steady.all(axis=0) & ~block.narrow[octets].any(axis=0)
    # Where each port's counters were last told, other than in its last row.
    elsewhere = valid[:, ends] & ~block.valid[:, ends]
    place = np.where(elsewhere, newest[:, ends], -1).max(axis=0, initial=-1)
    agreed = (~elsewhere | (newest[:, ends] == place)).all(axis=0)
    calm = np.logical_and.reduceat(quiet, starts) & agreed
    extra = calm & (place >= 0)
    keep = ~np.repeat(calm, lengths)
    keep[ends] = True
    keep[place[extra]] = True
    folded = block.folded.copy()
    folded[ends[calm]] = lengths[calm]
    folded[place[extra]] = (place - starts + 1)[extra]
    folded[ends[extra]] = (ends - place)[extra]
    told = block.valid.copy()
    told[:, place[extra]] &= elsewhere[:, extra]
    return replace(block, valid=told, folded=folded).select(np.flatnonzero(keep))


def _carried(
    block: Block, starts: NDArray[np.intp], lengths: NDArray[np.intp]
) -> tuple[UInt64s, Bools, NDArray[np.intp]]:
    """Values carried forward over absent ones within each port's rows, and the rows they are of."""
    rows = np.arange(len(block))
    if block.valid.all():
        return block.values, block.valid, np.broadcast_to(rows, block.values.shape)
    newest = np.maximum.accumulate(np.where(block.valid, rows, -1), axis=1)
    known = newest >= np.repeat(starts, lengths)
    carried = np.take_along_axis(block.values, np.where(known, newest, rows), axis=1)
    return carried, known, newest
