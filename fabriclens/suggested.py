"""`fabriclens routes`: the suggestions of a trace or of a daemon; printed, never applied."""

import asyncio
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from analyzer.frame import Frame
from collector.errors import SourceUnavailable
from exporters.documents import suggestion_row
from fabriclens.offline import Replay, replay

_TIMEOUT = 10.0


def routes_of_trace(trace: Path, topology: Path | None = None) -> list[dict[str, Any]]:
    """The suggestions in force at the end of a trace."""
    newest: list[Frame] = []

    def keep(frame: Frame) -> None:
        newest[:] = [frame]

    asyncio.run(replay(Replay(trace=trace, topology=topology), each=keep))
    return [suggestion_row(one) for frame in newest for one in frame.suggestions]


def routes_of_daemon(url: str) -> list[dict[str, Any]]:
    """The suggestions that a daemon serves now; SourceUnavailable where it cannot be asked."""
    target = url.rstrip("/") + "/api/v1/routes"
    try:
        with urllib.request.urlopen(target, timeout=_TIMEOUT) as answer:  # noqa: S310 - operator's URL
            found: list[dict[str, Any]] = orjson.loads(answer.read())["suggestions"]
    except (urllib.error.URLError, OSError, ValueError, KeyError) as error:
        raise SourceUnavailable(f"{target}: {error}; is the daemon running there?") from error
    return found


def print_routes(found: list[dict[str, Any]]) -> None:
    """A table for people."""
    console = Console()
    if not found:
        console.print("no change of routes is suggested")
        return
    table = Table()
    for title in ("kind", "device", "destination", "weights", "reason", "expected gain"):
        table.add_column(title, overflow="fold")
    for one in found:
        weights = ", ".join(f"{port}={weight}" for port, weight in one["weights"].items())
        place = " ".join(filter(None, (one["device"], one["port"])))
        gain = f"{one['expected_gain']:.2f}x"
        table.add_row(one["kind"], place, one["destination"], weights, one["reason"], gain)
    console.print(table)
