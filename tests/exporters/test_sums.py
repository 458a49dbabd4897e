"""Sums: exact in 64 bits, monotone when ports fall silent."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.counters import CUMULATIVE_INDEX
from exporters.sums import DeviceSums, LabelBytes
from tests.exporters.frames import small_frame


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**58), st.booleans()), max_size=20))
def test_device_sums_against_plain_python(table):
    device = np.array([row[0] for row in table], dtype=np.int32)
    totals = np.array([row[1] for row in table], dtype=np.uint64)
    present = np.array([row[2] for row in table], dtype=np.bool_)
    owners, sums = DeviceSums().of(device, totals, present)
    expected: dict[int, int] = {}
    for owner, total, have in table:
        if have:
            expected[owner] = expected.get(owner, 0) + total
    assert dict(zip(owners.tolist(), sums.tolist(), strict=True)) == expected


def test_a_changed_fabric_is_noticed():
    sums = DeviceSums()
    totals, present = np.array([1, 2], dtype=np.uint64), np.array([True, True])
    sums.of(np.array([0, 0], dtype=np.int32), totals, present)
    owners, found = sums.of(np.array([0, 1], dtype=np.int32), totals, present)
    assert (owners.tolist(), found.tolist()) == ([0, 1], [1, 2])


def test_bytes_by_label_are_what_the_totals_grew_by():
    """Whatever rate a port still shows: only bytes that were counted are labelled."""
    sums = LabelBytes()
    sums.add(small_frame())
    assert sums.sums.sum() == 3000
    again = small_frame()
    sums.add(again)
    assert sums.sums.sum() == 3000
    again.measured.totals[CUMULATIVE_INDEX["tx_bytes"], 0] += np.uint64(500)
    sums.add(again)
    assert sums.sums.sum() == 3500
