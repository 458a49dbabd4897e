"""Small traces made by hand, whose findings can be worked out on paper."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

NS = 1_000_000_000
START = 1_700_000_000 * NS
SECONDS = 20
STEP = 12_500_000
"""Bytes a second: a tenth of 1 Gb/s."""


def write_small(folder):
    """A host and its leaf on a 1 Gb/s link, sampled every second for 20 s.

    The host sends 12.5 MB a second and receives nothing. The leaf's receive counter is cleared
    between seconds 9 and 10, after which it shows the 12.5 MB of the last second.
    """
    rows = []
    for second in range(SECONDS):
        sent = 1000 + second * STEP
        seen = 77 + second * STEP if second < 10 else (second - 9) * STEP
        rows.append((second, "h0", "eth0", sent, 5))
        rows.append((second, "leaf0", "p1", 9, seen))
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "time": pa.array([START + row[0] * NS for row in rows], pa.timestamp("ns", tz="UTC")),
            "device": pa.array([row[1] for row in rows]).dictionary_encode(),
            "port": pa.array([row[2] for row in rows]).dictionary_encode(),
            "tx_bytes": pa.array([row[3] for row in rows], pa.uint64()),
            "rx_bytes": pa.array([row[4] for row in rows], pa.uint64()),
        }
    )
    pq.write_table(table, folder / "counters.parquet", compression="zstd")
    topology = {
        "devices": [{"name": "h0", "role": "host"}, {"name": "leaf0", "role": "leaf"}],
        "links": [
            {
                "a": {"device": "h0", "port": "eth0"},
                "b": {"device": "leaf0", "port": "p1"},
                "speed_bps": 1e9,
            }
        ],
    }
    (folder / "topology.json").write_text(json.dumps(topology))
    return folder


HOST_TOTAL = (SECONDS - 1) * STEP
LEAF_TOTAL = 9 * STEP + STEP + (SECONDS - 11) * STEP
"""Nine whole seconds, what was counted since the reset, and nine seconds more."""


def same(one, other):
    """Two frames are equal in every array."""
    for part in ("measured", "labels", "congestion"):
        left, right = getattr(one, part), getattr(other, part)
        for name in left.__slots__:
            a, b = getattr(left, name), getattr(right, name)
            if isinstance(a, np.ndarray):
                np.testing.assert_array_equal(a, b, f"{part}.{name}")
            else:
                assert a == b, f"{part}.{name}"
    assert one.suggestions == other.suggestions
    assert (one.number, one.time, one.devices) == (other.number, other.time, other.devices)
