"""Our text against prometheus_client: its parsers must read back what was put in."""

import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from exporters.catalogue import CATALOGUE, Metric
from exporters.text import (
    Lines,
    PortLabels,
    choices,
    document,
    escape,
    lines,
    merged,
    number,
    pairs,
    samples,
)

GAUGE = Metric("demo_level", "gauge", "", 'Level with "quotes", \\ and\nnewline.', (), "port")
COUNTER = Metric("demo_size_bytes_total", "counter", "bytes", "Size.", (), "port")

# Lone surrogates have no UTF-8 and are tested apart.
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ['a"b', "a\\b", "a\\nb", "a\nb", "\\", '"', '\\"', "a b", "a}b", "a,b=c", "ü≠€", "\r", "\t#"]
)
floats = st.floats(width=64) | st.sampled_from(
    [
        math.nan,
        math.inf,
        -math.inf,
        -0.0,
        0.0,
        5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
    ]
)
rows = st.lists(st.tuples(names, names, floats), min_size=1, max_size=8)


def same(a: float, b: float) -> bool:
    """Equal to the last bit, any NaN being equal to any other."""
    return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)


def labels_of(table) -> pa.Array:
    return PortLabels().of(tuple(row[0] for row in table), tuple(row[1] for row in table))


def read(text: bytes, *, openmetrics: bool):
    families = (read_openmetrics if openmetrics else read_text)(text.decode())
    return [sample for family in families for sample in family.samples]


@given(rows)
@settings(max_examples=300)
def test_the_official_parser_reads_back_labels_and_values(table):
    values = np.array([row[2] for row in table])
    body = lines("demo_level", labels_of(table), values)
    found = read(document([(GAUGE, body)], openmetrics=False), openmetrics=False)
    assert body.series == len(table) == len(found)
    for sample, (device, port, value) in zip(found, table, strict=True):
        assert sample.labels == {"device": device, "port": port}
        assert same(sample.value, value)


@given(st.lists(st.tuples(names, names, floats), min_size=1, max_size=8, unique_by=lambda r: r[:2]))
def test_the_official_openmetrics_parser_reads_the_same(table):
    values = np.array([row[2] for row in table])
    body = lines("demo_level", labels_of(table), values, more=pairs(("kind",), ("x",)))
    found = read(document([(GAUGE, body)], openmetrics=True), openmetrics=True)
    assert len(found) == len(table)
    for sample, (device, port, value) in zip(found, table, strict=True):
        assert sample.labels == {"device": device, "port": port, "kind": "x"}
        assert same(sample.value, value)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=8), st.booleans())
def test_integers_keep_every_digit(totals, openmetrics):
    table = [("d", str(index)) for index in range(len(totals))]
    body = lines("demo_size_bytes_total", labels_of(table), np.array(totals, dtype=np.uint64))
    text = document([(COUNTER, body)], openmetrics=openmetrics)
    printed = [line.rsplit(b" ", 1)[1] for line in text.splitlines() if not line.startswith(b"#")]
    assert printed == [str(total).encode() for total in totals]
    assert [sample.value for sample in read(text, openmetrics=openmetrics)] == totals


@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_float32_comes_back_as_the_same_float32(values):
    table = [("d", str(index)) for index in range(len(values))]
    body = lines("demo_level", labels_of(table), np.array(values, dtype=np.float32))
    found = read(document([(GAUGE, body)], openmetrics=False), openmetrics=False)
    for sample, value in zip(found, values, strict=True):
        assert same(float(np.float32(sample.value)), value)


