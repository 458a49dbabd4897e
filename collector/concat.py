"""Batches end to end: rows of several become the rows of one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from collector.counters import CUMULATIVE, GAUGES
from collector.record import Batch, Bools, Floats, Int64s, UInt64s


def concat(batches: Sequence[Batch]) -> Batch:
    """One batch with the rows of all, in the order given; at least one batch.

    A counter that some batches lack is masked in their rows, a gauge is NaN there. A counter that
    is narrow in some batches only is so in their rows only. Masks that hide nothing are dropped.
    `received` and `source` are those of the first batch.
    """
    first = batches[0]
    if len(batches) == 1:
        return replace(first, valid=_hiding(first))
    counters = [name for name in CUMULATIVE if any(name in batch.counters for batch in batches)]
    gauges = [name for name in GAUGES if any(name in batch.gauges for batch in batches)]
    narrow, narrow_rows = _narrow(batches)
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
        narrow=narrow,
        narrow_rows=narrow_rows,
        received=first.received,
        discontinuity=_discontinuity(batches),
    )
    return replace(whole, valid=_hiding(whole))


def agreeing(batches: Iterable[Batch]) -> list[list[Batch]]:
    """The batches in groups within which no counter is narrow for some and wide for others."""
    groups: list[tuple[set[str], set[str], list[Batch]]] = []
    for batch in batches:
        narrow, wide = set(batch.narrow), set(batch.counters) - batch.narrow
        fitting = (one for one in groups if not (narrow & one[1] or wide & one[0]))
        group = next(fitting, None)
        if group is None:
            groups.append((narrow, wide, [batch]))
        else:
            group[0].update(narrow)
            group[1].update(wide)
            group[2].append(batch)
    return [members for _, _, members in groups]


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


def _narrow(batches: Iterable[Batch]) -> tuple[frozenset[str], dict[str, Bools]]:
    """Counters that are narrow in all rows, and masks of those that are in some."""
    narrow: set[str] = set()
    wide: set[str] = set()
    for batch in batches:
        narrow |= batch.narrow | batch.narrow_rows.keys()
        wide |= (batch.counters.keys() - batch.narrow) | batch.narrow_rows.keys()
    masks = {
        name: np.concatenate(
            [
                np.broadcast_to(batch.narrow_rows.get(name, name in batch.narrow), len(batch))
                for batch in batches
            ]
        )
        for name in narrow & wide
    }
    return frozenset(narrow - wide), masks


def _discontinuity(batches: Sequence[Batch]) -> Int64s | None:
    if all(batch.discontinuity is None for batch in batches):
        return None
    return np.concatenate(
        [
            np.zeros(len(batch), np.int64) if batch.discontinuity is None else batch.discontinuity
            for batch in batches
        ]
    )
