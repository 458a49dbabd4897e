"""The interfaces of one network namespace, by rtnetlink."""

import math
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.choice import Choice
from collector.clock import Clock
from collector.errors import SourceUnavailable
from collector.links import Link, ask_speed, parse_links
from collector.losses import Losses
from collector.messages import STATS, parse_link_stats
from collector.netlink import RTMGRP_LINK, Rtnetlink, receive_changes
from collector.netns import identity, open_sockets
from collector.qdisc import parse_queues
from collector.reading import Reading
from collector.record import Floats, Int32s, Int64s, UInt64s

REFRESH: Final = 30.0
"""Seconds after which names, states and speeds are asked for again, notified or not."""

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "rx_bytes": ("rx_bytes",),
    "tx_bytes": ("tx_bytes",),
    "rx_packets": ("rx_packets",),
    "tx_packets": ("tx_packets",),
    "rx_errors": ("rx_errors",),
    "tx_errors": ("tx_errors",),
    "rx_discards": ("rx_dropped", "rx_missed_errors"),
    "tx_discards": ("tx_dropped",),
}
"""Canonical counter -> the kernel's fields that are added up for it.

What a device drops for want of buffers stands in rx_missed_errors and not in rx_dropped (kernel,
Documentation/networking/statistics.rst; /proc/net/dev shows their sum). Drops of a queueing
discipline are not discards of the interface: they come with its backlog and are not in tx_dropped.
"""

_COLUMNS: Final = {
    name: [STATS.index(field) for field in fields] for name, fields in COLUMNS.items()
}
_NOBODY: Final = -1
_TRANSITIONAL: Final = re.compile(r"rename\d+")


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a dump's rows become ports; good for as long as the dump lists the same interfaces."""

    interface: Int32s
    rows: NDArray[np.intp]
    names: tuple[str, ...]
    order: NDArray[np.intp]
    ordered: Int32s
    up: Floats
    speed: Floats
    fixed: NDArray[np.bool_]
    discontinuity: Int64s | None


