"""One step of a cumulative counter: from two readings to a difference, or to the reason for none.

Every rule here is one that collectors in the field got wrong: a restart taken for a wrap (or the
other way round), a subtraction that underflowed, a value no link could have carried.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.record import Bools, Floats, UInt64s

WRAP: Final = 1 << 32
SATURATED: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@dataclass(frozen=True, slots=True)
class Step:
    """Verdicts on a block of readings, arrays of (counters, rows).

    delta: increase since the reading before, 0 where `counts` is false.
    counts: the increase is real and belongs to the running total.
    measures: it may also be divided by its interval (false after a reset).
    rebase: the new reading replaces the old one as the base of the next step.
    impossible: no link carries that much; the reading is set aside as a suspect.
    reset, wrapped, ambiguous, saturated, jitter: why, for the event counters.
    """

    delta: UInt64s
    counts: Bools
    measures: Bools
    rebase: Bools
    impossible: Bools
    reset: Bools
    wrapped: Bools
    ambiguous: Bools
    saturated: Bools
    jitter: Bools


def step(
    before: UInt64s,
    now: UInt64s,
    known: Bools,
    limit: Floats,
    narrow: Bools,
    unseen: Bools,
    broken: Bools,
) -> Step:
    """Compare two readings.

    before, now: (counters, rows) uint64. known: both readings exist. limit: (counters, rows) the
    largest increase that the link can have carried. narrow: (counters, rows) wraps at 2**32.
    unseen: (counters, rows) a narrow counter can have wrapped more than once in the interval.
    broken: (rows,) the device said that continuity was lost in between.

    A fall is a wrap only for a narrow counter, only if the wrapped difference is possible at line
    rate, and not if a wide counter or everything that counts fell with it; else it is a reset.
    After a reset the new reading is what was counted since, so it adds to the total if it is
    possible, but it has no interval to be divided by. A narrow counter that the line rate can wrap
    within one interval says nothing at all.
    """
    saturated = known & (now == SATURATED)
    known = known & ~saturated
    fell = known & (now < before)
    # A sum that the device reads in parts may fall by a trifle; that is no restart.
    jitter = fell & ~narrow & ~broken & (now >= before - before // np.uint64(100))
    known = known & ~jitter
    fell = fell & ~jitter
    # uint64 arithmetic is modular, so the narrow difference only has to be brought back to 32 bits.
    delta = now - before
    ambiguous = known & narrow & unseen
    counting = known & (before > 0)
    all_fell = (fell == counting).all(axis=0) & (fell.sum(axis=0) >= 2)
    together = all_fell | (fell & ~narrow).any(axis=0)
    wrapped = fell & narrow & ~broken & ~together & ~ambiguous
    if wrapped.any():
        narrowed = delta & np.uint64(WRAP - 1)
        wrapped &= (before < WRAP) & (now < WRAP) & (narrowed <= limit)
        delta = np.where(wrapped, narrowed, delta)
    reset = (fell & ~wrapped) | (known & broken)
    rises = known & ~fell & ~broken
    impossible = rises & ~ambiguous & (delta > limit)
    steady = ((rises & ~impossible) | wrapped) & ~ambiguous
    restarted = reset & ~ambiguous & (now <= limit) & fell
    delta = np.where(steady, delta, np.where(restarted, now, np.uint64(0)))
    return Step(
        delta=delta,
        counts=steady | restarted,
        measures=steady,
        rebase=known & ~impossible,
        impossible=impossible,
        reset=reset & ~ambiguous,
        wrapped=wrapped,
        ambiguous=ambiguous,
        saturated=saturated,
        jitter=jitter,
    )


def line_limits(
    counters: tuple[str, ...], speed_bps: Floats, seconds: Floats, slack: Floats
) -> tuple[NDArray[np.float64], Bools]:
    """Largest possible increase of each counter within an interval, and where 32 bits are too few.

    speed_bps: (rows,) line rate, NaN where unknown (then 1.6 Tb/s, the fastest port there is).
    seconds: (counters, rows) interval. slack: (rows,) seconds by which the device's refresh or the
    collector's time stamp may be off. Bytes follow the line rate, packets a line of 64-byte frames,
    times the clock (eight lossless priorities may be summed in one counter).

    Returns two (counters, rows) arrays: the limit, and whether a byte counter of 32 bits could wrap
    more than once at line rate. Packets and events that wrap that fast do not exist in practice.
    """
    rate = np.where(np.isnan(speed_bps), 1.6e12, speed_bps) / 8
    span = seconds * 1.05 + slack
    octets = rate * span + 65536
    limits = octets / 64 + 1000
    for row, name in enumerate(counters):
        if name.endswith("_bytes"):
            limits[row] = octets[row]
        elif name.endswith("_ns"):
            limits[row] = span[row] * 8e9
    are_bytes = np.array([name.endswith("_bytes") for name in counters], np.bool_)
    return limits, are_bytes[:, None] & (rate * seconds >= WRAP)
