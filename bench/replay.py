"""Replay at full speed, end to end: from Parquet to written findings, beside pyarrow alone.

    python bench/replay.py [TRACE ...]

Without a trace: a bundled recording (24 ports every 10 ms), and two that it makes: a leaf pair with
512 ports every 50 ms and a pod of 4,096 ports every second. Port rows per second count everything
but the start of the process: opening, rates, labels, congestion, routes, Frame, findings.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as the command does
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fabriclens.offline import Replay, replay

ROOT = Path(__file__).resolve().parent.parent
START = 1_780_272_000_000_000_000


def make(folder, ports, seconds, interval):
    """A trace of ports at 400 Gb/s that are busy in bursts."""
    folder.mkdir()
    random = np.random.default_rng(2)
    steps = round(seconds / interval)
    phase = random.random(ports)
    busy = ((np.arange(steps)[:, None] * interval / 2 + phase) % 1 < 0.5) & (phase < 0.8)
    octets = (busy * random.random((steps, ports)) * 40e9 * interval).astype(np.uint64)
    columns = {
        "time": pa.array(np.repeat(START + np.arange(steps) * round(interval * 1e9), ports)),
        "device": names("leaf-%d", np.tile(np.arange(ports) // 64, steps)),
        "port": names("swp%d", np.tile(np.arange(ports) % 64, steps)),
        "tx_bytes": octets.cumsum(axis=0, dtype=np.uint64).ravel(),
        "rx_bytes": np.roll(octets, 1, axis=1).cumsum(axis=0, dtype=np.uint64).ravel(),
        "tx_packets": (octets // 4096).cumsum(axis=0, dtype=np.uint64).ravel(),
        "rx_packets": (octets // 4000).cumsum(axis=0, dtype=np.uint64).ravel(),
        "speed_bps": np.full(steps * ports, 400_000_000_000, np.uint64),
    }
    table = pa.table(columns)
    table = table.set_column(0, "time", table["time"].cast(pa.timestamp("ns", tz="UTC")))
    pq.write_table(table, folder / "counters.parquet", compression="zstd", row_group_size=1 << 17)
    return folder


def names(pattern, numbers):
    known = [pattern % number for number in range(int(numbers.max()) + 1)]
    return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), pa.array(known))


def measure(trace, out):
    file = trace / "counters.parquet"
    begun = time.perf_counter()
    rows = pq.read_table(file).num_rows
    alone = time.perf_counter() - begun
    begun, cpu = time.perf_counter(), time.process_time()
    summary = asyncio.run(replay(Replay(trace=trace, out=out)))
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    print(
        f"{trace.name}: {rows} rows, {summary['ports']} ports, {summary['ticks']} ticks of "
        f"{summary['tick_seconds']:g} s: {rows / wall:,.0f} rows/s ({cpu / wall:.2f} cores); "
        f"pyarrow alone {rows / alone:,.0f} rows/s, {wall / alone:.0f} times faster"
    )


def main(traces):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        chosen = traces or [
            ROOT / "replay_data/ddp",
            make(folder / "leaves", 512, 20, 0.05),
            make(folder / "pod", 4096, 120, 1.0),
        ]
        measure(ROOT / "replay_data/ddp", folder / "warm")
        for trace in chosen:
            measure(trace, folder / "out")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
