"""Made-up traffic for the tests: exact rates of a known pattern, as `Measured` ticks."""

from collections.abc import Callable

import numpy as np

from collector.counters import CUMULATIVE, CUMULATIVE_INDEX, GAUGES
from collector.measured import Measured

START = 1_700_000_000_000_000_000
SPEED = 100e9


def steps(time, *, on=2.0, off=3.0):
    """(seconds) of activity between 0 and `time` of a port that is on, then off, in turns."""
    whole, rest = np.divmod(time, on + off)
    return whole * on + np.minimum(rest, on)


def tick(
    end: float,
    seconds: float,
    out,
    inn,
    *,
    speed: float = SPEED,
    fresh=True,
    live=True,
    interval: float = 0.01,
) -> Measured:
    """One tick that ends `end` seconds after the start, with (P,) utilisations per direction."""
    out, inn = np.atleast_1d(np.asarray(out, float)), np.atleast_1d(np.asarray(inn, float))
    size = len(out)
    rates = np.full((len(CUMULATIVE), size), np.nan)
    for name, value in (("tx_bytes", out), ("rx_bytes", inn)):
        rates[CUMULATIVE_INDEX[name]] = value * speed / 8
    for name, value in (("tx_packets", out), ("rx_packets", inn)):
        rates[CUMULATIVE_INDEX[name]] = value * speed / 8 / 4000
    ones = np.ones(size, dtype=bool)
    return Measured(
        time=START + round(end * 1e9),
        seconds=seconds,
        rates=rates,
        totals=np.zeros((len(CUMULATIVE), size), np.uint64),
        present=~np.isnan(rates),
        gauges=np.full((len(GAUGES), size), np.nan),
        fresh=ones & fresh,
        live=ones & live,
        age=np.zeros(size),
        interval=np.full(size, interval),
        events={},
    )


def play(
    feed: Callable[[Measured], object],
    *,
    seconds: float,
    until: float,
    speed: float = SPEED,
    on: float = 2.0,
    off: float = 3.0,
) -> object:
    """Feed ticks of three ports in step (in both directions, mostly out, mostly in)."""
    result = None
    for number in range(1, round(until / seconds) + 1):
        end = number * seconds
        moved = (steps(end, on=on, off=off) - steps(end - seconds, on=on, off=off)) / seconds
        out = np.array([0.8, 0.6, 0.1]) * moved
        inn = np.array([0.8, 0.1, 0.6]) * moved
        result = feed(tick(end, seconds, out, inn, speed=speed))
    return result
