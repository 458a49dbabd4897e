"""Interfaces by the files of /sys/class/net, for a sysfs that is not the machine's own.

A recorded tree, or the host's /sys inside a container, has no rtnetlink to ask.
"""

import math
import re
from pathlib import Path
from typing import Final

import numpy as np

from collector.choice import Choice
from collector.clock import Clock
from collector.interfaces import COLUMNS
from collector.links import speed_of
from collector.losses import Losses
from collector.reading import Reading
from collector.record import Bools, UInt64s
from collector.sysfs import Attributes, listing

_VIRTUAL: Final = re.compile(r"(br-|cali|docker|dummy|ifb|lo$|tap|tun|veth|virbr|vnet|vxlan)")
_SIGNED: Final = re.compile(r"-?\d{1,10}")


class NetClass:
    """Reads every interface below `root`/sys/class/net."""

    def __init__(
        self, root: Path, device: str, choice: Choice, clock: Clock, losses: Losses
    ) -> None:
        self.device = device
        self._folder = root / "sys/class/net"
        self._choice = choice
        self._clock = clock
        self._losses = losses
        self._attributes = Attributes(losses)
        self._names: tuple[str, ...] = ()

    def read(self) -> Reading | None:
        """One sweep; None where the tree has no interfaces."""
        names = tuple(name for name in listing(self._folder) if self._is_wanted(name))
        if not names:
            return None
        if names != self._names:
            self._names = names
        counters, valid = self._counters()
        up = np.array([self._up(name) for name in self._names], np.float64)
        time, received = self._clock.now(), self._clock.monotonic()
        speed = [self._speed(name, state) for name, state in zip(self._names, up, strict=True)]
        return Reading(
            device=self.device,
            names=self._names,
            time=np.full(len(names), time, np.int64),
            received=received,
            counters=counters,
            gauges={"oper_up": up, "speed_bps": np.array(speed, np.float64)},
            valid=valid,
        )

    def close(self) -> None:
        self._attributes.close()

    def _is_wanted(self, name: str) -> bool:
        """Beside the interfaces lie files (bonding_masters), which have no statistics."""
        return self._choice.wants(name) and (self._folder / name / "statistics").is_dir()

    def _counters(self) -> tuple[dict[str, UInt64s], dict[str, Bools]]:
        counters: dict[str, UInt64s] = {}
        valid: dict[str, Bools] = {}
        for canonical, fields in COLUMNS.items():
            column = [self._sum(name, fields) for name in self._names]
            told = np.array([value is not None for value in column], np.bool_)
            if told.any():
                counters[canonical] = np.array([value or 0 for value in column], np.uint64)
                if not told.all():
                    valid[canonical] = told
        return counters, valid

    def _sum(self, name: str, fields: tuple[str, ...]) -> int | None:
        folder = f"{self._folder}/{name}/statistics"
        values = [self._attributes.number(f"{folder}/{field}") for field in fields]
        told = [value for value in values if value is not None]
        return sum(told) % (1 << 64) if len(told) == len(values) else None

    def _up(self, name: str) -> float:
        state = self._attributes.text(f"{self._folder}/{name}/operstate")
        if state is None:
            return math.nan
        if state == "unknown":
            return float(self._attributes.text(f"{self._folder}/{name}/carrier") == "1")
        return float(state == "up")

    def _speed(self, name: str, up: float) -> float:
        """bit/s; NaN where unknown or, as for virtual devices, no limit of anything."""
        given = self._choice.speed(name)
        if not math.isnan(given) or self._is_virtual(name):
            return given
        told = self._attributes.text(f"{self._folder}/{name}/speed")
        speed = speed_of(int(told)) if told and _SIGNED.fullmatch(told) else math.nan
        if up == 1 and math.isnan(speed):
            self._losses.warn("speed_unknown", f"{self.device}: {name}", "set speed_bps")
        return speed

    def _is_virtual(self, name: str) -> bool:
        """By where the kernel keeps the device; a copied tree has only the name to go by."""
        folder = self._folder / name
        if (folder / "bonding").is_dir():
            return False
        if folder.is_symlink():
            return "virtual" in folder.resolve().parts
        return _VIRTUAL.match(name) is not None
