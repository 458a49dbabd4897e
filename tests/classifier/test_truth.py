"""True byte shares, against sums done by hand."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.truth import logged_bytes, read_calls, shares, spread
from collector.errors import TraceError

MS = 1_000_000


def write(path, rows):
    names = ("start", "end", "device", "port", "label", "active_start", "wire_end", "tx_bytes",
             "rx_bytes")  # fmt: skip
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    arrays = {
        name: pa.array(column, pa.timestamp("ns", "UTC"))
        if name in ("start", "end", "active_start", "wire_end")
        else pa.array(column)
        for name, column in columns.items()
    }
    pq.write_table(pa.table(arrays), path)
    return path


def test_calls_are_spread_over_the_time_in_which_they_could_flow(tmp_path):
    # 1,000 B of gradients from 50 to 150 ms; 600 B of parameters from 100 to 400 ms, of which the
    # call itself began at 0; another port must not count.
    path = write(
        tmp_path / "labels.parquet",
        [
            (0, 150 * MS, "h0", "eth0", "gradient_update", 50 * MS, 150 * MS, 400, 600),
            (0, 400 * MS, "h0", "eth0", "parameter_sync", 100 * MS, 400 * MS, 300, 300),
            (0, 400 * MS, "h1", "eth0", "all_to_all", 0, 400 * MS, 9000, 9000),
        ],
    )
    edges = np.array([0, 100, 200, 300, 400, 500]) * MS
    logged = logged_bytes(read_calls(path), "h0", "eth0", edges)
    np.testing.assert_allclose(logged[:, 0], [0, 200, 200, 200, 0])
    np.testing.assert_allclose(logged[:, 1], [500, 500, 0, 0, 0])
    np.testing.assert_allclose(logged[:, 2:], 0)
    share = shares(logged, np.array([510.0, 720, 200, 200, 90]))
    np.testing.assert_allclose(share[1], [200 / 700, 500 / 700, 0, 0])
    np.testing.assert_allclose(share[4], [0, 0, 0, 1])  # bytes that nobody logged


def test_a_few_logged_bytes_do_not_claim_a_window():
    share = shares(np.array([[5.0, 0, 0, 0], [5.0, 0, 0, 0]]), np.array([1000.0, 100.0]))
    np.testing.assert_allclose(share, [[0, 0, 0, 1], [1, 0, 0, 0]])


@given(
    st.lists(
        st.tuples(st.integers(0, 900), st.integers(1, 400), st.integers(0, 10**7)), min_size=1
    ),
    st.integers(7, 90),
)
def test_every_byte_lands_in_some_window(calls, width):
    start = np.array([call[0] for call in calls], dtype=np.int64) * MS
    end = start + np.array([call[1] for call in calls], dtype=np.int64) * MS
    volume = np.array([call[2] for call in calls], dtype=float)
    edges = np.arange(0, 1400 + width, width, dtype=np.int64) * MS
    windows = spread(start, end, volume, edges)
    assert (windows >= -1e-6 * max(volume.sum(), 1)).all()
    np.testing.assert_allclose(windows.sum(), volume.sum(), rtol=1e-9, atol=1e-6)


def test_a_label_outside_the_taxonomy_is_named(tmp_path):
    path = write(tmp_path / "labels.parquet", [(0, 9, "h0", "e", "storage", 0, 9, 1, 1)])
    with pytest.raises(TraceError, match=r"labels\.parquet.*'storage'"):
        read_calls(path)