class Interfaces:
    """Reads all interfaces of one namespace; `namespace` None is the process's own.

    Port identity is the interface number here; outside it is the name. Whenever a name comes to
    stand for another interface, or for one that had left it, `discontinuity` marks the moment.
    """

    def __init__(
        self,
        device: str,
        namespace: str | None,
        choice: Choice,
        clock: Clock,
        losses: Losses,
        queues: bool = True,
    ) -> None:
        self.device = device
        self._namespace = namespace
        self._choice = choice
        self._clock = clock
        self._losses = losses
        self._queues = queues
        self._netlink: Rtnetlink | None = None
        self._changes: socket.socket | None = None
        self._identity: tuple[int, int] | None = None
        self._links: dict[int, Link] = {}
        self._speeds: dict[int, float] = {}
        self._refreshed = 0
        self._plan: _Plan | None = None
        self._bound: dict[str, int] = {}
        self._marks: dict[str, int] = {}

    def read(self) -> Reading:
        """One sweep; blocks for as long as the kernel takes. Raises SourceUnavailable."""
        try:
            return self._read(self._opened())
        except SourceUnavailable:
            self.close()
            raise

    def close(self) -> None:
        """Close the sockets; the next read opens new ones."""
        if self._netlink is not None:
            self._netlink.close()
        if self._changes is not None:
            self._changes.close()
        self._netlink = self._changes = None

    def _opened(self) -> Rtnetlink:
        """The socket, opened anew where the namespace was replaced by one of the same name."""
        now = identity(self._namespace) if self._namespace is not None else None
        if self._netlink is None or now != self._identity:
            self.close()
            request, self._changes = open_sockets(self._namespace, (0, RTMGRP_LINK))
            self._netlink = Rtnetlink(request)
            if now != self._identity:
                for index in list(self._links):
                    self._forget(index)
            self._identity = now
            self._refresh(self._netlink)
        return self._netlink

    def _read(self, netlink: Rtnetlink) -> Reading:
        dump = netlink.link_stats()
        time, received = self._clock.now(), self._clock.monotonic()
        if dump.interrupted:
            self._losses.counts["interrupted"] += 1
        interface, stats = parse_link_stats(dump)
        self._follow(netlink)
        plan = self._plan
        if plan is None or not np.array_equal(interface, plan.interface):
            plan = self._plan = self._planned(netlink, interface)
        speed, waiting = self._queued(netlink, plan) if self._queues else (plan.speed, None)
        gauges = {"oper_up": plan.up, "speed_bps": speed}
        if waiting is not None:
            gauges["queue_bytes"] = waiting
        return Reading(
            device=self.device,
            names=plan.names,
            time=np.full(len(plan.names), time, np.int64),
            received=received,
            counters=_counters(stats[plan.rows]),
            gauges=gauges,
            discontinuity=plan.discontinuity,
        )

    def _follow(self, netlink: Rtnetlink) -> None:
        """Take in what changed since the last sweep."""
        stale = self._clock.monotonic() - self._refreshed > REFRESH * 1e9
        changes = None
        if self._changes is not None:
            try:
                changes = receive_changes(self._changes)
            except SourceUnavailable as error:
                if error.reason != "overrun":
                    raise
                stale = True
        if stale:
            self._refresh(netlink)
        elif changes is not None:
            for link in parse_links(changes):
                self._learn(link, netlink)

    def _refresh(self, netlink: Rtnetlink) -> None:
        """Ask for all links."""
        links = parse_links(netlink.links())
        for index in self._links.keys() - {link.index for link in links}:
            self._forget(index)
        for link in links:
            self._learn(link, netlink)
        self._refreshed = self._clock.monotonic()
        self._plan = None

    def _learn(self, link: Link, netlink: Rtnetlink) -> None:
        known = self._links.get(link.index)
        if link.gone or (known is not None and known.name != link.name):
            self._forget(link.index)
        if not link.gone:
            self._links[link.index] = link
            real = ask_speed(netlink.socket, link.name) if link.real else math.nan
            self._speeds[link.index] = real
            self._plan = None

    def _forget(self, index: int) -> None:
        """The interface has left its name; whatever takes the name next is another one."""
        link = self._links.pop(index, None)
        self._speeds.pop(index, None)
        self._plan = None
        if link is not None and self._bound.get(link.name) == index:
            self._bound[link.name] = _NOBODY

    def _planned(self, netlink: Rtnetlink, interface: Int32s) -> _Plan:
        """Ports for the rows of a dump that lists `interface`."""
        if not self._links.keys() >= set(interface.tolist()):
            self._refresh(netlink)
        # An interrupted dump may list an interface twice.
        _, first = np.unique(interface, return_index=True)
        rows, links = [], []
        for row in np.sort(first).tolist():
            link = self._links.get(int(interface[row]))
            if link is None:
                self._losses.add("unknown_interface", f"{self.device}: {interface[row]}")
            elif _TRANSITIONAL.fullmatch(link.name):
                self._losses.add("transitional_name", f"{self.device}: {link.name}")
            elif self._choice.wants(link.name):
                self._bind(link)
                rows.append(row)
                links.append(link)
        return self._assembled(interface, np.array(rows, np.intp), links)

    def _bind(self, link: Link) -> None:
        """The name stands for this interface from now on; mark it where it stood for another."""
        before = self._bound.get(link.name)
        if before is not None and before != link.index:
            self._marks[link.name] = self._clock.now()
        self._bound[link.name] = link.index

    def _assembled(self, interface: Int32s, rows: NDArray[np.intp], links: list[Link]) -> _Plan:
        names = tuple(link.name for link in links)
        set_by_hand = np.array([self._choice.speed(name) for name in names], np.float64)
        told = np.array([self._speeds[link.index] for link in links], np.float64)
        fixed = ~np.isnan(set_by_hand)
        speed = np.where(fixed, set_by_hand, told)
        for link, known in zip(links, ~np.isnan(speed), strict=True):
            if link.real and link.up and not known:
                self._losses.warn("speed_unknown", f"{self.device}: {link.name}", "set speed_bps")
        marks = np.array([self._marks.get(name, 0) for name in names], np.int64)
        order = np.argsort(interface[rows])
        kept = self._plan.names if self._plan is not None else ()
        return _Plan(
            interface=interface,
            rows=rows,
            names=kept if kept == names else names,
            order=order,
            ordered=interface[rows][order],
            up=np.array([link.up for link in links], np.float64),
            speed=speed,
            fixed=fixed,
            discontinuity=marks if marks.any() else None,
        )

    def _queued(self, netlink: Rtnetlink, plan: _Plan) -> tuple[Floats, Floats | None]:
        """(rows,) speed in force, shapers included, and bytes that wait."""
        try:
            queues = parse_queues(netlink.qdiscs())
        except SourceUnavailable as error:
            if error.reason != "unsupported":
                raise
            self._queues = False
            self._losses.add("unsupported", f"{self.device}: queueing disciplines")
            return plan.speed, None
        waiting = np.full(len(plan.names), np.nan)
        if not len(plan.ordered):
            return plan.speed, waiting
        slot = np.minimum(np.searchsorted(plan.ordered, queues.interface), len(plan.ordered) - 1)
        known = plan.ordered[slot] == queues.interface
        row, rate = plan.order[slot[known]], queues.rate[known]
        waiting[row] = queues.backlog[known]
        speed = plan.speed.copy()
        speed[row] = np.where(plan.fixed[row], speed[row], np.fmin(speed[row], rate))
        return speed, waiting


def _counters(stats: UInt64s) -> dict[str, UInt64s]:
    """(rows, fields) of the kernel as canonical columns."""
    return {name: stats[:, fields].sum(axis=1) for name, fields in _COLUMNS.items()}
