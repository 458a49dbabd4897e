"""The fabric's shape: devices, their roles and links, as arrays that follow the port table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collector.errors import ConfigError
from collector.ports import PortTable
from collector.record import Bools, Floats, Int32s

Role = Literal["unknown", "host", "leaf", "spine", "core", "wan"]
ROLES: Final[tuple[Role, ...]] = ("unknown", "host", "leaf", "spine", "core", "wan")
HOST, LEAF, SPINE = ROLES.index("host"), ROLES.index("leaf"), ROLES.index("spine")


class Device(BaseModel):
    """One box of the fabric; further keys (rail, plane, pod ...) are kept for later readers."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str = Field(min_length=1)
    role: Role = "unknown"
    site: str = ""


class End(BaseModel):
    """One end of a link."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    device: str
    port: str


class Link(BaseModel):
    """A cable: two ends and the design speed of each direction, in bits per second."""

    model_config = ConfigDict(extra="allow", frozen=True)
    a: End
    b: End
    speed_bps: float | None = Field(default=None, gt=0)


class Topology(BaseModel):
    """The contents of a `topology.json`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class Fabric:
    """The topology as columns over ports (P) and devices (D).

    device: (P,) index into `names`, every port has one. peer: (P,) port id at the other end of the
    cable, -1 where unknown. nominal_bps: (P,) design speed, NaN where unknown.
    names, role, site: (D,) of each device; role is an index into ROLES.
    """

    device: Int32s
    peer: Int32s
    nominal_bps: Floats
    names: tuple[str, ...]
    role: Int32s
    site: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.device)

    def port_role(self) -> Int32s:
        """(P,) role of the device that each port belongs to."""
        roles: Int32s = self.role[self.device]
        return roles

    def faces_host(self) -> Bools:
        """(P,) True on switch ports cabled to a host: what they send is what it receives."""
        peers = self.peer_device()
        faces = (peers >= 0) & (self.role[peers] == HOST)
        result: Bools = faces & (self.port_role() != HOST)
        return result

    def peer_device(self) -> Int32s:
        """(P,) device at the other end of each port's cable, -1 where unknown."""
        return np.where(self.peer >= 0, self.device[self.peer], np.int32(-1)).astype(np.int32)


def speed_in_force(told: Floats, nominal: Floats) -> Floats:
    """(P,) line rates: the port's own word first, then the topology's; NaN where unknown.

    A speed of 0 is how devices say that they do not know it.
    """
    design = np.where(nominal > 0, nominal, np.nan)
    speed: Floats = np.where(told > 0, told, design)
    return speed


def read_topology(path: Path) -> Topology:
    """The topology in a JSON file; ConfigError names the file, the field and what is wrong."""
    try:
        topology = Topology.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        raise ConfigError(f"{path}: {where}: {first['msg']}") from error
    _check(topology, path)
    return topology


def _check(topology: Topology, path: Path) -> None:
    """Links must join declared devices, and a port holds one cable."""
    known: set[str] = set()
    for index, device in enumerate(topology.devices):
        if device.name in known:
            raise ConfigError(f"{path}: devices.{index}.name: {device.name!r} is declared twice")
        known.add(device.name)
    cabled: dict[tuple[str, str], int] = {}
    for index, link in enumerate(topology.links):
        for side, end in (("a", link.a), ("b", link.b)):
            if end.device not in known:
                raise ConfigError(
                    f"{path}: links.{index}.{side}.device: {end.device!r} is not among the devices"
                )
            key = (end.device, end.port)
            if key in cabled:
                raise ConfigError(
                    f"{path}: links.{index}.{side}: {end.device} {end.port} "
                    f"already ends link {cabled[key]}"
                )
            cabled[key] = index


def bind(topology: Topology, ports: PortTable) -> Fabric:
    """Arrays over all ports of the table; the topology's own ports are interned first."""
    a = _intern_ends(ports, [link.a for link in topology.links])
    b = _intern_ends(ports, [link.b for link in topology.links])
    speed = np.array([link.speed_bps or np.nan for link in topology.links], dtype=np.float64)
    size = len(ports)
    peer = np.full(size, -1, dtype=np.int32)
    nominal = np.full(size, np.nan)
    peer[a], peer[b] = b, a
    nominal[a], nominal[b] = speed, speed
    names = [device.name for device in topology.devices]
    index = {name: number for number, name in enumerate(names)}
    owner = np.empty(size, dtype=np.int32)
    for port, name in enumerate(ports.devices[:size]):
        owner[port] = index.setdefault(name, len(index))
    extra = list(index)[len(names) :]
    roles = [ROLES.index(device.role) for device in topology.devices] + [0] * len(extra)
    sites = [device.site for device in topology.devices] + [""] * len(extra)
    return Fabric(
        device=owner,
        peer=peer,
        nominal_bps=nominal,
        names=tuple(index),
        role=np.array(roles, dtype=np.int32),
        site=tuple(sites),
    )


def _intern_ends(ports: PortTable, ends: Sequence[End]) -> Int32s:
    return np.array([ports.intern(end.device, end.port) for end in ends], dtype=np.int32)
