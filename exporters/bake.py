"""Baking: one Frame becomes the bytes that every scrape of its tick is answered with.

Runs in the tick's worker thread, never on the event loop.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from analyzer.frame import Frame, Suggestion
from classifier.labels import LABELS
from collector.counters import CUMULATIVE_INDEX
from exporters.catalogue import CATALOGUE, CONGESTED, PREFIX, Metric
from exporters.families import (
    Column,
    PortChoice,
    Rows,
    congested,
    fabric_rows,
    port_columns,
    route_rows,
)
from exporters.selfmetrics import Snapshot
from exporters.sums import DeviceSums, LabelBytes
from exporters.text import Lines, PortLabels, choices, lines, merged, pairs, pieces, samples

Ports = Literal["all", "congested", "none"]

GZIP_LEVEL: Final = 1
"""ISA-L's second level: on exposition text as fast as level 0 and a quarter smaller."""

GZIP_WINDOW: Final = 31
"""The largest window, in a gzip wrapper (zlib's way of saying so)."""


class Form(NamedTuple):
    """How an exposition is sent."""

    openmetrics: bool
    gzip: bool


@dataclass(frozen=True, slots=True)
class BakeSettings:
    """Which series are made.

    ports: per-port series for all ports, only for congested ones, or none; sums always exist.
    max_series: hard limit on the series of one exposition.
    linger_seconds: a port stays among the congested ones for so long after the last time, so that
        its graph does not fall apart and `rate()` keeps working.
    """

    ports: Ports = "all"
    max_series: int = 2_000_000
    linger_seconds: float = 300.0


class Baked:
    """One tick's exposition. Lines are rendered; joining and compressing waits for a reader."""

    def __init__(self, families: Sequence[tuple[Metric, Lines]]) -> None:
        self._families = families
        self._made: dict[Form, bytes] = {}
        self._lock = threading.Lock()
        self.series = sum(body.series for _, body in families)

    def ready(self, form: Form) -> bytes | None:
        """The bytes if they exist already; never blocks."""
        return self._made.get(form)

    def make(self, form: Form) -> bytes:
        """The bytes, made once. Takes long on a big exposition: not for the event loop."""
        with self._lock:
            made = self._made.get(form)
            if made is None:
                parts = pieces(self._families, openmetrics=form.openmetrics)
                made = _compress(parts) if form.gzip else b"".join(parts)
                self._made[form] = made
            return made


def _compress(parts: Sequence[Any]) -> bytes:
    """A gzip member of the parts; the whole text never exists in memory."""
    deflate = isal_zlib.compressobj(GZIP_LEVEL, isal_zlib.DEFLATED, GZIP_WINDOW)
    return b"".join([*(deflate.compress(part) for part in parts), deflate.flush()])


