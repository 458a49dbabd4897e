"""Baking: what a Frame's series are, which are left out, and that promtool likes them."""

import gzip
import subprocess
from dataclasses import replace
from shutil import which

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from collector.counters import CUMULATIVE_INDEX
from exporters.bake import Baker, BakeSettings, Form
from exporters.catalogue import CATALOGUE
from exporters.selfmetrics import Process, Snapshot, put_build
from tests.exporters.frames import large_frame, small_frame

TEXT = Form(openmetrics=False, gzip=False)
OPENMETRICS = Form(openmetrics=True, gzip=False)


def series_of(text: bytes) -> dict[tuple, float]:
    """(name without prefix, label values in the catalogue's order) -> value."""
    found = {}
    for family in read_text(text.decode()):
        for sample in family.samples:
            labels = CATALOGUE[sample.name].labels
            key = (sample.name.removeprefix("fabriclens_"), *(sample.labels[n] for n in labels))
            assert key not in found
            assert set(sample.labels) == set(labels)
            found[key] = sample.value
    return found


def full_snapshot() -> Snapshot:
    """Every metric of the daemon's own, with odd label values."""
    snapshot = Snapshot()
    for metric in CATALOGUE.values():
        if metric.scope == "self" and not metric.name.startswith(
            ("process_", "fabriclens_series", "fabriclens_bake", "fabriclens_build")
        ):
            labels = dict.fromkeys(metric.labels, 'a "b" \\ c')
            snapshot.put(metric.name.removeprefix("fabriclens_"), 1, **labels)
    put_build(snapshot)
    Process().put(snapshot)
    return snapshot


def baked(frame, snapshot=None, **settings) -> dict[tuple, float]:
    return series_of(Baker(BakeSettings(**settings)).bake(frame, snapshot).make(TEXT))


