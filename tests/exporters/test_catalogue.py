"""The catalogue keeps its own rules, and the page of metrics follows it."""

import re
from pathlib import Path

import pytest

from collector.counters import CANONICAL, CUMULATIVE
from exporters.catalogue import CATALOGUE, PORT_COUNTERS, PREFIX, SECTIONS, markdown

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_page_is_the_one_the_catalogue_makes():
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert page == markdown(), "run: python -m exporters.catalogue > docs/metrics.md"


@pytest.mark.parametrize("metric", CATALOGUE.values(), ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
    assert metric.name.startswith((PREFIX, "process_"))
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    # OpenMetrics demands that the family's name ends in its unit.
    assert metric.name.removesuffix("_total").endswith(metric.unit)
    assert metric.help.endswith(".")
    assert "\n" not in metric.help
    assert metric.scope in dict(SECTIONS)
    assert len(set(metric.labels)) == len(metric.labels)
    if metric.scope == "port":
        assert metric.labels[:2] == ("device", "port")
    assert not metric.signal or metric.signal in CANONICAL


def test_every_counter_of_the_contract_leaves():
    assert {metric.signal for metric in PORT_COUNTERS} == set(CUMULATIVE)


def test_every_metric_is_on_the_page_once():
    page = markdown()
    assert all(page.count(f"| `{name}` |") == 1 for name in CATALOGUE)
