"""What a client accepts: the `Accept` and `Accept-Encoding` headers, with their weights."""

from collections.abc import Iterator
from typing import Final

from exporters.bake import Form

OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_OPENMETRICS_VERSIONS: Final = ("", "0.0.1", "1.0.0")
_TEXT_VERSIONS: Final = ("", "0.0.4")


def negotiate(accept: str, accept_encoding: str) -> Form:
    """The form to answer with.

    OpenMetrics must be named, in a version spoken here, with at least the weight of plain text.
    A client that accepts neither gets plain text, as every exporter does.
    """
    openmetrics, text = 0.0, 0.0
    for kind, parameters, weight in _entries(accept):
        version = parameters.get("version", "")
        if kind == "application/openmetrics-text" and version in _OPENMETRICS_VERSIONS:
            openmetrics = max(openmetrics, weight)
        elif kind == "text/plain" and version in _TEXT_VERSIONS:
            text = max(text, weight)
    return Form(openmetrics=0.0 < openmetrics >= text, gzip=_takes_gzip(accept_encoding))


def content_type(form: Form) -> str:
    """The Content-Type of a form."""
    return OPENMETRICS_TYPE if form.openmetrics else TEXT_TYPE


def _takes_gzip(header: str) -> bool:
    """Whether gzip is welcome: named, or covered by `*`, with a weight above zero."""
    weights = {kind: weight for kind, _, weight in _entries(header)}
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0.0


def _entries(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """(name, parameters, weight) of each entry; a weight that is no number counts as 0."""
    for entry in header.split(","):
        name, *rest = (part.strip() for part in entry.split(";"))
        if not name:
            continue
        parameters: dict[str, str] = {}
        for part in rest:
            key, _, value = part.partition("=")
            parameters[key.strip().lower()] = value.strip().strip('"')
        try:
            weight = float(parameters.get("q", "1"))
        except ValueError:
            weight = 0.0
        yield name.lower(), parameters, weight if 0.0 <= weight <= 1.0 else 0.0
