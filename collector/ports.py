"""Ports, interned: a (device, port) pair becomes a small integer once, at the edge."""


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
            self.devices.append(_printable(device))
            self.ports.append(_printable(port))
        return known

    def find(self, device: str, port: str) -> int:
        """The id of (device, port), or -1 where it was never seen."""
        return self._ids.get((device, port), -1)


def _printable(name: str) -> str:
    """The name with what no encoder takes (lone surrogates of broken bytes) written out."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
