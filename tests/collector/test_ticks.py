"""Samples are cut into ticks by their own time, however they were chunked."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.record import Batch
from collector.ticks import LONGEST_SILENCE, TickCutter

NS = 1_000_000_000
EPOCH = 1_700_000_000 * NS


def at(*seconds):
    time = np.array([EPOCH + round(second * NS) for second in seconds], np.int64)
    return Batch("test", time, np.zeros(len(time), np.int32), {})


def seconds(window):
    return [float((time - EPOCH) / NS) for batch in window.batches for time in batch.time.tolist()]


def test_a_tick_holds_what_came_after_the_one_before_up_to_its_end():
    cutter = TickCutter(1.0)
    cutter.push(at(0.5, 1.0, 1.1, 2.0, 2.1))

    first, second = cutter.advance(EPOCH + 2 * NS)
    assert seconds(first) == [0.5, 1.0]
    assert seconds(second) == [1.1, 2.0]
    assert second.end == EPOCH + 2 * NS


def test_ticks_without_samples_are_handed_out_too():
    cutter = TickCutter(1.0)
    cutter.push(at(0.5, 4.5))

    assert [seconds(window) for window in cutter.flush()] == [[0.5], [], [], [], [4.5]]


def test_a_corrupt_time_does_not_make_millions_of_ticks():
    cutter = TickCutter(1.0)
    cutter.push(at(0.5, 5_000_000.5))

    windows = cutter.flush()
    assert len(windows) <= LONGEST_SILENCE + 2
    assert seconds(windows[-1]) == [5_000_000.5]


def test_late_samples_go_into_the_next_tick_and_are_counted():
    cutter = TickCutter(1.0)
    cutter.push(at(0.5))
    cutter.advance(EPOCH + NS)
    cutter.push(at(0.7, 1.5))

    assert seconds(cutter.advance(EPOCH + 2 * NS)[0]) == [0.7, 1.5]
    assert cutter.late_rows == 1


def test_live_a_clock_that_is_far_ahead_does_not_hold_its_samples_back():
    cutter = TickCutter(1.0, horizon=5.0)
    cutter.push(at(0.5))
    cutter.push(at(43_200.0))

    assert seconds(cutter.advance(EPOCH + NS)[0]) == [0.5, 43_200.0]


@given(
    st.lists(st.floats(0, 20), min_size=1, max_size=40),
    st.integers(1, 7),
    st.sampled_from([0.1, 0.5, 1.0, 7.0]),
)
def test_every_sample_is_in_its_tick_whatever_the_chunks(times, chunk, tick):
    cutter = TickCutter(tick)
    ordered = sorted(times)
    windows = []
    for start in range(0, len(ordered), chunk):
        part = at(*ordered[start : start + chunk])
        cutter.push(part)
        windows += cutter.advance(int(part.time[-1]) - 1)
    windows += cutter.flush()

    assert sorted(round(time, 9) for window in windows for time in seconds(window)) == [
        round(time, 9) for time in ordered
    ]
    for window in windows:
        for batch in window.batches:
            assert (batch.time <= window.end).all()
            assert (batch.time > window.end - round(tick * NS)).all()
    assert cutter.late_rows == 0
