"""What is recorded and replayed again gives the same rates."""

import asyncio

import numpy as np
import pytest

from collector.errors import SourceUnavailable
from collector.sources.linux import LinuxConfig
from collector.sources.replay import ReplayConfig
from fabriclens.config import Config
from fabriclens.offline import Replay, replay
from fabriclens.recording import record
from tests.fabriclens.traces import same


def frames_of(trace):
    frames = []
    asyncio.run(replay(Replay(trace=trace, tick=0.1), each=frames.append))
    return frames


def test_a_recording_replays_to_the_same_frames(root, tmp_path):
    """A real capture, recorded through the daemon's own path, then replayed."""
    original = root / "replay_data/parameter_server"
    topology = original / "topology.json"
    source = ReplayConfig(path=original, speed="max")
    config = Config(sources=(source,), topology=topology)
    rows = asyncio.run(record(config, tmp_path / "copy"))
    first, again = frames_of(original), frames_of(tmp_path / "copy")

    assert rows > 50_000
    assert len(first) == len(again)
    for one, other in zip(first, again, strict=True):
        same(one, other)


def test_recording_this_machine_gives_a_readable_trace(tmp_path):
    rows = asyncio.run(record(Config(), tmp_path / "live", seconds=2.5))
    frames = frames_of(tmp_path / "live") if rows else []

    for frame in frames:
        rates = frame.measured.rate("rx_bytes")
        assert (rates[~np.isnan(rates)] >= 0).all()


def test_a_recording_of_nothing_is_an_error(tmp_path):
    blind = LinuxConfig(root=tmp_path / "nowhere", infiniband=False)
    with pytest.raises(SourceUnavailable, match="nothing was recorded"):
        asyncio.run(record(Config(sources=(blind,)), tmp_path / "out", seconds=0.5))
