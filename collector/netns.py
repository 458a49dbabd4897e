"""Sockets inside named network namespaces (`ip netns add NAME`)."""

import ctypes
import errno
import os
import socket
import threading
from pathlib import Path
from typing import Final

from collector.errors import SourceUnavailable
from collector.netlink import open_socket

FOLDER: Final = Path("/run/netns")
_CLONE_NEWNET: Final = 0x4000_0000


def identity(name: str, folder: Path = FOLDER) -> tuple[int, int]:
    """What tells a namespace from a later one of the same name: device and inode.

    Raises SourceUnavailable(reason="namespace") where there is none of that name.
    """
    try:
        found = (folder / name).stat()
    except OSError as error:
        raise _unavailable(name, error) from error
    return found.st_dev, found.st_ino


def open_sockets(name: str | None, groups: tuple[int, ...]) -> list[socket.socket]:
    """One rtnetlink socket for each set of multicast groups, in a named namespace or (None) ours.

    A namespace belongs to a thread, so the visit is made by a thread of its own that ends with it:
    no pooled thread can be left behind in a foreign namespace.
    """
    opened: list[socket.socket] = []
    failed: list[OSError] = []

    def visit() -> None:
        try:
            if name is not None:
                _enter(FOLDER / name)
            opened.extend(open_socket(group) for group in groups)
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=visit, name="netns")
    thread.start()
    thread.join()
    if failed:
        for sock in opened:
            sock.close()
        raise _unavailable(name, failed[0]) from failed[0]
    return opened


def _enter(path: Path) -> None:
    """setns(2); Python has it from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(handle, _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(handle)


def _unavailable(name: str | None, error: OSError) -> SourceUnavailable:
    where = "this network namespace" if name is None else f"network namespace {name!r}"
    if error.errno == errno.ENOENT:
        return SourceUnavailable(
            f"{where} does not exist; `ip netns list` shows those that do", reason="namespace"
        )
    if error.errno in {errno.EPERM, errno.EACCES}:
        return SourceUnavailable(
            f"{where} cannot be entered: {error.strerror}; CAP_SYS_ADMIN is needed",
            reason="permission",
        )
    return SourceUnavailable(f"{where}: {error.strerror}", reason="namespace")
