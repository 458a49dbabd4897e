"""What a whole replay came to: ports, ticks, rows, bytes by label, congested ports."""

from typing import Any

import numpy as np

from analyzer.frame import Frame
from classifier.labels import LABELS
from exporters.catalogue import CONGESTED
from exporters.documents import iso_time
from exporters.families import congested
from exporters.sums import LabelBytes


class Summary:
    """Adds up frames; its arrays grow with the port table."""

    def __init__(self) -> None:
        self._devices: tuple[str, ...] = ()
        self._ports: tuple[str, ...] = ()
        self._seen = np.zeros(0, dtype=np.bool_)
        self._worst = np.zeros(0)
        self._ticks_above = np.zeros(0, dtype=np.int64)
        self._bytes = LabelBytes()
        self._ticks = self._rows = 0
        self._begin: int | None = None
        self._end = 0

    def add(self, frame: Frame) -> None:
        """Take in one tick."""
        live = frame.measured.live
        self._devices, self._ports = frame.devices, frame.ports
        missing = len(live) - len(self._seen)
        if missing:
            self._seen = np.concatenate([self._seen, np.zeros(missing, dtype=np.bool_)])
            self._worst = np.concatenate([self._worst, np.zeros(missing)])
            self._ticks_above = np.concatenate([self._ticks_above, np.zeros(missing, np.int64)])
        self._seen |= live
        np.fmax(self._worst, frame.congestion.score, out=self._worst, where=live)
        self._ticks_above += congested(frame)
        self._bytes.add(frame)
        self._ticks += 1
        self._rows += int(live.sum())
        if self._begin is None:
            self._begin = frame.time - round(frame.seconds * 1e9)
        self._end = frame.time

    def document(self) -> dict[str, Any]:
        """The sums so far; congested ports worst first."""
        hot = np.flatnonzero(self._ticks_above)
        order = np.lexsort((-self._ticks_above[hot], -self._worst[hot]))
        return {
            "from": None if self._begin is None else iso_time(self._begin),
            "to": None if self._begin is None else iso_time(self._end),
            "ports": int(self._seen.sum()),
            "ticks": self._ticks,
            "rows": self._rows,
            "bytes_by_label": dict(
                zip(LABELS, (round(value) for value in self._bytes.sums.tolist()), strict=True)
            ),
            "congestion_threshold": CONGESTED,
            "congested_ports": [
                {
                    "device": self._devices[index],
                    "port": self._ports[index],
                    "max_score": round(float(self._worst[index]), 6),
                    "ticks_congested": int(self._ticks_above[index]),
                }
                for index in hot[order].tolist()
            ],
        }
