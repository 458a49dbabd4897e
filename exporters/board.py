"""The board: where the tick pins its newest result, and where every reader finds it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from analyzer.frame import Frame
from exporters.bake import Baked, Form


@dataclass(frozen=True, slots=True)
class Notice:
    """A frame, its exposition, and when they were pinned (seconds of the monotonic clock)."""

    frame: Frame
    baked: Baked
    published: float


class Board:
    """Holds the newest frame. `publish` is the tick thread's, everything else is for readers.

    stale_after: seconds without a new frame after which the board is stale; a tick that is longer
    than a third of that gets three times its own length.
    """

    def __init__(self, stale_after: float = 15.0, now: Callable[[], float] = monotonic) -> None:
        self._stale_after = stale_after
        self._now = now
        self._notice: Notice | None = None
        self._asked: set[Form] = set()
        self._lock = threading.Lock()

    @property
    def newest(self) -> Notice | None:
        """The newest notice, replaced as a whole; None before the first tick."""
        return self._notice

    def publish(self, frame: Frame, baked: Baked) -> None:
        """Pin a new result.

        The forms asked for since the one before are made here, in the caller's thread. A form that
        is scraped less often than ticks come is made when it is asked for instead.
        """
        with self._lock:
            asked, self._asked = self._asked, set()
        for form in asked:
            baked.make(form)
        self._notice = Notice(frame, baked, self._now())

    def ask(self, form: Form) -> None:
        """Note that a reader wants this form."""
        with self._lock:
            self._asked.add(form)

    def problem(self) -> str:
        """Why the board should not be relied on, or nothing."""
        notice = self._notice
        if notice is None:
            return "no tick has finished yet"
        age = self._now() - notice.published
        limit = max(self._stale_after, 3.0 * notice.frame.seconds)
        if age > limit:
            return f"the newest frame is {age:.1f} s old, more than {limit:.1f} s"
        return ""
