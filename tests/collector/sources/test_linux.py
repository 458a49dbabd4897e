"""The linux source in real network namespaces with traffic of known sizes."""

import asyncio
import json
import math
import os
import socket
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from collector.choice import Choice
from collector.clock import ManualClock, SteadyClock
from collector.errors import SourceUnavailable
from collector.interfaces import Interfaces
from collector.links import ask_speed
from collector.losses import Losses
from collector.netlink import read_messages
from collector.netns import open_sockets
from collector.ports import PortTable
from collector.rates import Rates
from collector.sources.linux import LinuxConfig, LinuxSource
from tests.collector import rtnetlink

CASES = Path(__file__).parent.parent.parent / "cases" / "linux"
EVERYTHING = Choice(("*",), ("lo",), {})


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, capture_output=True, timeout=20)


def inside(namespace, code, *words):
    """Run Python in a namespace; its standard output."""
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", code, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    return done.stdout


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


class Lab:
    """Two namespaces of unique names, joined by the pair `left` and `right`."""

    def __init__(self):
        self.a, self.b = (f"fabriclens-{os.getpid()}-{side}" for side in "ab")

    def up(self):
        for name in (self.a, self.b):
            ip("netns", "add", name)
            # Neighbour discovery would add packets of its own.
            switch = "/proc/sys/net/ipv6/conf/{}/disable_ipv6"
            code = "import sys; [open(path, 'w').write('1') for path in sys.argv[1:]]"
            inside(name, code, switch.format("all"), switch.format("default"))
        ip("-n", self.a, "link", "add", "left", "type", "veth", "peer", "right", "netns", self.b)
        for name, link, address in ((self.a, "left", "1"), (self.b, "right", "2")):
            ip("-n", name, "addr", "add", f"10.9.8.{address}/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
        return self

    def down(self):
        for name in (self.a, self.b):
            ip("netns", "del", name, check=False)

    def send_tcp(self, size):
        """Send `size` bytes from a to b and wait until they are read."""
        serve = (
            "import socket\n"
            "listener = socket.create_server(('10.9.8.2', 5001)); print('ready', flush=True)\n"
            "peer, _ = listener.accept(); total = 0\n"
            "while part := peer.recv(1 << 16): total += len(part)\n"
            "peer.close(); print(total)"
        )
        command = ["ip", "netns", "exec", self.b, sys.executable, "-c", serve]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout.readline() == "ready\n"
            send = (
                "import socket, sys\n"
                "peer = socket.create_connection(('10.9.8.2', 5001), 10)\n"
                "peer.sendall(bytes(int(sys.argv[1]))); peer.shutdown(1); peer.recv(1)"
            )
            inside(self.a, send, str(size))
            assert int(server.stdout.readline()) == size
        time.sleep(0.05)

    def send_udp(self, count, size):
        code = (
            "import socket, sys\n"
            "sock = socket.socket(type=socket.SOCK_DGRAM)\n"
            "for _ in range(int(sys.argv[1])):\n"
            "    sock.sendto(bytes(int(sys.argv[2])), ('10.9.8.2', 9))"
        )
        inside(self.a, code, str(count), str(size))

    def kernel(self, namespace):
        """{interface: (rx_bytes, rx_packets, tx_bytes, tx_packets)} of /proc/net/dev inside."""
        found = {}
        for line in inside(namespace, "print(open('/proc/net/dev').read())").splitlines()[2:]:
            name, colon, columns = line.partition(":")
            if colon:
                row = [int(value) for value in columns.split()]
                found[name.strip()] = (row[0], row[1], row[8], row[9])
        return found


@pytest.fixture
def lab(as_root):
    made = Lab()
    try:
        yield made.up()
    finally:
        made.down()


def source_of(*namespaces, clock=None, **settings):
    config = LinuxConfig(device="host", namespaces=namespaces, infiniband=False, **settings)
    return LinuxSource(config, PortTable(), clock or SteadyClock())


async def batches_of(source):
    found = []
    async for batch in source.collect():
        batch.check()
        found.append(batch)
    return found


async def read(source):
    """{(device, port): {name: value}} of one reading."""
    found = {}
    for batch in await batches_of(source):
        for row, port in enumerate(batch.port.tolist()):
            key = (source._ports.devices[port], source._ports.ports[port])
            found[key] = {name: int(column[row]) for name, column in batch.counters.items()}
            found[key] |= {name: float(column[row]) for name, column in batch.gauges.items()}
    return found


async def test_bytes_agree_with_what_was_sent_and_with_the_kernel(lab):
    source = source_of(lab.a, lab.b)
    before = await read(source)
    size = 5_000_000
    await asyncio.to_thread(lab.send_tcp, size)
    after = await read(source)
    await source.close()
    left, right = (lab.a, "left"), (lab.b, "right")
    sent = after[left]["tx_bytes"] - before[left]["tx_bytes"]
    # Ethernet, IP and TCP headers: 66 bytes on segments of at most 1448, plus the handshake.
    assert size < sent < size * 1.06 + 10_000
    assert after[right]["rx_bytes"] - before[right]["rx_bytes"] == sent
    for namespace, port in (left, right):
        row = after[namespace, port]
        told = (row["rx_bytes"], row["rx_packets"], row["tx_bytes"], row["tx_packets"])
        assert told == lab.kernel(namespace)[port]
        assert row["oper_up"] == 1
        assert math.isnan(row["speed_bps"])
    assert (lab.a, "lo") not in after
    assert source.dropped == {}


async def test_rates_follow_the_traffic(lab):
    """Sent bytes over the time between two samples, through the real rates."""
    source, rates = source_of(lab.a, clock=(clock := ManualClock())), Rates()
    totals = []
    for _ in range(4):
        batches = await batches_of(source)
        nominal = np.full(len(source._ports), np.nan)
        measured = rates.update(batches, clock.now(), 1.0, nominal)
        port = source._ports.find(lab.a, "left")
        totals.append((measured.rate("tx_bytes")[port], int(batches[-1].counters["tx_bytes"][0])))
        await asyncio.to_thread(lab.send_udp, 100, 1000)
        clock.advance(1)
    await source.close()
    for (_, before), (rate, after) in pairwise(totals[1:]):
        assert rate == after - before
        assert 100_000 < rate < 110_000


async def test_a_shaper_shows_its_backlog_and_speed(lab):
    tc = ["tc", "-n", lab.a, "qdisc", "add", "dev", "left", "root", "tbf"]
    subprocess.run([*tc, "rate", "1mbit", "burst", "10kb", "limit", "1mb"], check=True, timeout=20)
    source = source_of(lab.a)
    idle = (await read(source))[lab.a, "left"]
    assert (idle["queue_bytes"], idle["speed_bps"]) == (0, 1e6)
    await asyncio.to_thread(lab.send_udp, 80, 1000)
    busy = (await read(source))[lab.a, "left"]
    await source.close()
    assert 20_000 < busy["queue_bytes"] <= 80 * 1042
    unshaped = source_of(lab.b)
    assert math.isnan((await read(unshaped))[lab.b, "right"]["queue_bytes"])
    await unshaped.close()


async def test_speeds_set_by_hand_win(lab):
    tc = ["tc", "-n", lab.a, "qdisc", "add", "dev", "left", "root", "tbf"]
    subprocess.run([*tc, "rate", "1mbit", "burst", "10kb", "limit", "1mb"], check=True, timeout=20)
    source = source_of(lab.a, lab.b, speed_bps={"l*": 5e6, "right": 7e6})
    found = await read(source)
    await source.close()
    assert found[lab.a, "left"]["speed_bps"] == 5e6
    assert found[lab.b, "right"]["speed_bps"] == 7e6


def test_drivers_are_asked_inside_the_namespace(lab):
    """A veth claims 10 Gb/s, which proves the call; the source does not believe it."""
    [sock] = open_sockets(lab.a, (0,))
    with sock:
        assert ask_speed(sock, "left") == 1e10
        assert math.isnan(ask_speed(sock, "right"))


async def test_names_that_are_swapped_in_flight(lab):
    ip("-n", lab.a, "link", "add", "idle0", "type", "veth", "peer", "idle1")
    await asyncio.to_thread(lab.send_udp, 400, 1000)
    clock, rates = ManualClock(), Rates()
    source = source_of(lab.a, clock=clock)
    measured = []

    async def tick():
        batches = await batches_of(source)
        size = len(source._ports)
        measured.append(rates.update(batches, clock.now(), 1.0, np.full(size, np.nan)))
        clock.advance(1)
        return batches[-1]

    for _ in range(3):
        assert (await tick()).discontinuity is None
    for old, new in (("left", "rename7"), ("idle0", "left")):
        ip("-n", lab.a, "link", "set", old, "down")
        ip("-n", lab.a, "link", "set", old, "name", new)
    swapped = await tick()
    ip("-n", lab.a, "link", "set", "rename7", "name", "idle0")
    again = await tick()
    await tick()
    await source.close()
    left, idle = (source._ports.find(lab.a, name) for name in ("left", "idle0"))
    assert source._ports.find(lab.a, "rename7") == -1
    assert source.dropped["transitional_name"] > 0
    assert swapped.discontinuity[swapped.port == left][0] > 0
    assert again.discontinuity[again.port == idle][0] > 0
    # Nothing was sent meanwhile, so any rate would be the difference between two interfaces.
    for reading in measured[3:]:
        for port in (left, idle):
            assert np.nan_to_num(reading.rate("tx_bytes"))[port] == 0
    assert measured[-1].total("tx_bytes")[idle] < 1000


async def test_an_interface_comes_and_goes(lab):
    source = source_of(lab.a)
    assert set(await read(source)) >= {(lab.a, "left")}
    ip("-n", lab.a, "link", "add", "late0", "type", "veth", "peer", "late1")
    assert (lab.a, "late0") in await read(source)
    ip("-n", lab.a, "link", "set", "late0", "up")
    ip("-n", lab.a, "link", "set", "late1", "up")
    assert (await read(source))[lab.a, "late0"]["oper_up"] == 1
    ip("-n", lab.a, "link", "set", "late1", "down")
    # The kernel tells of a lost carrier up to a second late.
    for _ in range(30):
        if (await read(source))[lab.a, "late0"]["oper_up"] == 0:
            break
        await asyncio.sleep(0.1)
    else:
        pytest.fail("the lost carrier was never seen")
    ip("-n", lab.a, "link", "del", "late0")
    assert (lab.a, "late0") not in await read(source)
    await source.close()


async def test_more_changes_than_a_socket_holds(lab):
    """The kernel drops notifications that nobody fetches; then everything is asked for anew."""
    source = source_of(lab.a)
    await read(source)
    lines = [f"link add p{n} type veth peer name q{n}" for n in range(150)]
    lines += ["link set p7 name p-seven", "link del p8"]
    command = ["ip", "-n", lab.a, "-batch", "-"]
    subprocess.run(command, input="\n".join(lines), text=True, check=True, timeout=60)
    names = {port for device, port in await read(source) if device == lab.a}
    await source.close()
    assert len(names) == 299
    assert "p-seven" in names
    assert not names & {"p7", "p8", "q8"}


async def test_a_namespace_replaced_by_one_of_the_same_name(lab):
    source = source_of(lab.a)
    await asyncio.to_thread(lab.send_udp, 50, 1000)
    first = await read(source)
    lab.down()
    alone = await read(source)
    assert not any(device == lab.a for device, _ in alone)
    assert source.dropped["namespace"] == 1
    lab.up()
    [batch] = [b for b in await batches_of(source) if source._ports.devices[b.port[0]] == lab.a]
    await source.close()
    assert batch.counters["tx_bytes"][0] < first[lab.a, "left"]["tx_bytes"]
    assert (batch.discontinuity > 0).all()


async def test_sockets_and_files_are_given_back(lab):
    before = open_files()
    source = source_of(lab.a, lab.b)
    assert open_files() == before
    for _ in range(3):
        await read(source)
        await source.close()
    assert open_files() == before


async def test_the_thread_pool_stays_in_its_own_namespace(lab):
    """Entering a namespace must not leave any thread of ours there."""
    source = source_of(lab.a, lab.b)
    await read(source)
    await source.close()
    own = Path("/proc/self/ns/net").readlink()
    tasks = Path("/proc/self/task").iterdir()
    assert {(task / "ns/net").readlink() for task in tasks} == {own}


async def test_five_hundred_interfaces_in_little_time(lab):
    """A coarse bound; bench/local_interfaces.py measures."""
    lines = "\n".join(f"link add p{n} type veth peer q{n}" for n in range(250))
    command = ["ip", "-n", lab.a, "-batch", "-"]
    subprocess.run(command, input=lines, text=True, check=True, timeout=60)
    source = source_of(lab.a)
    assert len(await read(source)) >= 501
    begin = time.process_time()
    for _ in range(20):
        await batches_of(source)
    spent = (time.process_time() - begin) / 20
    await source.close()
    assert spent < 0.02


class Recorded:
    """Answers with dumps of a recording instead of the kernel's."""

    def __init__(self):
        self.socket = socket.socket()
        self.rows = []

    def link_stats(self):
        rows = (
            rtnetlink.stats(index, [0, 0, octets, *[0] * 22]) for _, index, _, octets in self.rows
        )
        return read_messages(b"".join(rows))

    def links(self):
        rows = (rtnetlink.link(index, name, kind="veth") for _, index, name, _ in self.rows)
        return read_messages(b"".join(rows))

    def close(self):
        self.socket.close()


def test_specimen_of_a_rename():
    """Field specimen 91: every 10 s the links are asked anew, so that names are known in time."""
    samples = json.loads((CASES / "renamed-in-flight" / "samples.json").read_text())
    clock, ports, rates = ManualClock(), PortTable(), Rates()
    reader = Interfaces("host", None, EVERYTHING, clock, Losses(), queues=False)
    reader._netlink = Recorded()
    seen = {}
    for second in sorted({row[0] for row in samples}):
        reader._netlink.rows = [row for row in samples if row[0] == second]
        reader._refresh(reader._netlink)
        reading = reader.read()
        ids = np.array([ports.intern("host", name) for name in reading.names], np.int32)
        batch = reading.batch("linux", ids)
        measured = rates.update([batch], clock.now(), 10.0, np.full(len(ports), np.nan))
        seen[second] = dict(zip(ports.ports, measured.rate("rx_bytes").tolist(), strict=True))
        clock.advance(10)
    reader.close()
    assert ports.ports == ["eth1", "eth0", "eno1"]
    assert seen[10]["eth0"] == seen[30]["eno1"] == seen[40]["eno1"] == 100_000
    assert math.isnan(seen[20]["eno1"])
    assert math.isnan(seen[20]["eth1"])
    assert seen[30]["eth1"] == seen[40]["eth1"] == 100_000


async def test_the_machine_itself_needs_no_rights():
    source = source_of()
    found = await read(source)
    await source.close()
    assert ("host", "lo") not in found
    folders = {entry.name for entry in Path("/sys/class/net").iterdir() if entry.is_dir()}
    assert {name for _, name in found} == folders - {"lo"}


async def test_include_and_exclude():
    source = source_of(interfaces={"include": ["l*"], "exclude": []})
    assert set(await read(source)) == {("host", "lo")}
    await source.close()
    none = source_of(interfaces={"include": ["no-such"]})
    assert await read(none) == {}
    await none.close()


async def test_only_absent_namespaces_are_named_and_counted():
    source = source_of("no-such-namespace")
    await read(source)
    await read(source)
    assert source.dropped == {"namespace": 2}
    await source.close()


async def test_two_readings_at_once_are_refused():
    source = source_of()
    with source._busy, pytest.raises(SourceUnavailable) as caught:
        await read(source)
    assert caught.value.reason == "busy"


async def test_time_is_that_of_the_dump():
    clock = ManualClock()
    source = source_of(clock=clock)
    clock.advance(3)
    [batch] = await batches_of(source)
    await source.close()
    assert set(batch.time.tolist()) == {clock.now()}
    assert batch.received == clock.monotonic()


def test_the_constructor_opens_nothing():
    before = open_files()
    source_of("no-such-namespace", root=Path("/no/such/root"))
    assert open_files() == before


@pytest.mark.parametrize(
    "wrong",
    [{"interval": 0}, {"namespaces": ["a/b"]}, {"speed_bps": {"a": -1}}, {"port": 1}, {"name": ""}],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValidationError):
        LinuxConfig(**wrong)
