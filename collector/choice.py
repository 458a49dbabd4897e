"""What an operator wants of a machine's ports."""

import fnmatch
import math
from collections.abc import Iterable, Mapping


class Choice:
    """Which interfaces are wanted (`include` and not `exclude`), and what speeds the operator set.

    The three hold shell patterns of interface names.
    """

    def __init__(
        self, include: Iterable[str], exclude: Iterable[str], speed_bps: Mapping[str, float]
    ) -> None:
        self._include = tuple(include)
        self._exclude = tuple(exclude)
        self._speed_bps = dict(speed_bps)

    def wants(self, name: str) -> bool:
        return _matches(name, self._include) and not _matches(name, self._exclude)

    def speed(self, name: str) -> float:
        """bit/s that the operator gave, else NaN."""
        given = (bps for glob, bps in self._speed_bps.items() if fnmatch.fnmatchcase(name, glob))
        return next(given, math.nan)


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)
