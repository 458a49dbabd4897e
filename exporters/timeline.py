"""The life of every suggestion: when it appeared, how it ended, what is in force."""

from typing import Any

from analyzer.frame import Frame, Suggestion
from exporters.documents import iso_time, suggestion_row


class Timeline:
    """Follows the suggestions from frame to frame."""

    def __init__(self) -> None:
        self._newest: tuple[Suggestion, ...] = ()
        self._now = 0
        self._open: dict[tuple[str, int], dict[str, Any]] = {}
        self._history: list[dict[str, Any]] = []

    def add(self, frame: Frame) -> None:
        """Note what appeared, changed or was withdrawn with this frame."""
        self._now = frame.time
        if frame.suggestions == self._newest:
            return
        self._newest = frame.suggestions
        current: dict[tuple[str, int], dict[str, Any]] = {}
        for one in frame.suggestions:
            # One that comes back after a while has the same id and a new beginning.
            key = (one.id, one.since)
            entry = self._open.get(key)
            if entry is None:
                entry = {"appeared": iso_time(one.since), "withdrawn": None}
                self._history.append(entry)
            entry |= suggestion_row(one)
            current[key] = entry
        for key, entry in self._open.items():
            if key not in current:
                entry["withdrawn"] = iso_time(frame.time)
        self._open = current

    def in_force(self) -> list[dict[str, Any]]:
        """The suggestions of the newest frame."""
        return [suggestion_row(one) for one in self._newest]

    def document(self) -> dict[str, Any]:
        """The contents of `routes.json`."""
        return {
            "time": iso_time(self._now) if self._now else None,
            "suggestions": self.in_force(),
            "history": self._history,
        }
