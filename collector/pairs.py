"""Numbers for the (device, port) pairs of Arrow tables, while their dictionaries still differ."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from collector.parquet import codes
from collector.record import Int32s, Int64s


class Pairs:
    """Numbers pairs as they come up; `names` lists them, a pair's number is its place there."""

    def __init__(self) -> None:
        self.names: list[tuple[str, str]] = []
        self._devices: dict[str, int] = {}
        self._ports: dict[str, int] = {}
        self._numbers: dict[int, int] = {}

    def number(self, table: pa.Table, path: Path) -> Int32s:
        """(rows,) numbers of a table's `device` and `port` columns; `path` is named in errors."""
        devices, device = codes(table.column("device"), "device", path)
        ports, port = codes(table.column("port"), "port", path)
        combined = (_shared(self._devices, devices)[device] << 32) | _shared(self._ports, ports)[
            port
        ]
        pairs = pa.array(combined).dictionary_encode()
        known_devices, known_ports = list(self._devices), list(self._ports)
        numbers = np.empty(len(pairs.dictionary), np.int32)
        for index, code in enumerate(pairs.dictionary.to_pylist()):
            number = self._numbers.setdefault(code, len(self._numbers))
            if number == len(self.names):
                self.names.append((known_devices[code >> 32], known_ports[code & 0xFFFFFFFF]))
            numbers[index] = number
        rows: Int32s = numbers[pairs.indices.to_numpy()]
        return rows


def _shared(numbers: dict[str, int], names: list[str]) -> Int64s:
    """(names,) numbers that hold across tables, however each table coded its names."""
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
