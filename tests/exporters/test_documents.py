"""The documents of the API."""

from dataclasses import replace

import orjson

from collector.counters import GAUGE_INDEX
from exporters.documents import (
    congestion_document,
    iso_time,
    ports_document,
    routes_document,
    topology_document,
)
from tests.exporters.frames import START, large_frame, small_frame


def test_times_are_utc():
    assert iso_time(START) == "2023-11-14T22:13:20.000000000Z"


def test_a_port():
    document = ports_document(small_frame(), device="leaf0", port="p0")
    assert document["total"] == 1
    assert document["time"] == iso_time(START)
    row = document["ports"][0]
    assert row | {"totals": None, "confidence": 0} == {
        "device": "leaf0",
        "port": "p0",
        "live": True,
        "age_seconds": 0.25,
        "label": "gradient_update",
        "reason": None,
        "shares": {
            "parameter_sync": 0.25,
            "gradient_update": 0.75,
            "all_to_all": 0,
            "other": 0,
            "idle": 0,
        },
        "confidence": 0,
        "congestion_cause": "none",
        "congestion_evidence": "none",
        "tx_bytes_per_second": 1000,
        "rx_bytes_per_second": 10,
        "speed_bps": 400e9,
        "tx_utilization": 0.5,
        "rx_utilization": 0.25,
        "held": 0,
        "busy": 0.5,
        "congestion_score": 0.125,
        "totals": None,
    }
    assert row["totals"]["tx_bytes"] == 2**53 + 1
    assert "cnp_sent" not in row["totals"]


def test_unknown_is_null_and_silent_ports_say_little():
    unknown, silent = orjson.loads(orjson.dumps(ports_document(small_frame())))["ports"][2:]
    assert unknown["label"] == "unknown"
    assert unknown["reason"] == "speed_unknown"
    assert unknown["speed_bps"] is None
    assert unknown["tx_utilization"] is None
    assert "rx_discards" not in unknown["totals"]
    assert silent["live"] is False
    assert silent["age_seconds"] == 60
    assert "label" not in silent
    assert "congestion_score" not in silent


def test_filters_and_pages():
    frame = small_frame()
    assert ports_document(frame, label="unknown")["total"] == 1
    assert ports_document(frame, label="idle")["total"] == 0  # the idle port is silent
    assert ports_document(frame, device="nowhere")["total"] == 0
    assert ports_document(frame, port="p1", hot=True)["total"] == 1
    page = ports_document(large_frame(100), limit=7, offset=95)
    assert page["total"] == 100
    assert [row["port"] for row in page["ports"]] == [f"Ethernet{n * 4}" for n in range(31, 36)]


def test_congestion_is_worst_first():
    frame = large_frame(10)
    frame.congestion.score[:] = 0.1
    frame.congestion.score[[3, 7, 5]] = [0.6, 0.9, 0.7]
    rows = congestion_document(frame, min_score=0.5, limit=2)["ports"]
    assert [row["port"] for row in rows] == ["Ethernet28", "Ethernet20"]
    assert congestion_document(frame, min_score=0.0, limit=2, device="x")["total"] == 0


def test_routes():
    document = routes_document(small_frame())
    assert document["total"] == 2
    avoid = document["suggestions"][0]
    assert avoid["kind"] == "avoid_link"
    assert avoid["evidence"] == [{"metric": "speed_ratio", "value": 0.25, "threshold": 0.9}]
    assert avoid["since"] == iso_time(START)
    assert routes_document(small_frame(), device="leaf1")["total"] == 0


def test_topology():
    frame = small_frame()
    document = topology_document(frame)
    assert [device["name"] for device in document["devices"]] == ["leaf0", "leaf1"]
    assert document["devices"][0]["role"] == "leaf"
    (link,) = document["links"]
    assert (link["a"]["device"], link["a"]["port"]) == ("leaf0", "p0")
    assert (link["b"]["device"], link["b"]["port"]) == ("leaf1", "p0")
    assert link["state"] == "up"
    assert link["speed_bps"] == 400e9


def test_link_states():
    frame = small_frame()
    up = frame.measured.gauges[GAUGE_INDEX["oper_up"]]
    up[0] = 0.0
    assert topology_document(frame)["links"][0]["state"] == "down"
    up[[0, 2]] = float("nan")
    assert topology_document(frame)["links"][0]["state"] == "unknown"
    up[2] = 1.0
    frame.measured.live[2] = False
    assert topology_document(frame)["links"][0]["state"] == "unknown"
    avoid = replace(frame.suggestions[0], port="p0")
    link = topology_document(replace(frame, suggestions=(avoid,)))["links"][0]
    assert link["a"]["avoid"] == "degraded"
    assert link["b"]["avoid"] is None
