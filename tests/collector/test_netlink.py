"""Parsers of rtnetlink against a slow one, against damage, and against the kernel."""

import math
import socket
import struct
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.errors import SourceUnavailable
from collector.links import Link, ask_speed, parse_links, speed_of
from collector.messages import STATS, parse_link_stats
from collector.netlink import RTMGRP_LINK, Rtnetlink, open_socket, read_messages
from collector.netns import open_sockets
from collector.qdisc import parse_queues
from tests.collector import rtnetlink

U64 = st.integers(0, 2**64 - 1)
INDEX = st.integers(1, 2**31 - 1)
FILLING = st.sampled_from(
    [b"", *(rtnetlink.attribute(kind, b"x" * size) for kind, size in ((0, 0), (9, 3), (2, 8)))]
)
ROWS = st.lists(
    st.tuples(INDEX, st.sampled_from([0, 3, 16, 24, 25, 30]), U64, FILLING, FILLING), max_size=30
)
QDISCS = st.lists(
    st.tuples(
        INDEX,
        st.sampled_from(["noqueue", "pfifo", "pfifo_fast", "tbf", "prio", "mq", "fq_codel"]),
        st.integers(0, 2**32 - 1),
        st.sampled_from([rtnetlink.ROOT, rtnetlink.INGRESS, 0x10001]),
        st.integers(1, 2**40),
        st.booleans(),
        st.booleans(),
    ),
    max_size=30,
)


def slow_messages(data):
    """One message after the other, with nothing but struct."""
    start = 0
    while start < len(data):
        length, kind = struct.unpack_from("=IH", data, start)
        yield kind, data[start + 16 : start + length]
        start += (length + 3) & ~3


def slow_attributes(body):
    found, start = {}, 0
    while start + 4 <= len(body):
        length, kind = struct.unpack_from("=HH", body, start)
        found[kind] = body[start + 4 : start + length]
        start += (length + 3) & ~3
    return found


def slow_stats(data):
    rows = []
    for kind, body in slow_messages(data):
        if kind == 92:
            table = slow_attributes(body[12:]).get(1, b"")
            if len(table) >= 128:
                rows.append(
                    (struct.unpack_from("=I", body, 4)[0], struct.unpack("=16Q", table[:128]))
                )
    return rows


def slow_queues(data):
    rows = []
    for kind, body in slow_messages(data):
        if kind != 36:
            continue
        index, _, parent = struct.unpack_from("=iII", body, 4)
        found = slow_attributes(body[20:])
        name = found[1].rstrip(b"\0").decode()
        if parent != rtnetlink.ROOT or name == "noqueue":
            continue
        if 7 in found:
            backlog = struct.unpack_from("=I", slow_attributes(found[7])[3], 4)[0]
        else:
            backlog = struct.unpack_from("=I", found[3], 32)[0]
        rate = math.nan
        if name == "tbf":
            options = slow_attributes(found[2])
            rate = struct.unpack_from("=I", options[1], 8)[0] * 8.0
            if 4 in options:
                rate = struct.unpack("=Q", options[4])[0] * 8.0
        rows.append((index, float(backlog), repr(rate)))
    return rows


@given(ROWS)
def test_statistics_agree_with_a_slow_parser(rows):
    data = b"".join(
        rtnetlink.stats(index, [(value + n) % 2**64 for n in range(count)], before, after)
        for index, count, value, before, after in rows
    )
    interface, table = parse_link_stats(read_messages(data + rtnetlink.done()))
    assert table.dtype == np.uint64
    assert table.shape == (len(interface), len(STATS))
    mine = sorted(zip(interface.tolist(), map(tuple, table.tolist()), strict=True))
    assert mine == sorted(slow_stats(data))


@given(QDISCS)
def test_queues_agree_with_a_slow_parser(rows):
    data = b"".join(rtnetlink.qdisc(*row) for row in rows)
    queues = parse_queues(read_messages(data + rtnetlink.done()))
    columns = queues.interface.tolist(), queues.backlog.tolist(), map(repr, queues.rate.tolist())
    assert sorted(zip(*columns, strict=True)) == sorted(slow_queues(data))


def test_a_rate_beyond_32_bits_comes_from_the_wide_attribute():
    data = rtnetlink.qdisc(1, "tbf", 0, rate=50_000_000_000, wide=True)
    assert parse_queues(read_messages(data)).rate.tolist() == [4e11]


def complaint(data):
    """What reading the bytes in every way is refused with, if it is."""
    try:
        dump = read_messages(data)
        parse_link_stats(dump)
        parse_queues(dump)
        parse_links(dump)
    except SourceUnavailable as error:
        return error
    return None


