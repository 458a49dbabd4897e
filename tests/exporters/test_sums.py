"""Sums: exact in 64 bits, monotone when ports fall silent."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from exporters.sums import DeviceSums, bytes_by_label
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


def test_bytes_of_silent_ports_do_not_count():
    frame = small_frame()
    assert bytes_by_label(frame).sum() == 3000
    frame.measured.live[:] = False
    assert bytes_by_label(frame).sum() == 0
