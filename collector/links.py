"""Names, states and nominal speeds of a namespace's interfaces."""

import ctypes
import fcntl
import math
import socket
import struct
from dataclasses import dataclass
from typing import Final

from collector.messages import attributes, text
from collector.netlink import DELLINK, NEWLINK, Dump

NEVER: Final = frozenset({0, 0xFFFF, 0xFFFF_FFFF})
"""Mb/s that drivers report where they know none (65535 is a -1 of 16 bits)."""

_NAME, _OPERSTATE, _LINKINFO, _INFO_KIND = 3, 16, 18, 1
_UNKNOWN: Final = 0
_WAITING: Final = frozenset({4, 5})
"""IF_OPER_TESTING and IF_OPER_DORMANT (802.1X): there is a carrier, and no traffic may pass."""
_LOOPBACK: Final = 0x8
_RUNNING: Final = 0x1 | 0x10000
_REAL: Final = frozenset({"", "bond", "ipoib", "team", "vlan"})
_SIOCETHTOOL: Final = 0x8946
_GLINKSETTINGS: Final = 0x4C
_SETTINGS: Final = 48


@dataclass(frozen=True, slots=True)
class Link:
    """One interface as the kernel describes it.

    kind: of a virtual device (`veth`, `tun`, ...), empty for hardware. gone: it was removed.
    """

    index: int
    name: str
    up: bool
    kind: str = ""
    gone: bool = False

    @property
    def real(self) -> bool:
        """Hardware, or a device that takes its speed from hardware.

        What the others call their speed (10 Gb/s of a veth, 10 Mb/s of a tap) limits nothing.
        """
        return self.kind in _REAL


def parse_links(dump: Dump) -> list[Link]:
    """Links in a dump or in notifications, in order; SourceUnavailable(reason="malformed").

    Messages of a bridge about its members have another family and are not about the interface.
    """
    data = dump.data
    found: list[Link] = []
    for kind in (NEWLINK, DELLINK):
        dump.only(kind, 16)
    for start, kind in zip(dump.starts.tolist(), dump.types.tolist(), strict=True):
        if kind not in {NEWLINK, DELLINK} or data[start + 16] != socket.AF_UNSPEC:
            continue
        index, flags = struct.unpack_from("=iI", data, start + 20)
        end = start + struct.unpack_from("=I", data, start)[0]
        found.append(_link(data, (start + 32, end), index, flags, gone=kind == DELLINK))
    return found


def _link(data: memoryview, span: tuple[int, int], index: int, flags: int, *, gone: bool) -> Link:
    name, kind, state = "", "loopback" if flags & _LOOPBACK else "", _UNKNOWN
    for attribute, begin, stop in attributes(data, *span):
        if attribute == _NAME:
            name = text(data, begin, stop)
        elif attribute == _OPERSTATE and stop > begin:
            state = data[begin]
        elif attribute == _LINKINFO:
            for inner, inner_begin, inner_stop in attributes(data, begin, stop):
                if inner == _INFO_KIND:
                    kind = text(data, inner_begin, inner_stop)
    # The carrier's flag is prompt; the state follows it up to a second later, and stays "unknown"
    # for devices without a carrier of their own (lo, tun).
    running = flags & _RUNNING == _RUNNING and state not in _WAITING
    return Link(index, name, running, kind, gone)


def speed_of(megabits: int) -> float:
    """bit/s of a driver's word in Mb/s; NaN where it says that it does not know."""
    return math.nan if megabits < 0 or megabits in NEVER else megabits * 1e6


def ask_speed(sock: socket.socket, name: str) -> float:
    """bit/s by ETHTOOL_GLINKSETTINGS in the socket's namespace; NaN where it cannot say."""
    words = 0
    for _ in range(2):
        # The kernel answers the first try with minus the length of its masks, and no more.
        settings = bytearray(_SETTINGS + 4 * 3 * 128)
        struct.pack_into("=I", settings, 0, _GLINKSETTINGS)
        struct.pack_into("=b", settings, 15, words)
        try:
            _ethtool(sock, name, settings)
        except OSError:
            return math.nan
        told = struct.unpack_from("=b", settings, 15)[0]
        if told >= 0:
            return speed_of(struct.unpack_from("=I", settings, 4)[0])
        words = -told
    return math.nan


def _ethtool(sock: socket.socket, name: str, settings: bytearray) -> None:
    """Run one ethtool command in place; the request refers to its data by address."""
    memory = (ctypes.c_char * len(settings)).from_buffer(settings)
    request = struct.pack("16sP16x", name.encode()[:15], ctypes.addressof(memory))
    fcntl.ioctl(sock, _SIOCETHTOOL, request)
