"""What is sent for which Accept and Accept-Encoding."""

import pytest

from exporters.negotiate import content_type, negotiate

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
        (PROMETHEUS, True),
        ("application/openmetrics-text", True),
        ("Application/OpenMetrics-Text; Version=1.0.0; charset=utf-8", True),
        ('application/openmetrics-text; version="1.0.0"', True),
        ("application/openmetrics-text;version=2.0.0", False),
        ("application/openmetrics-text;version=2.0.0,text/plain;q=0.1", False),
        ("application/openmetrics-text;q=0.3,text/plain;q=0.5", False),
        ("application/openmetrics-text;q=0.5,text/plain;q=0.3", True),
        ("application/openmetrics-text;q=0.3,text/plain;version=1.0.0;q=0.9", True),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=nonsense", False),
        ("application/openmetrics-text;q=nan", False),
        ("application/openmetrics-text;q=7", False),
        (",;,=;q", False),
    ],
)
def test_accept(accept, openmetrics):
    form = negotiate(accept, "")
    assert form.openmetrics is openmetrics
    assert not form.gzip
    assert content_type(form).startswith("application/openm" if openmetrics else "text/plain")


@pytest.mark.parametrize(
    ("encoding", "gzip"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("*", True),
        ("*;q=0", False),
        ("identity", False),
        ("br", False),
    ],
)
def test_accept_encoding(encoding, gzip):
    assert negotiate("", encoding).gzip is gzip
