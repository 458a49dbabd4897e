"""The machine's own interfaces, those of named network namespaces, and its RDMA ports."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from collector.choice import Choice
from collector.clock import Clock
from collector.dictionary import Dictionary, load_dictionary
from collector.errors import SourceUnavailable
from collector.infiniband import Infiniband
from collector.interfaces import Interfaces
from collector.losses import Losses
from collector.netclass import NetClass
from collector.ports import PortTable
from collector.reading import Reading
from collector.record import Batch, Int32s

_MACHINE: Final = Path("/")
_Speed = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class InterfaceChoice(BaseModel):
    """Shell patterns of interface names."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    include: tuple[str, ...] = Field(default=("*",), description="Only these.")
    exclude: tuple[str, ...] = Field(default=("lo",), description="And none of these.")


class LinuxConfig(BaseModel):
    """What to read of this machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["linux"] = "linux"
    name: str = Field(default="linux", min_length=1, description="Name of the source in metrics.")
    interval: float = Field(default=1.0, ge=0.01, le=3600, description="Seconds between readings.")
    device: str | None = Field(
        default=None, min_length=1, description="Name of this machine; its host name unless set."
    )
    namespaces: tuple[Annotated[str, Field(min_length=1, pattern=r"^[^/]+$")], ...] = Field(
        default=(), description="Named network namespaces, each a device of its own."
    )
    interfaces: InterfaceChoice = Field(
        default=InterfaceChoice(), description="Which network interfaces."
    )
    infiniband: bool = Field(default=True, description="Read RDMA ports (InfiniBand, RoCE, EFA).")
    queues: bool = Field(default=True, description="Read what waits in queueing disciplines.")
    speed_bps: Mapping[str, _Speed] = Field(
        default={}, description="Speeds in bit/s by pattern of port name; they win over drivers'."
    )
    xmit_wait_tick_ns: _Speed | None = Field(
        default=None,
        description="Nanoseconds of one tick of port_xmit_wait; it differs between devices.",
    )
    root: Path = Field(
        default=_MACHINE,
        description="Another root for /sys, as of a recorded tree; interfaces come from it too.",
    )


_Reader = Interfaces | NetClass | Infiniband


class LinuxSource:
    """Reads everything once per `collect`.

    dropped: reason -> how many values, files or namespaces could not be read or believed. One that
    fails leaves the others alone; only where nothing at all can be read is SourceUnavailable
    raised. Sweeps run in a worker thread, since the kernel may make any of them wait.
    """

    def __init__(
        self,
        config: LinuxConfig,
        ports: PortTable,
        clock: Clock,
        dictionary: Dictionary | None = None,
    ) -> None:
        self.config = config
        self.name = config.name
        self.interval: float | None = config.interval
        self._ports = ports
        self._clock = clock
        self._dictionary = dictionary
        self._losses = Losses()
        self.dropped = self._losses.counts
        self._readers: list[_Reader] | None = None
        self._ids: dict[str, tuple[tuple[str, ...], Int32s]] = {}
        self._busy = threading.Lock()

    async def collect(self) -> AsyncIterator[Batch]:
        """One batch for each namespace, and one or more for the RDMA ports."""
        for slot, reading in await asyncio.to_thread(self._sweep):
            if not reading.names:
                continue  # every interface is excluded
            yield reading.batch(self.name, self._port_ids(slot, reading))

    async def close(self) -> None:
        """Close sockets and files; a later `collect` opens them again."""
        await asyncio.to_thread(self._close)

    def _sweep(self) -> list[tuple[str, Reading]]:
        """Every reader's readings, each with a key that stays the same from sweep to sweep."""
        if not self._busy.acquire(blocking=False):
            raise SourceUnavailable("the reading before has not ended", reason="busy")
        try:
            if self._readers is None:
                self._readers = self._made()
            return self._read_all(self._readers)
        finally:
            self._busy.release()

    def _read_all(self, readers: list[_Reader]) -> list[tuple[str, Reading]]:
        found: list[tuple[str, Reading]] = []
        failed: SourceUnavailable | None = None
        for number, reader in enumerate(readers):
            try:
                readings = reader.read()
            except SourceUnavailable as error:
                self._losses.add(error.reason, f"{reader.device}: {error}")
                failed = failed or error
                continue
            several = readings if isinstance(readings, list) else [readings]
            found += [(f"{number}.{part}", r) for part, r in enumerate(several) if r is not None]
        if not found:
            raise failed or SourceUnavailable(
                f"{self.config.root}: neither sys/class/net nor sys/class/infiniband has entries",
                reason="missing",
            )
        return found

    def _made(self) -> list[_Reader]:
        config, clock, losses = self.config, self._clock, self._losses
        device = config.device or socket.gethostname()
        choice = Choice(config.interfaces.include, config.interfaces.exclude, config.speed_bps)
        readers: list[_Reader] = []
        if config.root == _MACHINE:
            readers.append(Interfaces(device, None, choice, clock, losses, config.queues))
        else:
            readers.append(NetClass(config.root, device, choice, clock, losses))
        readers += [
            Interfaces(name, name, choice, clock, losses, config.queues)
            for name in config.namespaces
        ]
        if config.infiniband:
            tick, dictionary = config.xmit_wait_tick_ns, self._dictionary or load_dictionary()
            readers.append(Infiniband(config.root, device, dictionary, choice, clock, losses, tick))
        return readers

    def _port_ids(self, slot: str, reading: Reading) -> Int32s:
        """(rows,) port ids; asked for on the event loop, which alone may number ports."""
        names, ids = self._ids.get(slot, ((), np.zeros(0, np.int32)))
        if names is not reading.names:
            names = reading.names
            numbers = [self._ports.intern(reading.device, name) for name in names]
            ids = np.array(numbers, np.int32)
            self._ids[slot] = names, ids
        return ids

    def _close(self) -> None:
        with self._busy:
            for reader in self._readers or ():
                reader.close()
