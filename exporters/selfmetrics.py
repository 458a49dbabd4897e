"""The daemon's own numbers: a plain snapshot, filled once per tick, rendered like all the rest."""

import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from exporters.catalogue import CATALOGUE, PREFIX
from exporters.text import Value

try:
    import resource
except ImportError:  # pragma: no cover - not a Unix
    resource = None  # type: ignore[assignment]

PROC: Final = Path("/proc/self")


class Snapshot:
    """Metric name -> rows of (labels, value). Names and labels are checked when they are put in.

    Names are without the prefix `fabriclens_`, except those of `process_`.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Mapping[str, str], Value]]] = {}

    def put(self, name: str, value: Value, **labels: str) -> None:
        """Add one value; KeyError where the catalogue has no such metric or other labels."""
        full = name if name.startswith("process_") else PREFIX + name
        metric = CATALOGUE[full]
        if metric.scope != "self" or set(labels) != set(metric.labels):
            raise KeyError(f"{full} is of scope {metric.scope} with the labels {metric.labels}")
        self.rows.setdefault(full, []).append((labels, value))

    def put_counts(self, name: str, label: str, counts: Mapping[str, int], **labels: str) -> None:
        """Add one value per key of a counter dict, the key being the value of `label`."""
        for key, count in counts.items():
            self.put(name, count, **{label: key}, **labels)


def put_build(snapshot: Snapshot) -> None:
    """Which version runs, on which Python."""
    snapshot.put("build_info", 1, version=_version(), python=sys.version.split()[0])


@cache
def _version() -> str:
    try:
        return version("fabriclens")
    except PackageNotFoundError:
        return "unknown"


class Process:
    """Memory, CPU and descriptors of this process from /proc; absent where there is no /proc."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._boot: float | None = None

    def put(self, snapshot: Snapshot) -> None:
        """Add the standard `process_` metrics."""
        try:
            stat = (self._proc / "stat").read_text()
            descriptors = sum(1 for _ in (self._proc / "fd").iterdir())
            boot = self._boot_time()
        except OSError:
            return
        # The command name may hold spaces and parentheses: fields are counted after the last one.
        fields = stat.rpartition(")")[2].split()
        user, system, threads = int(fields[11]), int(fields[12]), int(fields[17])
        snapshot.put("process_cpu_seconds_total", (user + system) / self._ticks)
        snapshot.put("process_threads", threads)
        snapshot.put("process_start_time_seconds", boot + int(fields[19]) / self._ticks)
        snapshot.put("process_virtual_memory_bytes", int(fields[20]))
        snapshot.put("process_resident_memory_bytes", int(fields[21]) * self._page)
        snapshot.put("process_open_fds", descriptors)
        if resource is not None:
            snapshot.put("process_max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def _boot_time(self) -> float:
        if self._boot is None:
            text = (self._proc.parent / "stat").read_text()
            self._boot = float(text.partition("btime ")[2].split()[0])
        return self._boot