PARTS = (
    rtnetlink.stats(1, range(25)),
    rtnetlink.stats(2, range(25), before=rtnetlink.attribute(0, b"")),
    rtnetlink.link(1, "eth0", kind="veth"),
    rtnetlink.qdisc(1, "tbf", 99, rate=1000, wide=True),
    rtnetlink.qdisc(2, "pfifo", 99, old=True),
)
WHOLE = b"".join(PARTS)
ENDS = set(accumulate(map(len, PARTS)))


@pytest.mark.parametrize("end", range(1, len(WHOLE) + 1, 3))
def test_a_dump_cut_anywhere_is_whole_or_refused(end):
    error = complaint(WHOLE[:end])
    assert (error is None) == (end in ENDS)
    assert error is None or error.reason == "malformed"


@given(st.binary(max_size=200))
def test_garbage_is_refused_in_our_own_words(data):
    error = complaint(data)
    assert error is None or str(error).startswith("rtnetlink")


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_any_wrong_byte_is_read_or_refused(place, change):
    damaged = bytearray(WHOLE)
    damaged[place] ^= change
    error = complaint(bytes(damaged))
    assert error is None or str(error).startswith("rtnetlink")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (rtnetlink.refused(1), "permission"),
        (rtnetlink.refused(95), "unsupported"),
        (rtnetlink.done(-105), "overrun"),
        (rtnetlink.message(4, b""), "overrun"),
        (b"\xff" * 16, "malformed"),
        (rtnetlink.stats(1, range(25))[:40], "malformed"),
    ],
)
def test_what_the_kernel_refuses_is_named(data, reason):
    with pytest.raises(SourceUnavailable) as caught:
        read_messages(data)
    assert caught.value.reason == reason


def test_an_interrupted_dump_says_so():
    assert read_messages(rtnetlink.stats(1, range(25), flags=0x12)).interrupted
    assert not read_messages(rtnetlink.stats(1, range(25))).interrupted


def test_links_in_all_their_states():
    data = (
        rtnetlink.link(1, "lo", flags=0x8)
        + rtnetlink.link(2, "eth0", up=False)
        + rtnetlink.link(3, "veth0", kind="veth")
        + rtnetlink.link(3, "veth0", family=socket.AF_BRIDGE, gone=True)
        + rtnetlink.link(4, "gone0", gone=True)
    )
    lo, eth, veth, gone = parse_links(read_messages(data))
    assert (lo.up, lo.real, eth.up, eth.real) == (True, False, False, True)
    assert (veth.kind, veth.real, gone) == ("veth", False, Link(4, "gone0", up=True, gone=True))


@pytest.mark.parametrize("megabits", [-1, 0, 65535, 2**32 - 1])
def test_speeds_that_mean_unknown(megabits):
    assert math.isnan(speed_of(megabits))


def test_a_speed_is_in_bits():
    assert speed_of(400_000) == 4e11


def test_the_kernel_agrees_with_proc():
    """Loopback may move between the two readings, so they bracket ours."""
    netlink = Rtnetlink(open_socket())
    before = proc_net_dev()
    interface, table = parse_link_stats(netlink.link_stats())
    after = proc_net_dev()
    names = {link.index: link.name for link in parse_links(netlink.links())}
    netlink.close()
    assert {names[index] for index in interface.tolist()} == set(before)
    for index, row in zip(interface.tolist(), table.tolist(), strict=True):
        fields = dict(zip(STATS, row, strict=True))
        low, high = before[names[index]], after[names[index]]
        assert low["rx_bytes"] <= fields["rx_bytes"] <= high["rx_bytes"]
        assert low["tx_bytes"] <= fields["tx_bytes"] <= high["tx_bytes"]
        # /proc shows the sum of these two as its column "drop".
        dropped = fields["rx_dropped"] + fields["rx_missed_errors"]
        assert low["rx_drop"] <= dropped <= high["rx_drop"]


def proc_net_dev():
    found = {}
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, columns = line.partition(":")
        row = [int(value) for value in columns.split()]
        found[name.strip()] = {"rx_bytes": row[0], "rx_drop": row[3], "tx_bytes": row[8]}
    return found


def test_a_device_without_a_driver_has_no_speed():
    with open_socket() as sock:
        assert math.isnan(ask_speed(sock, "lo"))
        assert math.isnan(ask_speed(sock, "no-such-device"))


def test_an_unknown_namespace_is_named():
    with pytest.raises(SourceUnavailable, match=r"'no-such'.*ip netns list") as caught:
        open_sockets("no-such", (0, RTMGRP_LINK))
    assert caught.value.reason == "namespace"
