"""Ports, interned: a (device, port) pair becomes a small integer once, at the edge."""

from collections.abc import Sequence

import numpy as np

from collector.record import Int32s


class PortTable:
    """Hands out int32 ids for (device, port) names; ids are dense, start at 0 and never change.

    Only the event loop adds names; a tick in the worker thread reads the prefix that existed when
    it began, which is safe because names are only ever appended.
    """

    def __init__(self) -> None:
        self.devices: list[str] = []
        self.ports: list[str] = []
        self._ids: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self.ports)

    def intern(self, device: str, port: str) -> int:
        """The id of (device, port), new or known."""
        key = (device, port)
        known = self._ids.get(key)
        if known is None:
            known = len(self.ports)
            self._ids[key] = known
            self.devices.append(device)
            self.ports.append(port)
        return known

    def find(self, device: str, port: str) -> int:
        """The id of (device, port), or -1 where it was never seen."""
        return self._ids.get((device, port), -1)

    def intern_columns(
        self, devices: Sequence[str], device_index: Int32s, ports: Sequence[str], port_index: Int32s
    ) -> Int32s:
        """Ids of dictionary-encoded columns: (rows,) codes into the two lists of names."""
        codes = device_index.astype(np.int64) * len(ports) + port_index
        unique, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        ids = np.empty(len(unique), dtype=np.int32)
        # Ids follow the order of first appearance, so that a trace always numbers its ports alike.
        for slot in np.argsort(first, kind="stable"):
            code = int(unique[slot])
            ids[slot] = self.intern(devices[code // len(ports)], ports[code % len(ports)])
        return ids[inverse]
