"""A tick's batches, joined: one block of counters over rows, sorted by port and time.

Joining before anything is judged makes the result independent of how samples were chunked on the
way, and lets two sources that each know some of a port's counters describe the same instant.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.counters import CUMULATIVE
from collector.record import Batch, Bools, Int32s, Int64s, UInt64s


@dataclass(frozen=True, slots=True)
class Block:
    """Rows (n) by counters (c).

    names: (c,) canonical. counters: (c,) rows of CUMULATIVE. values, valid, narrow: (c, n).
    received: (n,) ns of our monotonic clock, 0 where unknown. alone: (n,) the row came in a batch
    with one row per port, so that its time of arrival is its own. mark: (n,) device-told time of
    the last loss of continuity, 0 where unknown. folded: (n,) samples that a row stands for.
    """

    names: tuple[str, ...]
    counters: NDArray[np.intp]
    port: Int32s
    time: Int64s
    values: UInt64s
    valid: Bools
    narrow: Bools
    received: Int64s
    alone: Bools
    mark: Int64s
    folded: Int64s

    def __len__(self) -> int:
        return len(self.port)

    def select(self, rows: NDArray[np.intp] | slice) -> "Block":
        """The same block with some of its rows."""
        return Block(
            names=self.names,
            counters=self.counters,
            port=self.port[rows],
            time=self.time[rows],
            values=self.values[:, rows],
            valid=self.valid[:, rows],
            narrow=self.narrow[:, rows],
            received=self.received[rows],
            alone=self.alone[rows],
            mark=self.mark[rows],
            folded=self.folded[rows],
        )


def join(batches: Sequence[Batch]) -> tuple[Block, int]:
    """The batches as one block, and how many readings were there twice.

    Rows of the same port and time become one; where both have a counter, the first one stays.
    """
    block = _stacked(batches)
    if (block.port[1:] > block.port[:-1]).all():
        return block, 0
    block = block.select(np.lexsort((block.time, block.port)))
    same = (block.port[1:] == block.port[:-1]) & (block.time[1:] == block.time[:-1])
    return _coalesced(block, same) if same.any() else (block, 0)


def _stacked(batches: Sequence[Batch]) -> Block:
    told = {name for batch in batches for name in batch.counters}
    counters = [row for row, name in enumerate(CUMULATIVE) if name in told]
    names = tuple(CUMULATIVE[row] for row in counters)
    rows = sum(len(batch) for batch in batches)
    values = np.zeros((len(names), rows), np.uint64)
    valid = np.zeros((len(names), rows), np.bool_)
    narrow = np.zeros((len(names), rows), np.bool_)
    received = np.zeros(rows, np.int64)
    alone = np.zeros(rows, np.bool_)
    mark = np.zeros(rows, np.int64)
    start = 0
    for batch in batches:
        part = slice(start, start + len(batch))
        for row, name in enumerate(names):
            if name in batch.counters:
                values[row, part] = batch.counters[name]
                valid[row, part] = batch.valid.get(name, True)
                narrow[row, part] = batch.narrow_rows.get(name, name in batch.narrow)
        if batch.received is not None:
            received[part] = batch.received
            alone[part] = np.bincount(batch.port).max() == 1
        if batch.discontinuity is not None:
            mark[part] = batch.discontinuity
        start = part.stop
    return Block(
        names=names,
        counters=np.array(counters, np.intp),
        port=np.concatenate([batch.port for batch in batches]),
        time=np.concatenate([batch.time for batch in batches]),
        values=values,
        valid=valid,
        narrow=narrow,
        received=received,
        alone=alone,
        mark=mark,
        folded=np.ones(rows, np.int64),
    )


def _coalesced(block: Block, same: Bools) -> tuple[Block, int]:
    starts = np.flatnonzero(np.r_[True, ~same])
    rows = np.arange(len(block))
    first = np.minimum.reduceat(np.where(block.valid, rows, len(rows)), starts, axis=1)
    known = first < len(rows)
    at = np.where(known, first, starts)
    twice = int(block.valid.sum() - known.sum())
    kept = block.select(starts)
    return (
        Block(
            names=kept.names,
            counters=kept.counters,
            port=kept.port,
            time=kept.time,
            values=np.take_along_axis(block.values, at, axis=1),
            valid=known,
            narrow=np.take_along_axis(block.narrow, at, axis=1),
            received=kept.received,
            alone=kept.alone,
            mark=np.maximum.reduceat(block.mark, starts),
            folded=kept.folded,
        ),
        twice,
    )