@given(st.lists(st.tuples(names, floats, st.booleans()), min_size=1, max_size=8))
def test_what_is_not_present_leaves_no_line(table):
    present = np.array([row[2] for row in table])
    labels = labels_of([(row[0], str(index)) for index, row in enumerate(table)])
    body = lines("demo_level", labels, np.array([row[1] for row in table]), present)
    found = read(document([(GAUGE, body)], openmetrics=False), openmetrics=False)
    assert [sample.labels["port"] for sample in found] == [
        str(index) for index in np.flatnonzero(present)
    ]
    assert body.series == present.sum()


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=8), names)
def test_a_choice_names_the_option_of_its_code(table, odd):
    options = ("plain", odd, "last")
    labels = labels_of([("d", str(index)) for index in range(len(table))])
    codes = np.array([code for code, _ in table], dtype=np.int8)
    present = np.array([there for _, there in table])
    body = choices("demo_level", labels, "kind", options, codes, present)
    found = read(document([(GAUGE, body)], openmetrics=False), openmetrics=False)
    assert [(sample.labels["kind"], sample.value) for sample in found] == [
        (options[code], 1.0) for code, there in table if there
    ]


@given(names, floats | st.integers(-(2**70), 2**70))
def test_small_families_read_back_too(name, value):
    metric = Metric("demo_level", "gauge", "", "Level.", ("name",), "self")
    text = document([(metric, samples(metric, [({"name": name}, value)]))], openmetrics=False)
    (sample,) = read(text, openmetrics=False)
    assert sample.labels == {"name": name}
    assert same(sample.value, float(value))


def test_integers_of_small_families_keep_every_digit():
    assert number(2**64 - 1) == "18446744073709551615"
    assert number(np.uint64(2**53 + 1)) == "9007199254740993"
    assert number(250.0) == "250"


def test_lone_surrogates_become_question_marks():
    assert escape("eth\udcff0") == "eth?0"


def test_labels_are_rendered_once_and_only_for_new_ports():
    cache = PortLabels()
    devices, ports = ("a", "a"), ("1", "2")
    first = cache.of(devices, ports)
    assert cache.of(devices, ports) is first
    assert cache.of((*devices[:1], "a"), (*ports[:1], "2")).equals(first)
    assert cache.rendered == 2
    grown = cache.of((*devices, "b"), (*ports, "1"))
    assert cache.rendered == 3
    assert grown.to_pylist()[2] == 'device="b",port="1"'


def test_another_port_table_renders_anew():
    cache = PortLabels()
    cache.of(("a", "b"), ("1", "1"))
    assert cache.of(("a", "c"), ("1", "1")).to_pylist()[1] == 'device="c",port="1"'
    assert cache.of(("z",), ("1",)).to_pylist() == ['device="z",port="1"']


def test_headers_of_both_formats():
    body = samples(Metric("demo_size_bytes_total", "counter", "", "", (), "self"), [({}, 3)])
    assert document([(COUNTER, body)], openmetrics=False) == (
        b"# HELP demo_size_bytes_total Size.\n"
        b"# TYPE demo_size_bytes_total counter\n"
        b"demo_size_bytes_total 3\n"
    )
    assert document([(COUNTER, body)], openmetrics=True) == (
        b"# HELP demo_size_bytes Size.\n"
        b"# TYPE demo_size_bytes counter\n"
        b"# UNIT demo_size_bytes bytes\n"
        b"demo_size_bytes_total 3\n"
        b"# EOF\n"
    )


@pytest.mark.parametrize("openmetrics", [False, True])
def test_help_is_escaped(openmetrics):
    body = samples(GAUGE, [({}, 1)])
    text = document([(GAUGE, body)], openmetrics=openmetrics)
    (family,) = (read_openmetrics if openmetrics else read_text)(text.decode())
    assert family.documentation == GAUGE.help


def test_nothing_to_say():
    assert document([(GAUGE, Lines((), 0))], openmetrics=False) == b""
    assert document([], openmetrics=True) == b"# EOF\n"
    assert merged([]).series == 0


def test_wrong_labels_are_a_bug():
    metric = CATALOGUE["fabriclens_source_up"]
    for labels in ({}, {"port": "x"}, {"source": "x", "port": "y"}):
        with pytest.raises(KeyError):
            samples(metric, [(labels, 1)])


def test_equal_label_sets_make_one_series():
    metric = CATALOGUE["fabriclens_source_up"]
    body = samples(metric, [({"source": "x"}, 0), ({"source": "x"}, 1)])
    assert body.series == 1
    assert bytes(body.pieces[0]) == b'\nfabriclens_source_up{source="x"} 1'
