"""What could not be read, by reason: counted every time, named in the log once."""

from collections import Counter
from typing import Final

import structlog

_log = structlog.get_logger(__name__)
_MOST: Final = 10_000


class Losses:
    """`counts`: reason -> how often. What is named is remembered, so that a log stays short."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._named: set[tuple[str, str]] = set()

    def add(self, reason: str, what: str, remedy: str = "", count: int = 1) -> None:
        """Count a loss; the first time, log what was lost and what can be done about it."""
        self.counts[reason] += count
        self.warn(reason, what, remedy)

    def warn(self, reason: str, what: str, remedy: str = "") -> None:
        """Say once, without counting."""
        if (reason, what) not in self._named:
            if len(self._named) >= _MOST:
                self._named.clear()
            self._named.add((reason, what))
            _log.warning("not read", reason=reason, what=what, remedy=remedy)
