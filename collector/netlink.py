"""Raw rtnetlink: one request, one dump.

Numbers of messages and flags are those of the kernel's UAPI headers (netlink.h, rtnetlink.h).
"""

import errno
import os
import socket
import struct
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.errors import SourceUnavailable

RTMGRP_LINK: Final = 1
NEWLINK, DELLINK, GETLINK = 16, 17, 18
NEWQDISC, GETQDISC = 36, 38
NEWSTATS, GETSTATS = 92, 94
TIMEOUT: Final = 5.0
"""Seconds that the kernel may take for one answer."""

_ERROR, _DONE, _OVERRUN = 2, 3, 4
_REQUEST, _DUMP, _INTERRUPTED = 0x1, 0x300, 0x10
_HEADER = struct.Struct("=IHHII")
_WINDOW: Final = 1 << 16

Words = NDArray[np.uint32]
Starts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Dump:
    """The messages of one answer: `words` holds them, `starts` are byte offsets, `types` theirs.

    interrupted: the kernel's tables changed meanwhile; rows may be missing or twice.
    """

    words: Words
    starts: Starts
    types: Starts
    interrupted: bool = False

    def only(self, kind: int, header: int) -> Starts:
        """(n,) offsets of the messages of one type, whose fixed part has `header` bytes."""
        starts: Starts = self.starts[self.types == kind]
        if (self.words[starts // 4] < 16 + header).any():
            raise malformed(f"a message of type {kind} is shorter than its header")
        return starts

    @property
    def data(self) -> memoryview:
        """The same memory as bytes."""
        return self.words.view(np.uint8).data


@dataclass(slots=True)
class _Messages:
    starts: list[int] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    interrupted: bool = False
    done: bool = False


def open_socket(groups: int = 0) -> socket.socket:
    """A NETLINK_ROUTE socket in the calling thread's network namespace."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    seconds, fraction = divmod(TIMEOUT, 1)
    limit = struct.pack("@ll", int(seconds), int(fraction * 1e6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    sock.bind((0, groups))
    return sock


class Rtnetlink:
    """Dumps from one socket. After any SourceUnavailable the socket must be thrown away."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._sequence = 0
        self._buffer = bytearray(4 * _WINDOW)

    def link_stats(self) -> Dump:
        """64-bit statistics of every interface (RTM_GETSTATS, IFLA_STATS_LINK_64)."""
        return self._dump(GETSTATS, struct.pack("=BBHII", 0, 0, 0, 0, 1))

    def links(self) -> Dump:
        """Names and states of every interface (RTM_GETLINK, without statistics)."""
        skip_stats = struct.pack("=HHI", 8, 29, 1 << 3)
        return self._dump(GETLINK, bytes(16) + skip_stats)

    def qdiscs(self) -> Dump:
        """Every queueing discipline (RTM_GETQDISC)."""
        return self._dump(GETQDISC, bytes(20))

    def close(self) -> None:
        self.socket.close()

    def _dump(self, kind: int, body: bytes) -> Dump:
        self._sequence += 1
        header = _HEADER.pack(16 + len(body), kind, _REQUEST | _DUMP, self._sequence, 0)
        found = _Messages()
        used = 0
        try:
            self.socket.sendto(header + body, (0, 0))
            while not found.done:
                size = self._receive(used)
                _split(self._buffer, used, used + size, found)
                used += size
        except BlockingIOError as error:
            raise SourceUnavailable(
                f"rtnetlink gave no answer within {TIMEOUT:g} s", reason="timeout"
            ) from error
        except OSError as error:
            raise unavailable(error.errno or 0) from error
        # Copied, because the buffer is filled anew by the next dump.
        words = np.frombuffer(bytes(memoryview(self._buffer)[: used & ~3]), np.uint32)
        return Dump(
            words,
            np.array(found.starts, np.int64),
            np.array(found.types, np.int64),
            found.interrupted,
        )

    def _receive(self, used: int) -> int:
        """Append one datagram from the kernel at `used`; its size."""
        if len(self._buffer) - used < _WINDOW:
            self._buffer.extend(bytes(len(self._buffer)))
        window = memoryview(self._buffer)[used : used + _WINDOW]
        try:
            while True:
                size, sender = self.socket.recvfrom_into(window, _WINDOW, socket.MSG_TRUNC)
                if sender[0] == 0:
                    break  # another process may write to this socket, but only the kernel is 0
        finally:
            window.release()
        if size > _WINDOW:
            raise malformed(f"a datagram of {size} bytes")
        return -(-size // 4) * 4


def receive_changes(sock: socket.socket) -> Dump | None:
    """What a socket of RTMGRP_LINK has been told since; None where nothing.

    Raises SourceUnavailable(reason="overrun") where notifications were lost.
    """
    buffer = bytearray()
    found = _Messages()
    lost: OSError | None = None
    while True:
        try:
            part, sender = sock.recvfrom(_WINDOW, socket.MSG_DONTWAIT)
        except BlockingIOError:
            break
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise unavailable(error.errno or 0) from error
            lost = error
            continue  # what still waits is older than what is asked for next, so it goes too
        if sender[0] == 0:
            start = len(buffer)
            buffer += part + bytes(-len(part) % 4)
            _split(buffer, start, len(buffer), found)
    if lost is not None:
        raise SourceUnavailable("link notifications were lost", reason="overrun") from lost
    return _as_dump(buffer, found) if buffer else None


def read_messages(data: bytes) -> Dump:
    """The messages in the bytes of one or more datagrams, up to the end or NLMSG_DONE."""
    found = _Messages()
    buffer = data + bytes(-len(data) % 4)
    _split(buffer, 0, len(data), found)
    return _as_dump(buffer, found)


def _as_dump(buffer: bytes | bytearray, found: _Messages) -> Dump:
    words = np.frombuffer(bytes(buffer), np.uint32)
    starts, types = np.array(found.starts, np.int64), np.array(found.types, np.int64)
    return Dump(words, starts, types, found.interrupted)


def _split(buffer: bytes | bytearray, start: int, end: int, found: _Messages) -> None:
    """Note where the messages between two offsets begin."""
    starts, types, unpack = found.starts, found.types, _HEADER.unpack_from
    while end - start >= 16 and not found.done:
        length, kind, flags, _, _ = unpack(buffer, start)
        if length < 16 or length > end - start:
            raise malformed(f"a message of {length} bytes where {end - start} are left")
        if flags & _INTERRUPTED:
            found.interrupted = True
        if kind in (_ERROR, _DONE):
            code = struct.unpack_from("=i", buffer, start + 16)[0] if length >= 20 else 0
            if code < 0:
                raise unavailable(-code)
            found.done = True
        elif kind == _OVERRUN:
            raise SourceUnavailable("rtnetlink lost a part of its answer", reason="overrun")
        step = (length + 3) & ~3
        run = 1
        if kind > _OVERRUN:
            run = _run(buffer, start, end, step)
            starts.extend(range(start, start + run * step, step))
            types.extend([kind] * run)
        start += run * step
    if 0 < end - start < 16 and not found.done:
        raise malformed(f"{end - start} bytes of a header")


def _run(buffer: bytes | bytearray, start: int, end: int, step: int) -> int:
    """How many messages in a row have the first one's length, type and flags."""
    count = (end - start) // step
    if count < 2:
        return 1
    words = np.frombuffer(buffer, np.uint32, count * step // 4, start).reshape(count, -1)[:, :2]
    same = (words == words[0]).all(axis=1)
    return count if same.all() else int(np.argmin(same))


def unavailable(code: int) -> SourceUnavailable:
    """The error for an errno that the kernel answered with."""
    reasons = {
        errno.EPERM: "permission",
        errno.EACCES: "permission",
        errno.EOPNOTSUPP: "unsupported",
        errno.EINVAL: "unsupported",
        errno.ENOBUFS: "overrun",
    }
    text = os.strerror(code) if code else "the socket was closed"
    return SourceUnavailable(f"rtnetlink: {text}", reason=reasons.get(code, "refused"))


def malformed(what: str) -> SourceUnavailable:
    return SourceUnavailable(f"rtnetlink: malformed answer: {what}", reason="malformed")
