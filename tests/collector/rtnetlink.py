"""Builds rtnetlink messages, byte by byte, as the kernel would send them."""

import struct

ROOT = 0xFFFF_FFFF
INGRESS = 0xFFFF_FFF1


def attribute(kind, payload):
    padding = bytes(-len(payload) % 4)
    return struct.pack("=HH", 4 + len(payload), kind) + payload + padding


def message(kind, body, flags=2):
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body


def done(code=0):
    return message(3, struct.pack("=i", code))


def refused(code):
    return message(2, struct.pack("=i", -code) + bytes(16))


def stats(index, values, before=b"", after=b"", flags=2):
    """values: the u64 fields of rtnl_link_stats64 in their order; none leaves the attribute out."""
    table = attribute(1, struct.pack(f"={len(values)}Q", *values)) if values else b""
    body = struct.pack("=BBHII", 0, 0, 0, index, 1) + before + table + after
    return message(92, body, flags)


def link(index, name, up=True, kind="", family=0, gone=False, flags=0):
    state = struct.pack("=B", 6 if up else 2)
    body = struct.pack("=BBHiII", family, 0, 1, index, flags | 0x1_1043 * up, 0)
    body += attribute(3, name.encode() + b"\0") + attribute(16, state)
    if kind:
        body += attribute(18, attribute(1, kind.encode() + b"\0"))
    return message(17 if gone else 16, body)


def qdisc(index, kind, backlog, parent=ROOT, rate=0, wide=False, old=False):
    """rate: bytes per second of a tbf. wide: with the 64-bit attribute. old: struct tc_stats."""
    body = struct.pack("=BBHiIII", 0, 0, 0, index, 1 << 16, parent, 1)
    body += attribute(1, kind.encode() + b"\0")
    if kind == "tbf":
        narrow = min(rate, 0xFFFF_FFFF)
        parms = struct.pack("=BBHhHI", 0, 1, 0, -1, 0, narrow) + bytes(12) + bytes(12)
        nested = attribute(1, parms) + (attribute(4, struct.pack("=Q", rate)) if wide else b"")
        body += attribute(2, nested)
    elif kind == "pfifo":
        body += attribute(2, struct.pack("=I", 1000))
    elif kind == "prio":
        body += attribute(2, struct.pack("=i", 3) + bytes(range(16)))
    if old:
        body += attribute(3, struct.pack("=QIIIIIIIxxxx", 7, 1, 0, 0, 0, 0, 1, backlog))
    else:
        basic = attribute(1, struct.pack("=QIxxxx", 7, 1))
        queue = attribute(3, struct.pack("=IIIII", 1, backlog, 0, 0, 0))
        body += attribute(7, basic + queue)
    return message(36, body)
