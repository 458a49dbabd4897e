"""How long a tick should be for a trace, when nobody says."""

from math import inf
from typing import Final, Literal

from collector.errors import ConfigError

STEPS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)
"""Seconds. Shorter than 100 ms tells no more about a training step than 100 ms does."""


def tick_for(interval: float) -> float:
    """The shortest usual tick that holds at least one sample of every port.

    interval: seconds between the samples of a port, as the trace shows them.
    """
    return next((step for step in STEPS if step >= 0.99 * interval), STEPS[-1])


def parse_duration(text: str) -> float:
    """Seconds in a duration such as `100ms`, `1s`, `0.5` or `1m`; raises ConfigError."""
    units = {"ms": 1e-3, "s": 1.0, "m": 60.0, "": 1.0}
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text.strip()[len(number) :]
    try:
        seconds = float(number) * units[unit]
    except (ValueError, KeyError):
        raise ConfigError(f"{text!r} is no duration; write 100ms, 1s or 30s") from None
    if not 0.01 <= seconds <= 60:
        raise ConfigError(f"{text!r} is outside 10ms to 60s")
    return seconds


def parse_speed(text: str) -> float | Literal["max"]:
    """A replay speed: `max`, or a factor such as `20` or `0.5x`; raises ConfigError."""
    if text == "max":
        return "max"
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        raise ConfigError(f"{text!r} is no speed; write max, or a factor such as 20") from None
    if not 0 < speed < inf:
        raise ConfigError(f"speed {text} must be a number above 0, or max")
    return speed
