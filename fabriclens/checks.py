"""`fabriclens check`: is a configuration right, and is a daemon alive."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from classifier.store import load
from collector.dictionary import load_dictionary
from collector.errors import SourceUnavailable
from collector.ports import PortTable
from collector.sources.replay import ReplayConfig
from collector.trace import Trace
from fabriclens.config import Config, read_config
from fabriclens.setup import topology_of

_TIMEOUT = 4.0


def check_config(path: Path) -> Iterator[str]:
    """Read everything that a configuration names, connect to nothing; yields what was found.

    Raises ConfigError (or TraceError) at the first thing that would stop the daemon.
    """
    config = read_config(path)
    topology = topology_of(config)
    yield f"{path}: valid"
    yield f"  topology: {len(topology.devices)} devices, {len(topology.links)} links"
    yield from _model(config)
    load_dictionary(config.dictionary)
    for source in config.sources:
        about = f"  source {source.name}: {source.kind}"
        if isinstance(source, ReplayConfig):
            trace = Trace.open(source.path, PortTable())
            about += f", {source.path}, {trace.rows} rows, a sample every {trace.interval:.3g} s"
            if trace.ignored:
                about += f", columns not understood: {', '.join(trace.ignored)}"
        yield about
    yield f"  would serve on http://{config.http.host}:{config.http.port}/metrics"


def _model(config: Config) -> Iterator[str]:
    card = load(config.model).card
    yield f"  model: {card.name}, trained on {len(card.data)} captures"


def check_live(url: str) -> str:
    """One line about a running daemon; raises SourceUnavailable where it is not healthy."""
    target = url.rstrip("/") + "/healthz"
    try:
        with urllib.request.urlopen(target, timeout=_TIMEOUT) as answer:  # noqa: S310 - operator's URL
            return f"{target}: {answer.status}"
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise SourceUnavailable(f"{target}: {error}; is the daemon running there?") from error
