"""CPU of one reading of 500 interfaces, beside node_exporter's scrape of the same, in one run.

    sudo python bench/local_interfaces.py [--interfaces 500] [--rounds 50]

Makes a network namespace with veth pairs (needs root), runs Debian's prometheus-node-exporter with
the netdev collector alone inside it, and reads the same namespace with the linux source. The
exporter's CPU is utime + stime of its process over the scrapes, asked for as Prometheus does.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from classifier.store import load
from collector.clock import SteadyClock
from collector.ports import PortTable
from collector.record import Batch
from collector.sources.linux import LinuxConfig, LinuxSource
from collector.ticks import Window
from collector.topology import Topology
from exporters.bake import Baker, Form
from fabriclens.tick import Tick as WholeTick

Tick = Callable[[Sequence[Batch]], object]
"""What is done with the batches of one reading."""

EXPORTER = "prometheus-node-exporter"
ADDRESS = "127.0.0.1:9100"  # in a namespace of its own, so it cannot be taken
SCRAPE = """
import gzip, http.client, sys, time
for attempt in range(100):
    try:
        http.client.HTTPConnection(sys.argv[1], timeout=10).connect()
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
peer = http.client.HTTPConnection(sys.argv[1], timeout=30)
accept = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5"
for number in range(int(sys.argv[2])):
    peer.request("GET", "/metrics", headers={"Accept": accept, "Accept-Encoding": sys.argv[3]})
    answer = peer.getresponse()
    body = answer.read()
if answer.headers.get("Content-Encoding") == "gzip":
    body = gzip.decompress(body)
print(body.count(b"node_network_receive_bytes_total{"))
"""


def make_namespace(name: str, interfaces: int) -> None:
    lines = ["link set lo up"]
    for number in range(interfaces // 2):
        lines.append(f"link add a{number} type veth peer name b{number}")
        lines += [f"link set {side}{number} up" for side in "ab"]
    subprocess.run(["ip", "netns", "add", name], check=True)
    command = ["ip", "-n", name, "-batch", "-"]
    subprocess.run(command, input="\n".join(lines), text=True, check=True)


def cpu_seconds(pid: int) -> float:
    """utime + stime of a process and all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scrape(namespace: str, rounds: int, encoding: str) -> int:
    """Scrape from inside; how many interfaces the answer names."""
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", SCRAPE]
    arguments = [ADDRESS, str(rounds), encoding]
    done = subprocess.run([*command, *arguments], check=True, capture_output=True, text=True)
    return int(done.stdout)


def exporter(namespace: str, rounds: int) -> tuple[int, dict[str, float]]:
    """Interfaces, and seconds of CPU a scrape by encoding."""
    command = ["ip", "netns", "exec", namespace, EXPORTER, f"--web.listen-address={ADDRESS}"]
    command += ["--collector.disable-defaults", "--collector.netdev"]
    spent = {}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            count = scrape(namespace, 3, "identity")
            for encoding in ("gzip", "identity"):
                begin = cpu_seconds(process.pid)
                scrape(namespace, rounds, encoding)
                spent[encoding] = (cpu_seconds(process.pid) - begin) / rounds
        finally:
            process.terminate()
    return count, spent


async def source(
    namespace: str, rounds: int, tick: Callable[[PortTable], Tick] | None = None
) -> tuple[int, float, float]:
    """Interfaces, seconds of CPU a reading, and of a reading with the tick that follows it."""
    ports = PortTable()
    config = LinuxConfig(namespaces=(namespace,), infiniband=False, interfaces={"exclude": []})
    reader = LinuxSource(config, ports, SteadyClock())
    run = tick(ports) if tick else None
    reading = whole = 0.0
    for number in range(rounds + 3):
        begin = time.process_time()
        batches = [batch async for batch in reader.collect()]
        read = time.process_time()
        if run is not None:
            run(batches)
        end = time.process_time()
        if number >= 3:
            reading += read - begin
            whole += end - begin
    await reader.close()
    count = max(len(batch) for batch in batches)
    return count, reading / rounds, whole / rounds


def whole_tick(ports: PortTable) -> Tick:
    """Takes batches through rates, labels, congestion and routes to gzipped metrics."""
    tick, baker = WholeTick(ports, Topology(), load(None)), Baker()
    form = Form(openmetrics=False, gzip=True)

    def run(batches: Sequence[Batch]) -> None:
        end = int(batches[0].time.max())
        baker.bake(tick.run(Window(end, 1.0, tuple(batches)))).make(form)

    return run


def main(tick: Callable[[PortTable], Tick] | None = None) -> None:
    """tick: makes, for a port table, what takes batches on to baked metrics."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--interfaces", type=int, default=500)
    options.add_argument("--rounds", type=int, default=50)
    chosen = options.parse_args()
    if os.geteuid() != 0 or shutil.which(EXPORTER) is None:
        print(f"left out: needs root, and Debian's {EXPORTER}")
        return
    namespace = f"fabriclens-bench-{os.getpid()}"
    try:
        make_namespace(namespace, chosen.interfaces)
        count, theirs = exporter(namespace, chosen.rounds)
        mine, reading, whole = asyncio.run(source(namespace, chosen.rounds, tick))
    finally:
        subprocess.run(["ip", "netns", "del", namespace], check=False)
    if min(mine, count) < chosen.interfaces:
        raise SystemExit(f"not the same interfaces: {mine} here, {count} there")
    print(
        f"{chosen.interfaces} interfaces, CPU each time: node_exporter "
        f"{theirs['gzip'] * 1e3:.1f} ms (gzip, as Prometheus asks), "
        f"{theirs['identity'] * 1e3:.1f} ms (plain)"
    )
    print(f"linux source: {reading * 1e3:.2f} ms, {reading / theirs['gzip']:.3f} of that")
    if tick is not None:
        print(f"with the whole tick: {whole * 1e3:.2f} ms, {whole / theirs['gzip']:.3f} of that")


if __name__ == "__main__":
    main(whole_tick)
