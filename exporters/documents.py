"""A Frame's findings as plain documents, ready for JSON. Only the asked rows become objects."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from analyzer.frame import CAUSES, EVIDENCE, Frame, Suggestion
from classifier.labels import LABELS, REASONS, SHARES
from collector.counters import CUMULATIVE
from collector.topology import ROLES
from exporters.families import congested

Document = dict[str, Any]
_DRAINING: Final = ("avoid_link", "drain_link")


def iso_time(nanoseconds: int) -> str:
    """Nanoseconds since the epoch as an ISO 8601 time in UTC."""
    return f"{np.datetime64(nanoseconds, 'ns')}Z"


def heading(frame: Frame) -> Document:
    """What every document begins with."""
    return {"number": frame.number, "time": iso_time(frame.time), "seconds": frame.seconds}


def ports_document(
    frame: Frame,
    *,
    device: str | None = None,
    port: str | None = None,
    label: str | None = None,
    hot: bool | None = None,
    limit: int = 1000,
    offset: int = 0,
) -> Document:
    """Ports in the order of their ids, filtered and cut to a page."""
    chosen = np.ones(len(frame.ports), dtype=np.bool_)
    if device is not None:
        chosen &= _of_device(frame, device)
    if label is not None:
        chosen &= frame.measured.live & (frame.labels.label == LABELS.index(label))
    if hot is not None:
        chosen &= congested(frame) == hot
    ids = np.flatnonzero(chosen)
    if port is not None:
        kept = [index for index in ids.tolist() if frame.ports[index] == port]
        ids = np.array(kept, dtype=np.intp)
    return _page(frame, ids, limit, offset)


def congestion_document(
    frame: Frame, *, device: str | None = None, min_score: float, limit: int, offset: int = 0
) -> Document:
    """Live ports of at least this score, worst first."""
    score = frame.congestion.score
    chosen = frame.measured.live & (score >= min_score)
    if device is not None:
        chosen &= _of_device(frame, device)
    ids = np.flatnonzero(chosen)
    worst = ids[np.argsort(-score[ids], kind="stable")]
    return {**_page(frame, worst, limit, offset), "min_score": min_score}


def routes_document(
    frame: Frame, *, device: str | None = None, kind: str | None = None
) -> Document:
    """The suggestions in force."""
    found = [
        suggestion_row(one)
        for one in frame.suggestions
        if device in (None, one.device) and kind in (None, one.kind)
    ]
    return {**heading(frame), "total": len(found), "suggestions": found}


def topology_document(frame: Frame) -> Document:
    """Devices, and cables with the state of either end."""
    fabric, measured, found = frame.fabric, frame.measured, frame.congestion
    avoid = {(s.device, s.port): s.reason for s in frame.suggestions if s.kind in _DRAINING}
    near = np.flatnonzero(fabric.peer > np.arange(len(fabric)))
    ends = np.concatenate([near, fabric.peer[near]])
    columns = zip(
        ends.tolist(),
        measured.live[ends].tolist(),
        measured.gauge("oper_up")[ends].tolist(),
        found.tx_utilization[ends].tolist(),
        found.score[ends].tolist(),
        strict=True,
    )
    sides = [
        {
            "device": frame.devices[index],
            "port": frame.ports[index],
            "state": _state(live, up),
            "tx_utilization": utilization if live else None,
            "congestion_score": score if live else None,
            "avoid": avoid.get((frame.devices[index], frame.ports[index])),
        }
        for index, live, up, utilization, score in columns
    ]
    links = [
        {"a": a, "b": b, "speed_bps": speed, "state": _link_state(a["state"], b["state"])}
        for a, b, speed in zip(
            sides[: len(near)],
            sides[len(near) :],
            fabric.nominal_bps[near].tolist(),
            strict=True,
        )
    ]
    devices = [
        {"name": name, "role": ROLES[role], "site": site}
        for name, role, site in zip(fabric.names, fabric.role.tolist(), fabric.site, strict=True)
    ]
    return {**heading(frame), "devices": devices, "links": links}


def suggestion_row(one: Suggestion) -> Document:
    """One suggestion."""
    return {
        "id": one.id,
        "kind": one.kind,
        "device": one.device,
        "port": one.port,
        "destination": one.destination,
        "weights": dict(one.weights),
        "reason": one.reason,
        "evidence": [
            {"metric": metric, "value": value, "threshold": threshold}
            for metric, value, threshold in one.evidence
        ],
        "expected_gain": one.expected_gain,
        "since": iso_time(one.since),
    }


def port_rows(frame: Frame, ids: NDArray[np.intp]) -> list[Document]:
    """One document per port id; what is unknown, or belongs to a silent port, is None."""
    measured, labels, found = frame.measured, frame.labels, frame.congestion
    live = measured.live[ids]
    floats: Mapping[str, NDArray[Any]] = {
        "confidence": labels.confidence,
        "tx_bytes_per_second": measured.rate("tx_bytes"),
        "rx_bytes_per_second": measured.rate("rx_bytes"),
        "speed_bps": found.speed_bps,
        "tx_utilization": found.tx_utilization,
        "rx_utilization": found.rx_utilization,
        "held": found.held,
        "busy": found.busy,
        "congestion_score": found.score,
    }
    values = {
        name: np.where(live, column[ids].astype(np.float64).round(6), np.nan).tolist()
        for name, column in floats.items()
    }
    shares = labels.share[ids].astype(np.float64).round(6).tolist()
    totals, present = measured.totals[:, ids].T.tolist(), measured.present[:, ids].T.tolist()
    rows: list[Document] = []
    for slot, index in enumerate(ids.tolist()):
        row: Document = {
            "device": frame.devices[index],
            "port": frame.ports[index],
            "live": bool(live[slot]),
            "age_seconds": float(measured.age[index]),
        }
        if live[slot]:
            row["label"] = LABELS[labels.label[index]]
            row["reason"] = REASONS[labels.reason[index]] or None
            row["shares"] = dict(zip(SHARES, shares[slot], strict=True))
            row["congestion_cause"] = CAUSES[found.cause[index]]
            row["congestion_evidence"] = EVIDENCE[found.evidence[index]]
            row |= {name: column[slot] for name, column in values.items()}
        row["totals"] = {
            name: total
            for name, total, have in zip(CUMULATIVE, totals[slot], present[slot], strict=True)
            if have
        }
        rows.append(row)
    return rows


def _page(frame: Frame, ids: NDArray[np.intp], limit: int, offset: int) -> Document:
    return {
        **heading(frame),
        "total": len(ids),
        "limit": limit,
        "offset": offset,
        "ports": port_rows(frame, ids[offset : offset + limit]),
    }


def _of_device(frame: Frame, device: str) -> NDArray[np.bool_]:
    """(P,) ports of the device; none where no device has the name."""
    names = frame.fabric.names
    index = names.index(device) if device in names else -1
    mask: NDArray[np.bool_] = frame.fabric.device == index
    return mask


def _state(live: bool, up: float) -> str:
    """A port's state; a silent port or one without the gauge is unknown."""
    if not live or up != up:  # noqa: PLR0124 - NaN
        return "unknown"
    return "up" if up else "down"


def _link_state(a: str, b: str) -> str:
    """Down if either end says down, up if either end says up."""
    return next((state for state in ("down", "up") if state in (a, b)), "unknown")