class Baker:
    """Bakes frames of one port table. Holds the label cache, the running sums and the limit."""

    def __init__(self, settings: BakeSettings | None = None) -> None:
        self.settings = settings or BakeSettings()
        self.cap_hits = 0
        self.series_dropped = 0
        self.seconds = 0.0
        self._labels = PortLabels()
        self._receive, self._transmit = DeviceSums(), DeviceSums()
        self._bytes = LabelBytes()
        self._hot_until = np.empty(0, dtype=np.int64)
        self._routes: tuple[tuple[Suggestion, ...] | None, list[tuple[Metric, Lines]]] = (None, [])

    def bake(self, frame: Frame, snapshot: Snapshot | None = None) -> Baked:
        """The exposition of one frame and of the daemon's own snapshot."""
        begin = time.perf_counter()
        small = [*self._sums(frame), *fabric_rows(frame)]
        if snapshot is not None:
            small += [(CATALOGUE[name], rows) for name, rows in snapshot.rows.items()]
        rest = [(metric, samples(metric, rows)) for metric, rows in small]
        rest += self._suggested(frame)
        columns = port_columns(frame)
        budget = self.settings.max_series - sum(body.series for _, body in rest) - _OWN_SERIES
        chosen = self._choose(frame, columns, budget)
        ports = self._render(frame, columns, chosen)
        self.seconds = time.perf_counter() - begin
        series = sum(body.series for _, body in (*ports, *rest)) + _OWN_SERIES
        return Baked([*ports, *rest, *self._own(series)])

    def _sums(self, frame: Frame) -> list[tuple[Metric, Rows]]:
        """Counters that this baker keeps: bytes by class, bytes by device."""
        self._bytes.add(frame)
        traffic = [
            ({"label": label}, value)
            for label, value in zip(LABELS, self._bytes.sums.tolist(), strict=True)
        ]
        result: list[tuple[Metric, Rows]] = [(CATALOGUE[f"{PREFIX}traffic_bytes_total"], traffic)]
        names = frame.fabric.names
        for direction, counter, sums in (
            ("receive", "rx_bytes", self._receive),
            ("transmit", "tx_bytes", self._transmit),
        ):
            row, measured = CUMULATIVE_INDEX[counter], frame.measured
            device, present = frame.fabric.device, measured.present[row]
            owners, totals = sums.of(device, measured.totals[row], present)
            rows = [
                ({"device": names[owner]}, total)
                for owner, total in zip(owners.tolist(), totals.tolist(), strict=True)
            ]
            result.append((CATALOGUE[f"{PREFIX}device_{direction}_bytes_total"], rows))
        return result

    def _suggested(self, frame: Frame) -> list[tuple[Metric, Lines]]:
        """Route families; suggestions rarely change, so their lines are kept until they do."""
        suggestions, bodies = self._routes
        if frame.suggestions is not suggestions:
            bodies = [(metric, samples(metric, rows)) for metric, rows in route_rows(frame)]
            self._routes = frame.suggestions, bodies
        return bodies

    def _choose(self, frame: Frame, columns: Sequence[Column], budget: int) -> NDArray[np.intp]:
        """Ids of the ports that get series: by mode, then congested ones first within the limit."""
        size = len(frame.ports)
        self.series_dropped = 0
        if self.settings.ports == "none":
            return np.empty(0, dtype=np.intp)
        if self.settings.ports == "congested":
            candidates = np.flatnonzero(self._lingering(frame))
        else:
            candidates = np.arange(size, dtype=np.intp)
        if len(candidates) * len(columns) <= budget:
            return candidates
        needed = np.zeros(size, dtype=np.int64)
        for column in columns:
            needed += column.present
        # Ports below the threshold keep the order of their ids: a changing score must not make
        # series come and go.
        score = frame.congestion.score[candidates]
        rank = np.argsort(-np.where(score >= CONGESTED, score, 0.0), kind="stable")
        fits = np.cumsum(needed[candidates[rank]]) <= budget
        self.series_dropped = int(needed[candidates[rank[~fits]]].sum())
        self.cap_hits += self.series_dropped > 0
        return np.sort(candidates[rank[fits]])

    def _lingering(self, frame: Frame) -> NDArray[np.bool_]:
        """(P,) congested now, or not long ago."""
        if len(self._hot_until) < len(frame.ports):
            missing = len(frame.ports) - len(self._hot_until)
            never = np.full(missing, np.iinfo(np.int64).min, dtype=np.int64)
            self._hot_until = np.concatenate([self._hot_until, never])
        until = frame.time + round(self.settings.linger_seconds * 1e9)
        self._hot_until[congested(frame).nonzero()] = until
        return self._hot_until >= frame.time

    def _render(
        self, frame: Frame, columns: Sequence[Column], chosen: NDArray[np.intp]
    ) -> list[tuple[Metric, Lines]]:
        """The port families of the chosen ports; parts of one family stay together."""
        if not len(chosen):
            return []
        labels = self._labels.of(frame.devices, frame.ports)
        everything = len(chosen) == len(labels)
        if not everything:
            labels = labels.take(chosen)
        parts: dict[str, list[Lines]] = {}
        for column in columns:
            rows = slice(None) if everything else chosen
            metric, present = column.metric, column.present[rows]
            if isinstance(column, PortChoice):
                label, codes = metric.labels[-1], column.codes[rows]
                body = choices(metric.name, labels, label, column.options, codes, present)
            else:
                more = pairs((column.more[0],), (column.more[1],)) if column.more else ""
                body = lines(metric.name, labels, column.values[rows], present, more)
            parts.setdefault(metric.name, []).append(body)
        return [(CATALOGUE[name], merged(bodies)) for name, bodies in parts.items()]

    def _own(self, series: int) -> list[tuple[Metric, Lines]]:
        """The baker's own numbers, last: they count everything else."""
        return [
            (CATALOGUE[PREFIX + name], samples(CATALOGUE[PREFIX + name], [({}, value)]))
            for name, value in (
                ("series", series),
                ("series_limit", self.settings.max_series),
                ("series_dropped", self.series_dropped),
                ("series_cap_hits_total", self.cap_hits),
                ("bake_duration_seconds", self.seconds),
            )
        ]


_OWN_SERIES: Final = 5
