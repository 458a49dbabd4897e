"""Queueing disciplines: what waits at each interface, and how fast a shaper drains it.

Layouts are those of the kernel's pkt_sched.h and gen_stats.h.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from collector.messages import Layout, block, layouts
from collector.netlink import NEWQDISC, Dump
from collector.record import Floats, Int32s

_KIND, _OPTIONS, _STATS, _STATS2 = 1, 2, 3, 7
_STATS2_QUEUE: Final = 3
_TBF_PARMS, _TBF_RATE64 = 1, 4
_ROOT: Final = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Queues:
    """Root queueing disciplines: (n,) interface, bytes waiting, and a shaper's rate in bit/s.

    backlog: NaN for `noqueue`, which keeps nothing. rate: of `tbf`, NaN elsewhere.
    """

    interface: Int32s
    backlog: Floats
    rate: Floats


def parse_queues(dump: Dump) -> Queues:
    """The root disciplines of a qdisc dump.

    A root's backlog includes its children's (mq and the classful ones add them up), so children
    are not read at all. Raises SourceUnavailable(reason="malformed").
    """
    starts = dump.only(NEWQDISC, 20)
    starts = starts[dump.words[starts // 4 + 7] == _ROOT]
    columns = [
        (
            block(dump, layout.starts, 20, 1)[:, 0].astype(np.int32),
            _backlog(dump, layout),
            _rate(dump, layout),
        )
        for layout in layouts(dump, starts, 20, named=_KIND, nests=_nests)
        if layout.name != "noqueue"
    ]
    if not columns:
        return Queues(np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
    interface, backlog, rate = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return Queues(interface, backlog, rate)


def _nests(kind: str) -> frozenset[int]:
    """The options of most disciplines are a plain struct, not attributes."""
    return frozenset({_OPTIONS, _STATS2} if kind == "tbf" else {_STATS2})


def _backlog(dump: Dump, layout: Layout) -> Floats:
    """(n,) bytes: from gnet_stats_queue, or from the older tc_stats."""
    for path, skip in (((_STATS2, _STATS2_QUEUE), 4), ((_STATS,), 32)):
        offset, length = layout.places.get(path, (0, 0))
        if length >= skip + 4:
            return block(dump, layout.starts, offset + skip, 1)[:, 0].astype(np.float64)
    return np.full(len(layout.starts), np.nan)


def _rate(dump: Dump, layout: Layout) -> Floats:
    """(n,) bit/s of tc_tbf_qopt: 32 bits of byte/s, or 64 where those are too few."""
    wide, narrow = (layout.places.get((_OPTIONS, name)) for name in (_TBF_RATE64, _TBF_PARMS))
    if wide and wide[1] >= 8:
        return block(dump, layout.starts, wide[0], 2).view(np.uint64)[:, 0].astype(np.float64) * 8
    if narrow and narrow[1] >= 12:
        return block(dump, layout.starts, narrow[0] + 8, 1)[:, 0].astype(np.float64) * 8
    return np.full(len(layout.starts), np.nan)
