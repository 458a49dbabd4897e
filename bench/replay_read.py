"""Reading traces: our reader and the replay source beside pyarrow alone, on the same files.

Run: python bench/replay_read.py [TRACE ...]; without a trace it makes two files, one sorted by time
(2 million rows, 8 counters) and one sorted by port (600 thousand rows).
"""

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from collector.clock import SteadyClock
from collector.counters import CUMULATIVE
from collector.ports import PortTable
from collector.record import Batch
from collector.recorder import Recorder
from collector.sources.replay import ReplayConfig, ReplaySource
from collector.trace import Trace

START = 1_780_272_000_000_000_000


def batch(ports: PortTable, step: int, counters: int) -> Batch:
    size = len(ports)
    rng = np.random.default_rng(step)
    moved = np.uint64(step) * np.arange(1, size + 1, dtype=np.uint64)
    return Batch(
        "bench",
        START + step * 1_000_000_000 + rng.integers(0, 50_000_000, size),
        np.arange(size, dtype=np.int32),
        {name: moved * np.uint64(1 + row) for row, name in enumerate(CUMULATIVE[:counters])},
    )


def record(folder: Path, ports: int, steps: int, counters: int) -> None:
    table = PortTable()
    for port in range(ports):
        table.intern(f"leaf-{port // 64}", f"swp{port % 64}")
    recorder = Recorder(folder, table, rotate_rows=1 << 22)
    batches = [batch(table, step, counters) for step in range(steps)]
    began = time.perf_counter()
    for one in batches:
        recorder.write(one)
    recorder.close()
    seconds = time.perf_counter() - began
    print(
        f"recorder, {counters} counters: {recorder.counts.rows / seconds:,.0f} rows/s, "
        f"{recorder.counts.bytes / recorder.counts.rows:.1f} bytes a row"
    )


def by_port(source: Path, target: Path) -> None:
    table = pq.read_table(source)
    port = table["port"].combine_chunks().dictionary_encode().indices.to_numpy()
    device = table["device"].combine_chunks().dictionary_encode().indices.to_numpy()
    when = table["time"].cast(pa.int64()).to_numpy()
    pq.write_table(table.take(np.lexsort((when, port, device))), target, compression="zstd")


def fastest(work: object, repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def pyarrow_alone(path: Path) -> None:
    for file in sorted(path.glob("counters*.parquet")) if path.is_dir() else [path]:
        pq.read_table(file)


def our_reader(path: Path) -> None:
    for one in Trace.open(path, PortTable()).batches():
        len(one)


def our_replay(path: Path) -> None:
    async def run() -> None:
        config = ReplayConfig(path=path, speed="max")
        async for one in ReplaySource(config, PortTable(), SteadyClock()).collect():
            len(one)

    asyncio.run(run())


def compare(path: Path) -> None:
    trace = Trace.open(path, PortTable())
    print(f"{path.name}: {trace.rows:,} rows sorted by {trace.order}, {len(trace.columns)} columns")
    yardstick = fastest(lambda: pyarrow_alone(path))
    for name, work in (
        ("pyarrow alone", pyarrow_alone),
        ("trace reader", our_reader),
        ("replay source", our_replay),
    ):
        seconds = fastest(lambda work=work: work(path))
        print(
            f"  {name:14} {seconds:6.3f} s  {trace.rows / seconds:12,.0f} rows/s  "
            f"{seconds / yardstick:5.2f} x pyarrow"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="*", type=Path)
    given = parser.parse_args().trace
    with tempfile.TemporaryDirectory() as place:
        if not given:
            given = [Path(place) / "time", Path(place) / "small", Path(place) / "port.parquet"]
            record(given[0], ports=20_000, steps=100, counters=8)
            record(given[1], ports=600, steps=1000, counters=8)
            by_port(given[1] / "counters-000001.parquet", given[2])
        for path in given:
            compare(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {peak:.0f} MB")


if __name__ == "__main__":
    main()
