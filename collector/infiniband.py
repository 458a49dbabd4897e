"""RDMA ports by the files of /sys/class/infiniband, under a root that can be moved.

Which file means what is said by the counter dictionary; this module says where files lie, which of
several that count the same is believed, and what makes a value untrustworthy.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from collector.choice import Choice
from collector.clock import Clock
from collector.counters import CUMULATIVE
from collector.dictionary import Dictionary, Rule
from collector.interfaces import REFRESH
from collector.losses import Losses
from collector.reading import Reading
from collector.sysfs import Attributes, listing

SATURATES: Final = {
    "symbol_error": 0xFFFF,
    "port_rcv_errors": 0xFFFF,
    "port_xmit_discards": 0xFFFF,
    "link_downed": 0xFF,
    "port_rcv_data": 0xFFFF_FFFF,
    "port_xmit_data": 0xFFFF_FFFF,
    "port_rcv_packets": 0xFFFF_FFFF,
    "port_xmit_packets": 0xFFFF_FFFF,
    "port_xmit_wait": 0xFFFF_FFFF,
}
"""Counters of the mandatory PortCounters attribute stop at all ones instead of wrapping, so that
value says "at least". Where a driver reads the 64-bit attribute, one passing match costs nothing.
Widths: InfiniBand Architecture Specification, PortCounters; Linux drivers/infiniband/core/sysfs.c.
"""

_RATE: Final = re.compile(r"(\d+(?:\.\d+)?) *Gb/sec\b")
_SOFTWARE: Final = re.compile(r"(rxe|siw)")
_VENDORS: Final = (
    "hw_counters",
    *(f"hw_counters.{n}" for n in ("efa", "bnxt_re", "irdma", "hfi1")),
)
_DIRECTIONS: Final = (("rx_packets", "rx_bytes"), ("tx_packets", "tx_bytes"))


def rate_bps(text: str) -> float:
    """bit/s of a `rate` file such as "400 Gb/sec (4X NDR)"; NaN where it says something else.

    The bracket is optional, and the number already is that of all lanes together.
    """
    match = _RATE.match(text)
    return float(match[1]) * 1e9 if match else math.nan


@dataclass(frozen=True, slots=True)
class _File:
    """A file that is read for a canonical counter: value = number x scale."""

    path: str
    scale: float
    ones: int | None
    narrow: bool


@dataclass(slots=True)
class _Port:
    """One port: `files` holds the chosen file of each canonical counter."""

    name: str
    folder: Path
    software: bool
    files: dict[str, _File] = field(default_factory=dict)
    link_layer: str = ""

    @property
    def narrow(self) -> frozenset[str]:
        return frozenset(counter for counter, file in self.files.items() if file.narrow)


class Infiniband:
    """Reads every RDMA port below `root`/sys/class/infiniband.

    xmit_wait_tick_ns: length of a tick of port_xmit_wait. It differs between devices, so without it
    the waiting is left out. link_layers: port -> what its driver says it speaks.
    """

    def __init__(
        self,
        root: Path,
        device: str,
        dictionary: Dictionary,
        choice: Choice,
        clock: Clock,
        losses: Losses,
        xmit_wait_tick_ns: float | None = None,
    ) -> None:
        self.device = device
        self.link_layers: dict[str, str] = {}
        self._folder = root / "sys/class/infiniband"
        self._dictionary = dictionary
        self._choice = choice
        self._clock = clock
        self._losses = losses
        self._tick = xmit_wait_tick_ns
        self._attributes = Attributes(losses)
        self._groups: list[tuple[tuple[str, ...], list[_Port]]] = []
        self._chosen: dict[tuple[str, str], _File] = {}
        self._found_at: int | None = None

    def read(self) -> list[Reading]:
        """One sweep: ports whose counters have the same widths share a reading."""
        now = self._clock.monotonic()
        if self._found_at is None or now - self._found_at > REFRESH * 1e9:
            self._find()
            self._found_at = now
        return [self._reading(names, ports) for names, ports in self._groups]

    def close(self) -> None:
        """Close every file; the next read looks for ports anew."""
        self._attributes.close()
        self._found_at = None

    def _find(self) -> None:
        """Look for ports, and choose the files to read for each."""
        grouped: dict[frozenset[str], list[_Port]] = {}
        for device in listing(self._folder):
            numbers = listing(self._folder / device / "ports")
            for number in numbers:
                port = self._port(self._folder / device, number, alone=len(numbers) == 1)
                grouped.setdefault(port.narrow, []).append(port)
        kept = {names for names, _ in self._groups}
        self._groups = []
        for ports in grouped.values():
            names = tuple(port.name for port in ports)
            same = next((old for old in kept if old == names), names)
            self._groups.append((same, ports))

    def _port(self, device: Path, number: str, *, alone: bool) -> _Port:
        folder = device / "ports" / number
        made = device.is_symlink() and "virtual" in device.resolve().parts
        software = made or _SOFTWARE.match(device.name) is not None
        port = _Port(f"{device.name}/{number}", folder, software)
        port.link_layer = self._attributes.text(f"{folder}/link_layer") or ""
        self.link_layers[port.name] = port.link_layer
        if not (folder / "counters").is_dir():
            self._losses.warn("missing", f"{folder}/counters")
        for counter, candidates in self._candidates(device, folder, alone=alone).items():
            # The choice of before goes first: another file may count from another start.
            before = self._chosen.get((port.name, counter))
            candidates.sort(key=lambda file: file != before)
            numbered = (f for f in candidates if self._attributes.number(f.path) is not None)
            chosen = next(numbered, None)
            if chosen is not None:
                self._chosen[port.name, counter] = port.files[counter] = chosen
        return port

    def _candidates(self, device: Path, folder: Path, *, alone: bool) -> dict[str, list[_File]]:
        """Canonical counter -> the files that count it, best first; never are two added up.

        Where counters_ext exists (kernels before 4.5), `counters` beside it has only 32 bits.
        Counters of the whole device belong to its port where it has but one.
        """
        found: dict[str, list[_File]] = {}
        places = [folder / "counters_ext", folder / "counters", folder / "hw_counters"]
        for place in [*places, device / "hw_counters"] if alone else places:
            names = listing(place)
            system = self._system(device, names) if place.name == "hw_counters" else "infiniband"
            for name, rule in self._rules(system, names):
                ones = SATURATES.get(name) if place.name == "counters" else None
                scale: float = rule.scale
                if name == "port_xmit_wait" and self._tick is not None:
                    scale = self._tick
                file = _File(f"{place}/{name}", scale, ones, rule.width == 32)
                found.setdefault(rule.counter, []).append(file)
        return {counter: found[counter] for counter in CUMULATIVE if counter in found}

    def _rules(self, system: str, names: list[str]) -> Iterator[tuple[str, Rule]]:
        """The files that the dictionary explains; "SwLinkUp,32" carries its width in its name."""
        for name in names:
            stem, _, width = name.partition(",")
            rule = self._dictionary.lookup(system, name) or self._dictionary.lookup(system, stem)
            if name == "port_xmit_wait" and self._tick is not None:
                rule = Rule("tx_stalled_ns", 1, 64, "cumulative", "null")
            if rule is not None and rule.kind == "cumulative":
                narrow = width == "32" and rule.scale == 1
                yield (
                    name,
                    Rule(rule.counter, rule.scale, 32, rule.kind, rule.absent)
                    if (narrow)
                    else rule,
                )

    def _system(self, device: Path, names: list[str]) -> str:
        """The dictionary's name for hw_counters of this driver.

        By the driver's name; where a copied tree has no such link, by what its files are called.
        """
        driver = (device / "device" / "driver").resolve().name
        named = f"hw_counters.{driver}"
        if self._dictionary.names(named):
            return named
        return max(_VENDORS, key=lambda s: len(set(names) & set(self._dictionary.names(s))))

    def _reading(self, names: tuple[str, ...], ports: list[_Port]) -> Reading:
        counters = [name for name in CUMULATIVE if any(name in port.files for port in ports)]
        shape = (len(counters), len(ports))
        values, told = np.zeros(shape, np.uint64), np.zeros(shape, np.bool_)
        time = np.zeros(len(ports), np.int64)
        up, speed = np.full(len(ports), np.nan), np.full(len(ports), np.nan)
        for row, port in enumerate(ports):
            found = self._values(port)
            time[row] = self._clock.now()
            for column, counter in enumerate(counters):
                if counter in found:
                    values[column, row] = found[counter]
                    told[column, row] = True
            up[row], speed[row] = self._state(port)
        present = [column for column in range(len(counters)) if told[column].any()]
        return Reading(
            device=self.device,
            names=names,
            time=time,
            received=self._clock.monotonic(),
            counters={counters[column]: values[column] for column in present},
            gauges={"oper_up": up, "speed_bps": speed},
            valid={counters[c]: told[c] for c in present if not told[c].all()},
            narrow=ports[0].narrow & {counters[column] for column in present},
        )

    def _values(self, port: _Port) -> dict[str, int]:
        """Canonical values of the files that could be read and believed."""
        found: dict[str, int] = {}
        for counter, file in port.files.items():
            number = self._attributes.number(file.path)
            if number is None:
                self._found_at = None  # the device may have changed: look again
            elif number == file.ones:
                self._losses.add("saturated", file.path, "clear the counter")
            else:
                found[counter] = round(number * file.scale) % (1 << 64)
        for packets, octets in _DIRECTIONS:
            number, size = found.get(packets, 0), found.get(octets, 0)
            # No packet is shorter than a byte, and no byte comes without a packet.
            if packets in found and octets in found and not (0 < number <= size or not size):
                self._losses.add("implausible", port.files[packets].path)
                del found[packets]
        return found

    def _state(self, port: _Port) -> tuple[float, float]:
        """Whether the port is up, and its bit/s; without ACTIVE, all else it says is void.

        EFA's state is a constant, and shows in a link layer that is neither of the two.
        """
        state = self._attributes.text(f"{port.folder}/state")
        if state is None:
            return math.nan, math.nan
        active = state.rpartition(":")[2].strip() == "ACTIVE"
        tells = port.link_layer in {"InfiniBand", "Ethernet"}
        up = float(active) if tells else math.nan
        given = self._choice.speed(port.name)
        if not math.isnan(given) or not active or port.software:
            return up, given
        rate = self._attributes.text(f"{port.folder}/rate")
        speed = math.nan if rate is None else rate_bps(rate)
        if rate is not None and math.isnan(speed):
            self._losses.add("rate_unparsable", f"{port.folder}/rate", "set speed_bps")
        return up, speed
