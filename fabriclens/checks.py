"""`fabriclens check`: is a configuration right, and is a daemon alive."""

import os
import urllib.error
import urllib.request
from pathlib import Path

from classifier.store import load
from collector.dictionary import load_dictionary
from collector.errors import ConfigError, SourceUnavailable
from collector.ports import PortTable
from collector.sources.replay import ReplayConfig
from collector.trace import Trace
from fabriclens.config import Config, read_config
from fabriclens.setup import existing, topology_of

_TIMEOUT = 4.0


def check_config(path: Path) -> list[str]:
    """Read everything that a configuration names, connect to nothing; what was found, by line.

    Raises ConfigError (or TraceError) at the first thing that would stop the daemon.
    """
    config = read_config(path)
    topology = topology_of(config)
    lines = [f"  topology: {len(topology.devices)} devices, {len(topology.links)} links"]
    lines.append(_model(config))
    load_dictionary(config.dictionary)
    for source in config.sources:
        about = f"  source {source.name}: {source.kind}"
        if isinstance(source, ReplayConfig):
            trace = Trace.open(existing(source.path), PortTable())
            about += f", {source.path}, {trace.rows} rows, a sample every {trace.interval:.3g} s"
            if trace.ignored:
                about += f", columns not understood: {', '.join(trace.ignored)}"
        lines.append(about)
    if config.record:
        lines.append(_recording(config.record.directory))
    lines.append(f"  would serve on http://{config.http.host}:{config.http.port}/metrics")
    return [f"{path}: valid", *lines]


def _recording(directory: Path) -> str:
    """Whether the folder could be made and written; ConfigError where not."""
    nearest = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(
            f"record.directory: {directory}: {nearest} cannot be written; name another folder"
        )
    return f"  record: into {directory}"


def _model(config: Config) -> str:
    card = load(config.model).card
    return f"  model: {card.name}, trained on {len(card.data)} captures"


def check_live(url: str) -> str:
    """One line about a running daemon; raises SourceUnavailable where it is not healthy."""
    target = url.rstrip("/") + "/readyz"
    if "://" not in target:
        raise ConfigError(f"{url}: is no URL; write http://{url}")
    try:
        with urllib.request.urlopen(target, timeout=_TIMEOUT) as answer:  # noqa: S310 - operator's URL
            return f"{target}: {answer.status}"
    except urllib.error.HTTPError as error:
        reason = error.read().decode(errors="replace")
        raise SourceUnavailable(f"{target}: {error.code}: {reason}") from error
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise SourceUnavailable(f"{target}: {error}; is the daemon running there?") from error
