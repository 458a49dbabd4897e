"""The contract of every registered source."""

import asyncio
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blockbuster import blockbuster_ctx

from collector.channel import Channel
from collector.clock import SteadyClock
from collector.errors import ConfigError
from collector.ports import PortTable
from collector.sources import KINDS, Source, load
from collector.supervise import Supervisor

REPLAYED = {"path": "trace", "loop": True}
"""A source that needs more than its defaults to run says here what."""
OPTIONS: dict[str, dict[str, Any]] = {"replay": REPLAYED}


def made(kind: str) -> Source:
    model, factory = load(kind)
    config = model.model_validate({"kind": kind, **OPTIONS.get(kind, {})})
    return factory(config, PortTable(), SteadyClock())


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace of two ports at 100 Hz in the folder `trace`, which is where the test runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace").mkdir()
    step = np.repeat(np.arange(100), 2)
    table = pa.table(
        {
            "time": pa.array(1_780_272_000_000_000_000 + step * 10_000_000),
            "device": pa.array(["leaf"] * 200),
            "port": pa.array(["swp1", "swp2"] * 100),
            "tx_bytes": pa.array(step.astype(np.uint64)),
        }
    )
    pq.write_table(table, tmp_path / "trace" / "counters.parquet")


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="linux, replay"):
        load("carrier-pigeon")


def test_a_source_is_imported_only_when_asked_for() -> None:
    script = (
        "import sys, collector.sources;"
        "print([m for m in sys.modules if m.startswith('collector.sources.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", KINDS)
def test_the_configuration_is_documented_and_strict(kind: str) -> None:
    model, _ = load(kind)
    assert model.model_fields["kind"].default == kind
    assert model.model_config.get("frozen")
    assert model.model_config.get("extra") == "forbid"
    assert model.__doc__
    undocumented = [
        name
        for name, field in model.model_fields.items()
        if not field.description and name != "kind"
    ]
    assert not undocumented
    with pytest.raises(ValueError, match="no_such_option"):
        model.model_validate({"kind": kind, **OPTIONS.get(kind, {}), "no_such_option": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_starts_inert(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load(kind)

    def touched(*_: object, **__: object) -> None:
        raise AssertionError("a constructor reached for the world")

    monkeypatch.setattr("builtins.open", touched)
    monkeypatch.setattr("os.open", touched)
    monkeypatch.setattr("os.stat", touched)
    monkeypatch.setattr("os.listdir", touched)
    monkeypatch.setattr(socket, "socket", touched)
    source = made(kind)
    assert source.name
    assert source.interval is None or source.interval > 0
    source.collect()


@pytest.mark.parametrize("kind", KINDS)
async def test_batches_keep_the_contract(kind: str, trace: None) -> None:
    source = made(kind)
    stream = source.collect()
    async with asyncio.timeout(10):
        batch = await anext(stream)
    await stream.aclose()
    await source.close()
    batch.check()
    assert len(batch)
    assert batch.counters


@pytest.mark.parametrize("kind", KINDS)
async def test_a_supervised_source_neither_blocks_nor_outstays(kind: str, trace: None) -> None:
    channel = Channel(100_000)
    source = made(kind)
    with blockbuster_ctx() as blockers:
        blockers.activate()
        supervisor = Supervisor(source, channel, SteadyClock(), strict=True)
        task = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(10):
            assert await channel.get() is not None
        await asyncio.sleep(0.05)
        assert not task.done()
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert time.monotonic() - began < 1
    assert not supervisor.health.failures
