"""The queue between sources and the tick: bounded, and honest about what it lost."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.channel import Channel
from collector.record import Batch


def batch(rows: int, first: int = 0) -> Batch:
    time = np.arange(first, first + rows, dtype=np.int64)
    return Batch("test", time, np.zeros(rows, np.int32), {"tx_bytes": time.astype(np.uint64)})


def test_the_oldest_batches_go_and_are_counted() -> None:
    channel = Channel(10)
    for first in (0, 4, 8, 12):
        channel.put(batch(4, first))
    assert (channel.depth, channel.dropped_rows, channel.dropped_batches) == (8, 8, 2)
    assert [int(one.time[0]) for one in channel.drain()] == [8, 12]
    assert (channel.depth, channel.received_rows) == (0, 16)


def test_a_batch_larger_than_the_channel_passes_alone() -> None:
    channel = Channel(10)
    channel.put(batch(3))
    channel.put(batch(50))
    assert [len(one) for one in channel.drain()] == [50]
    assert channel.dropped_rows == 3


def test_an_empty_batch_is_nothing() -> None:
    channel = Channel(10)
    channel.put(batch(0))
    assert channel.drain() == []


def test_a_channel_without_room_is_refused() -> None:
    with pytest.raises(ValueError):
        Channel(0)


@given(st.lists(st.integers(0, 30), max_size=40))
def test_no_row_is_unaccounted_for(sizes: list[int]) -> None:
    channel = Channel(40)
    for size in sizes:
        channel.put(batch(size))
        assert channel.depth <= 40
    left = sum(map(len, channel.drain()))
    assert channel.received_rows == sum(sizes) == left + channel.dropped_rows


async def test_get_waits_for_a_batch_and_ends_with_the_channel() -> None:
    channel = Channel(10)
    waiting = asyncio.create_task(channel.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    channel.put(batch(2))
    got = await asyncio.wait_for(waiting, 1)
    assert got is not None
    assert len(got) == 2
    channel.put(batch(1))
    channel.close()
    assert await channel.get() is not None
    assert await asyncio.wait_for(channel.get(), 1) is None


async def test_close_wakes_whoever_waits() -> None:
    channel = Channel(10)
    waiting = asyncio.create_task(channel.get())
    await asyncio.sleep(0)
    channel.close()
    assert await asyncio.wait_for(waiting, 1) is None


async def test_send_waits_for_room_and_drops_nothing() -> None:
    channel = Channel(10)

    async def produce() -> None:
        for first in range(0, 400, 4):
            await channel.send(batch(4, first))
        channel.close()

    producer = asyncio.create_task(produce())
    seen: list[int] = []
    while (one := await channel.get()) is not None:
        assert channel.depth <= 10
        seen += one.time.tolist()
        await asyncio.sleep(0)
    await producer
    assert seen == list(range(400))
    assert channel.dropped_rows == 0


async def test_several_senders_keep_within_the_bound() -> None:
    channel = Channel(10)

    async def produce(start: int) -> None:
        for first in range(0, 40, 4):
            await channel.send(batch(4, start + first))

    senders = [asyncio.create_task(produce(1000 * number)) for number in range(3)]
    seen: list[int] = []
    while len(seen) < 120:
        one = await asyncio.wait_for(channel.get(), 1)
        assert one is not None
        assert channel.depth <= 10
        seen += one.time.tolist()
    await asyncio.gather(*senders)
    assert len(set(seen)) == 120
