"""Increases that are too much for their own interval, because the device refreshed late."""

import numpy as np

from collector.block import Block
from collector.deltas import line_limits
from collector.intervals import Timing
from collector.record import Bools, Floats, Int64s, UInt64s


def reach_back(
    part: Block,
    seen: Bools,
    before: UInt64s,
    limit: Floats,
    elapsed: Int64s,
    timing: Timing,
    speed_bps: Floats,
) -> tuple[Floats, Int64s]:
    """(counters, rows) limits and intervals in ns, longer where an increase needs it.

    An increase that the line cannot have carried since the last reading belongs to all the time
    since the counter last moved; and, since that move was seen late as well, to as much more,
    within one reading, as the line takes to carry it. What is too much even then keeps its limit.
    """
    rise = part.values - before
    late = seen & (part.values >= before) & (rise > limit)
    if not late.any():
        return limit, elapsed
    waited = np.maximum(elapsed, np.round(timing.quiet * 1e9).astype(np.int64))
    fair, _ = line_limits(part.names, speed_bps, waited / 1e9, timing.slack)
    most, _ = line_limits(part.names, speed_bps, waited / 1e9, timing.slack + timing.reach)
    late &= rise <= most
    longer = waited * np.where(late, np.maximum(rise / fair, 1.0), 1.0)
    return np.where(late, most, limit), np.where(late, longer.astype(np.int64), elapsed)
