"""What a Frame says, as columns and rows of the catalogue's metrics. No text is made here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from analyzer.frame import CAUSES, Frame
from classifier.labels import LABELS, REASONS, SHARES, UNKNOWN
from collector.counters import CUMULATIVE, CUMULATIVE_INDEX, GAUGES
from collector.record import Bools
from exporters.catalogue import CATALOGUE, CONGESTED, PORT_COUNTERS, PORT_GAUGES, PREFIX, Metric
from exporters.text import Value

SILENT_SECONDS: Final = 3600.0
"""How long the age of a silent port is still told, so that an alert can name it."""

Rows = Sequence[tuple[Mapping[str, str], Value]]


@dataclass(frozen=True, slots=True)
class PortColumn:
    """A value per port (P); `more` is a fixed label beyond device and port."""

    metric: Metric
    values: NDArray[Any]
    present: Bools
    more: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class PortChoice:
    """One of `options` per port (P), told by a label; codes index into the options."""

    metric: Metric
    options: tuple[str, ...]
    codes: NDArray[Any]
    present: Bools


Column = PortColumn | PortChoice


def port_metric(name: str) -> Metric:
    """The port metric of a short name."""
    return CATALOGUE[f"{PREFIX}port_{name}"]


def port_columns(frame: Frame) -> list[Column]:
    """Every port column of a frame, one family after the other; empty columns are left out."""
    columns = [*_counters(frame), *_gauges(frame), *_congestion(frame), *_labels(frame)]
    return [column for column in columns if column.present.any()]


def congested(frame: Frame) -> Bools:
    """(P,) live ports whose congestion score says congested."""
    return frame.measured.live & (frame.congestion.score >= CONGESTED)


def _counters(frame: Frame) -> Iterator[Column]:
    measured = frame.measured
    for metric in PORT_COUNTERS:
        row = CUMULATIVE_INDEX[metric.signal]
        present = measured.present[row] & measured.live
        values: NDArray[Any] = measured.totals[row]
        if metric.unit == "seconds":
            values = values / 1e9
        yield PortColumn(metric, values, present)


def _gauges(frame: Frame) -> Iterator[Column]:
    for metric in PORT_GAUGES:
        yield _finite(metric, frame.measured.gauge(metric.signal), frame.measured.live)


def _congestion(frame: Frame) -> Iterator[Column]:
    found, live = frame.congestion, frame.measured.live
    yield _finite(port_metric("speed_bytes_per_second"), found.speed_bps / 8.0, live)
    utilization = port_metric("utilization_ratio")
    yield _finite(utilization, found.tx_utilization, live, ("direction", "transmit"))
    yield _finite(utilization, found.rx_utilization, live, ("direction", "receive"))
    yield _finite(port_metric("stalled_ratio"), found.held, live)
    yield _finite(port_metric("busy_ratio"), found.busy, live)
    yield _finite(port_metric("congestion_score"), found.score, live)
    known = live & ~np.isnan(found.score)
    yield PortChoice(port_metric("congestion_cause"), CAUSES, found.cause, known)


_NEVER_ASKED: Final = np.isin(
    REASONS,
    ("no_data", "speed_unknown", "too_little_history", "interval_outside_trained_band"),
)


def _labels(frame: Frame) -> Iterator[Column]:
    labels, measured = frame.labels, frame.measured
    # Where the model was not even asked, a share would be invented.
    asked = measured.live & ~_NEVER_ASKED[labels.reason]
    for index, name in enumerate(SHARES):
        share = labels.share[:, index]
        yield _finite(port_metric("traffic_probability"), share, asked, ("label", name))
    yield PortChoice(port_metric("traffic_label"), LABELS, labels.label, measured.live)
    unknown = measured.live & (labels.label == UNKNOWN)
    yield PortChoice(port_metric("traffic_unknown"), REASONS, labels.reason, unknown)
    recent = measured.live | (measured.age <= SILENT_SECONDS)
    yield _finite(port_metric("sample_age_seconds"), measured.age, recent)


def _finite(
    metric: Metric, values: NDArray[Any], live: Bools, more: tuple[str, str] | None = None
) -> PortColumn:
    """A column in which NaN means unknown. Ratios keep the seven digits of a float32."""
    if metric.unit not in {"bytes", "bytes_per_second"}:
        values = values.astype(np.float32, copy=False)
    return PortColumn(metric, values, live & ~np.isnan(values), more)


def route_rows(frame: Frame) -> Iterator[tuple[Metric, Rows]]:
    """The suggestions in force, as the three route families."""
    avoid: list[tuple[Mapping[str, str], Value]] = []
    weights: list[tuple[Mapping[str, str], Value]] = []
    gains: list[tuple[Mapping[str, str], Value]] = []
    for one in frame.suggestions:
        place = {"device": one.device, "destination": one.destination}
        gains.append(({**place, "port": one.port, "kind": one.kind}, one.expected_gain))
        if one.kind == "set_weights":
            weights += [({**place, "via": via}, weight) for via, weight in one.weights]
        else:
            avoid.append(({"device": one.device, "port": one.port, "reason": one.reason}, 1))
    yield CATALOGUE[f"{PREFIX}link_avoid"], avoid
    yield CATALOGUE[f"{PREFIX}route_suggested_weight"], weights
    yield CATALOGUE[f"{PREFIX}route_expected_gain_ratio"], gains


def fabric_rows(frame: Frame) -> Iterator[tuple[Metric, Rows]]:
    """Counts over the fabric and over each device, from this frame alone."""
    live, hot = frame.measured.live, congested(frame)
    names, device = frame.fabric.names, frame.fabric.device
    labels = np.bincount(frame.labels.label[live], minlength=len(LABELS)).tolist()
    score = np.full(len(names), np.nan)
    np.fmax.at(score, device[live], frame.congestion.score[live])
    ports = np.bincount(device[live], minlength=len(names)).tolist()
    hot_ports = np.bincount(device[hot], minlength=len(names)).tolist()
    alive = int(live.sum())
    states = {"live": alive, "silent": len(live) - alive}
    for name, rows in (
        ("ports", [({"state": state}, count) for state, count in states.items()]),
        ("congested_ports", [({}, int(hot.sum()))]),
        ("labelled_ports", _keyed("label", LABELS, labels)),
        ("device_ports", _keyed("device", names, ports)),
        ("device_congested_ports", _keyed("device", names, hot_ports)),
        ("device_congestion_score", _keyed("device", names, score.tolist())),
        ("signal_coverage_ratio", _coverage(frame, alive)),
    ):
        yield CATALOGUE[f"{PREFIX}{name}"], rows


def _coverage(frame: Frame, alive: int) -> Rows:
    """Share of live ports per signal; nothing while no port is live."""
    if not alive:
        return ()
    measured = frame.measured
    counted = (measured.present & measured.live).sum(axis=1).tolist()
    gauged = (~np.isnan(measured.gauges) & measured.live).sum(axis=1).tolist()
    return _keyed("signal", CUMULATIVE + GAUGES, [have / alive for have in counted + gauged])


def _keyed(label: str, names: Sequence[str], values: Sequence[Value]) -> Rows:
    """Rows of one label; NaN is unknown and makes no row."""
    return [
        ({label: name}, value)
        for name, value in zip(names, values, strict=True)
        if value == value  # noqa: PLR0124 - not NaN
    ]