def test_the_small_frame_series_by_series():
    found = baked(small_frame())
    expected = {
        ("port_transmit_bytes_total", "leaf0", "p0"): 2**53 + 1,
        ("port_receive_bytes_total", "leaf1", "p0"): 30,
        ("port_transmit_stalled_seconds_total", "leaf0", "p0"): 1.5,
        ("port_speed_bytes_per_second", "leaf0", "p0"): 50e9,
        ("port_utilization_ratio", "leaf0", "p1", "transmit"): 0.75,
        ("port_utilization_ratio", "leaf0", "p1", "receive"): 0.5,
        ("port_stalled_ratio", "leaf0", "p1"): 0.5,
        ("port_busy_ratio", "leaf0", "p1"): 1,
        ("port_congestion_score", "leaf0", "p1"): 0.875,
        ("port_congestion_cause", "leaf0", "p1", "none"): 1,
        ("port_traffic_probability", "leaf0", "p0", "gradient_update"): 0.75,
        ("port_traffic_label", "leaf0", "p0", "gradient_update"): 1,
        ("port_traffic_label", "leaf1", "p0", "unknown"): 1,
        ("port_traffic_unknown", "leaf1", "p0", "speed_unknown"): 1,
        ("port_sample_age_seconds", "leaf1", "p1"): 60,
        ("link_avoid", "leaf0", "p1", "degraded"): 1,
        ("route_suggested_weight", "leaf0", "leaf1", "p0"): 4,
        ("route_suggested_weight", "leaf0", "leaf1", "p1"): 0,
        ("route_expected_gain_ratio", "leaf0", "", "leaf1", "set_weights"): 1.25,
        ("ports", "live"): 3,
        ("ports", "silent"): 1,
        ("congested_ports",): 1,
        ("device_ports", "leaf0"): 2,
        ("device_congested_ports", "leaf0"): 1,
        ("device_congestion_score", "leaf1"): 0,
        ("device_transmit_bytes_total", "leaf0"): 2**53 + 1001,
        ("device_receive_bytes_total", "leaf1"): 70,
        ("labelled_ports", "unknown"): 1,
        ("traffic_bytes_total", "gradient_update"): 750,
        ("traffic_bytes_total", "unknown"): 1000,
        ("signal_coverage_ratio", "tx_bytes"): 1,
        ("signal_coverage_ratio", "rx_discards"): 2 / 3,
        ("signal_coverage_ratio", "rdma_reads"): 0,
        ("series_dropped",): 0,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert found[("series",)] == len(found)


def test_what_is_unknown_has_no_series():
    found = baked(small_frame())
    names = {key[0] for key in found}
    assert "port_cnp_sent_total" not in names  # no port has it
    assert ("port_transmit_discards_total", "leaf0", "p0") in found
    assert ("port_transmit_discards_total", "leaf1", "p0") not in found
    assert ("port_speed_bytes_per_second", "leaf1", "p0") not in found
    assert ("port_traffic_unknown", "leaf0", "p0", "") not in found
    silent = {key[0] for key in found if key[1:3] == ("leaf1", "p1")}
    assert silent == {"port_sample_age_seconds"}


def test_a_port_silent_for_over_an_hour_is_not_told_any_more():
    frame = small_frame()
    frame.measured.age[3] = 3601.0
    assert ("port_sample_age_seconds", "leaf1", "p1") not in baked(frame)


def test_bytes_by_class_only_grow():
    baker = Baker()
    baker.bake(small_frame(0))
    frame = small_frame(1)
    # A port whose total stood still adds nothing, whatever rate it shows.
    frame.measured.totals[CUMULATIVE_INDEX["tx_bytes"], 0] -= np.uint64(1000)
    found = series_of(baker.bake(frame).make(TEXT))
    assert found[("traffic_bytes_total", "gradient_update")] == 750
    assert found[("traffic_bytes_total", "all_to_all")] == 2000


def test_every_form_says_the_same():
    one = Baker().bake(small_frame(), full_snapshot())
    assert one.ready(TEXT) is None
    for form in (TEXT, OPENMETRICS):
        packed = one.make(form._replace(gzip=True))
        assert gzip.decompress(packed) == one.make(form)
        assert one.ready(form) is one.make(form)
    flat = sum(len(family.samples) for family in read_openmetrics(one.make(OPENMETRICS).decode()))
    assert flat == one.series == len(series_of(one.make(TEXT)))
    assert one.make(OPENMETRICS).endswith(b"\n# EOF\n")


@pytest.mark.skipif(which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say():
    frame = large_frame(8, counters=tuple(CUMULATIVE_INDEX))
    frame = replace(frame, suggestions=small_frame().suggestions)
    frame.measured.gauges[:] = 1.0
    frame.labels.label[0] = 5
    text = Baker().bake(frame, full_snapshot()).make(TEXT)
    missing = {name for name in CATALOGUE if f"# TYPE {name} ".encode() not in text}
    assert not missing
    verdict = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60, check=False
    )
    assert (verdict.returncode, verdict.stdout, verdict.stderr) == (0, b"", b"")


def test_mode_none_has_sums_only():
    found = baked(small_frame(), ports="none")
    assert not [key for key in found if key[0].startswith("port_")]
    assert found[("device_congested_ports", "leaf0")] == 1
    assert ("link_avoid", "leaf0", "p1", "degraded") in found


def test_mode_congested_lingers():
    baker = Baker(BakeSettings(ports="congested", linger_seconds=2.0))

    def ports_of(frame):
        found = series_of(baker.bake(frame).make(TEXT))
        return {key[1:3] for key in found if key[0].startswith("port_")}

    hot = small_frame(0)
    calm = [small_frame(number) for number in range(4)]
    for frame in calm:
        frame.congestion.score[1] = 0.0
    assert ports_of(calm[0]) == set()
    assert ports_of(hot) == {("leaf0", "p1")}
    assert ports_of(calm[2]) == {("leaf0", "p1")}
    assert ports_of(calm[3]) == set()


def test_the_limit_keeps_congested_ports_and_says_so():
    frame = large_frame(100)
    frame.congestion.score[70] = 0.9
    free = Baker().bake(frame)
    baker = Baker(BakeSettings(max_series=free.series // 2))
    for hits in (1, 2):
        cut = baker.bake(frame)
        found = series_of(cut.make(TEXT))
        assert cut.series == len(found) <= free.series // 2
        assert cut.series > free.series // 2 - 30
        assert found[("series_cap_hits_total",)] == hits
        assert found[("series_dropped",)] == free.series - cut.series
        ports = {key[1:3] for key in found if key[0] == "port_receive_bytes_total"}
        assert (frame.devices[70], frame.ports[70]) in ports
        assert (frame.devices[0], frame.ports[0]) in ports
    whole = series_of(free.make(TEXT))
    assert whole[("series_cap_hits_total",)] == whole[("series_dropped",)] == 0


def test_a_limit_below_the_sums_leaves_the_sums():
    found = baked(large_frame(10), max_series=5)
    assert not [key for key in found if key[0].startswith("port_")]
    assert found[("series_dropped",)] > 0
    assert found[("ports", "live")] == 10


def test_ports_that_come_later_are_added():
    baker = Baker()
    baker.bake(large_frame(3))
    found = series_of(baker.bake(large_frame(5, number=1)).make(TEXT))
    assert len([key for key in found if key[0] == "port_up"]) == 5


def test_no_port_at_all():
    found = baked(large_frame(0))
    assert found[("ports", "live")] == 0


def test_odd_names_survive():
    frame = replace(small_frame(), devices=('le"af', "b\\", "c\n", "ü"), ports=("1", "2", "3", "4"))
    found = baked(frame)
    assert ("port_congestion_score", 'le"af', "1") in found
    assert ("port_congestion_score", "b\\", "2") in found
    assert ("port_congestion_score", "c\n", "3") in found
