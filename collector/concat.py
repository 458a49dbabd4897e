"""Batches end to end: rows of several become the rows of one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from collector.counters import CUMULATIVE, GAUGES
from collector.record import Batch, Bools, Floats, Int64s, UInt64s


def concat(batches: Sequence[Batch]) -> Batch:
    """One batch with the rows of all, in the order given; at least one batch.

    A counter that some batches lack is masked in their rows, a gauge is NaN there. A counter stays
    narrow only if every batch that has it says so. Masks that hide nothing are dropped. `received`
    and `source` are those of the first batch.
    """
    first = batches[0]
    if len(batches) == 1:
        return replace(first, valid=_hiding(first))
    counters = [name for name in CUMULATIVE if any(name in batch.counters for batch in batches)]
    gauges = [name for name in GAUGES if any(name in batch.gauges for batch in batches)]
    whole = Batch(
        source=first.source,
        time=np.concatenate([batch.time for batch in batches]),
        port=np.concatenate([batch.port for batch in batches]),
        counters={
            name: np.concatenate([_counter(batch, name) for batch in batches]) for name in counters
        },
        gauges={
            name: np.concatenate([_gauge(batch, name) for batch in batches]) for name in gauges
        },
        valid={
            name: np.concatenate([_mask(batch, name) for batch in batches])
            for name in counters
            if any(name in batch.valid or name not in batch.counters for batch in batches)
        },
        narrow=_narrow(batches),
        received=first.received,
        discontinuity=_discontinuity(batches),
    )
    return replace(whole, valid=_hiding(whole))


def _hiding(batch: Batch) -> dict[str, Bools]:
    return {name: mask for name, mask in batch.valid.items() if not mask.all()}


def _counter(batch: Batch, name: str) -> UInt64s:
    values = batch.counters.get(name)
    return np.zeros(len(batch), np.uint64) if values is None else values


def _gauge(batch: Batch, name: str) -> Floats:
    values = batch.gauges.get(name)
    return np.full(len(batch), np.nan) if values is None else values


def _mask(batch: Batch, name: str) -> Bools:
    mask = batch.valid.get(name)
    return np.full(len(batch), name in batch.counters) if mask is None else mask


def _narrow(batches: Iterable[Batch]) -> frozenset[str]:
    narrow: set[str] = set()
    wide: set[str] = set()
    for batch in batches:
        narrow |= batch.narrow
        wide |= batch.counters.keys() - batch.narrow
    return frozenset(narrow - wide)


def _discontinuity(batches: Sequence[Batch]) -> Int64s | None:
    if all(batch.discontinuity is None for batch in batches):
        return None
    return np.concatenate(
        [
            np.zeros(len(batch), np.int64) if batch.discontinuity is None else batch.discontinuity
            for batch in batches
        ]
    )
