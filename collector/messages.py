"""Netlink messages, read as matrices.

A dump of interfaces is hundreds of messages of a few layouts. All messages of one layout are read
at once as the rows of a matrix of 32-bit words; only the first of each layout is walked attribute
by attribute. Numbers of attributes are those of the kernel's if_link.h.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.netlink import NEWSTATS, Dump, Starts, Words, malformed
from collector.record import Int32s, UInt64s

STATS: Final = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped",
    "tx_dropped", "multicast", "collisions", "rx_length_errors", "rx_over_errors", "rx_crc_errors",
    "rx_frame_errors", "rx_fifo_errors", "rx_missed_errors",
)  # fmt: skip
"""The leading fields of rtnl_link_stats64; newer kernels append more, which are not read."""

Places = Mapping[tuple[int, ...], tuple[int, int]]
"""Path of attribute types -> (first byte of the payload within its message, length)."""

_ATTRIBUTE = struct.Struct("=HH")
_TYPE_MASK: Final = 0x3FFF


def attributes(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(type, first byte, end) of the payload of each attribute between two offsets."""
    while end - start >= 4:
        length, kind = _ATTRIBUTE.unpack_from(data, start)
        if length < 4 or length > end - start:
            raise malformed(f"an attribute of {length} bytes where {end - start} are left")
        yield kind & _TYPE_MASK, start + 4, start + length
        start += (length + 3) & ~3


@dataclass(frozen=True, slots=True)
class Layout:
    """Messages that hold the same attributes at the same places.

    starts: (n,) offsets of the messages. name: text of the attribute that they were told apart by.
    """

    starts: Starts
    places: Places
    name: str


def layouts(
    dump: Dump,
    starts: Starts,
    header: int,
    named: int = -1,
    nests: Callable[[str], frozenset[int]] = lambda _: frozenset(),
) -> Iterator[Layout]:
    """The messages at `starts`, in groups of one layout; in practice there are one to three.

    header: bytes of the fixed part after the netlink header. named: an attribute whose text must
    agree within a group. nests: which attributes hold further ones, given that text.
    """
    data = dump.data
    while len(starts):
        first = int(starts[0])
        end = first + int(dump.words[first // 4])
        places: dict[tuple[int, ...], tuple[int, int]] = {}
        fixed, name = [0], ""
        for kind, begin, stop in attributes(data, first + 16 + header, end):
            places[kind,] = (begin - first, stop - begin)
            fixed.append((begin - first) // 4 - 1)
            if kind == named:
                name = text(data, begin, stop)
                fixed.extend(range((begin - first) // 4, (stop - first + 3) // 4))
            elif kind in nests(name):
                for inner, inner_begin, inner_stop in attributes(data, begin, stop):
                    places[kind, inner] = (inner_begin - first, inner_stop - inner_begin)
                    fixed.append((inner_begin - first) // 4 - 1)
        alike = _alike(dump.words, starts, np.array(fixed, np.int64))
        yield Layout(starts[alike], places, name)
        starts = starts[~alike]


def _alike(words: Words, starts: Starts, fixed: Starts) -> NDArray[np.bool_]:
    """(n,) which messages agree with the first in the words at the places `fixed`."""
    at = (starts // 4)[:, None] + fixed
    # A shorter message at the very end may not reach that far; its length then differs anyhow.
    seen = words[np.minimum(at, len(words) - 1)]
    same: NDArray[np.bool_] = (seen == seen[0]).all(axis=1)
    return same


def block(dump: Dump, starts: Starts, offset: int, count: int) -> Words:
    """(n, count) 32-bit words at a byte offset of each message."""
    at = (starts // 4)[:, None] + np.arange(offset // 4, offset // 4 + count)
    found: Words = dump.words[at]
    return found


def text(data: memoryview, begin: int, stop: int) -> str:
    """A NUL-terminated string."""
    return bytes(data[begin:stop]).split(b"\0", 1)[0].decode(errors="backslashreplace")


def parse_link_stats(dump: Dump) -> tuple[Int32s, UInt64s]:
    """(n,) interface numbers and (n, len(STATS)) counters of a `link_stats` dump."""
    numbers: list[Words] = []
    tables: list[UInt64s] = []
    for layout in layouts(dump, dump.only(NEWSTATS, 12), 12):
        offset, length = layout.places.get((1,), (0, 0))
        if length < 8 * len(STATS):
            continue  # an interface without these statistics
        numbers.append(block(dump, layout.starts, 20, 1)[:, 0])
        tables.append(block(dump, layout.starts, offset, 2 * len(STATS)).view(np.uint64))
    if not numbers:
        return np.zeros(0, np.int32), np.zeros((0, len(STATS)), np.uint64)
    return np.concatenate(numbers).astype(np.int32), np.concatenate(tables)
