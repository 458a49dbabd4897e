"""The running daemon, scraped by a real Prometheus: its query API gives the trace's values."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from shutil import which

import aiohttp
import pytest

from collector.errors import ConfigError
from collector.sources.linux import LinuxConfig
from collector.sources.replay import ReplayConfig
from fabriclens.config import Config, HttpConfig
from fabriclens.daemon import Daemon
from tests.fabriclens.traces import HOST_TOTAL, LEAF_TOTAL, write_small

PROMETHEUS = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: fabriclens
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""


def config(**update):
    return Config(http=HttpConfig(port=0)).model_copy(update=update)


@contextlib.asynccontextmanager
async def running(chosen):
    daemon, stop = Daemon(chosen), asyncio.Event()
    task = asyncio.create_task(daemon.run(stop))
    try:
        async with asyncio.timeout(20):
            while daemon.board.newest is None and not task.done():
                await asyncio.sleep(0.05)
        yield daemon
    finally:
        stop.set()
        await task


def replaying(trace, **options):
    return (ReplayConfig(path=trace, **options),)


@pytest.fixture
def prometheus(tmp_path, free_port):
    """Starts a Prometheus that scrapes a port; gives a function to query it."""
    if which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    started = []

    def start(target):
        settings = tmp_path / "prometheus.yml"
        settings.write_text(PROMETHEUS.format(port=target))
        log = (tmp_path / "prometheus.log").open("wb")
        started.append(
            subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={settings}",
                    f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{free_port}",
                ],
                stdout=log,
                stderr=log,
            )
        )
        log.close()

        async def query(expression):
            url = f"http://127.0.0.1:{free_port}/api/v1/query"
            async with aiohttp.ClientSession() as client:
                async with client.get(url, params={"query": expression}) as answer:
                    found = json.loads(await answer.read())["data"]["result"]
            return [float(one["value"][1]) for one in found]

        return query

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


async def test_prometheus_reads_what_the_trace_implies(tmp_path, prometheus):
    trace = write_small(tmp_path / "trace")
    async with running(config(sources=replaying(trace, speed=4.0))) as daemon:
        query = prometheus(daemon.http.address[1])
        expected = {
            'fabriclens_port_transmit_bytes_total{device="h0",port="eth0"}': HOST_TOTAL,
            'fabriclens_port_receive_bytes_total{device="leaf0",port="p1"}': LEAF_TOTAL,
            'fabriclens_port_utilization_ratio{device="h0",direction="transmit"}': 0.1,
            'fabriclens_port_utilization_ratio{device="leaf0",direction="receive"}': 0.1,
            'fabriclens_port_speed_bytes_per_second{device="h0"}': 1.25e8,
            'fabriclens_events_total{reason="reset"}': 1,
            'fabriclens_source_rows_total{source="replay"}': 40,
            'up{job="fabriclens"}': 1,
        }
        found = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(18):
                while found != pytest.approx(expected):
                    await asyncio.sleep(0.4)
                    with contextlib.suppress(aiohttp.ClientError, KeyError):
                        for expression in expected:
                            answer = await query(expression)
                            found[expression] = answer[0] if len(answer) == 1 else None
        assert pytest.approx(expected) == found


async def test_exposition_is_clean(tmp_path):
    if which("promtool") is None:
        pytest.skip("promtool is not installed")
    trace = write_small(tmp_path / "trace")
    async with running(config(sources=replaying(trace, speed=4.0))) as daemon:
        await asyncio.sleep(1)
        async with aiohttp.ClientSession() as client:
            url = f"http://127.0.0.1:{daemon.http.address[1]}/metrics"
            async with client.get(url) as answer:
                text = await answer.read()
    checked = await asyncio.to_thread(
        subprocess.run, ["promtool", "check", "metrics"], input=text, capture_output=True
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


async def test_live_counters_of_this_machine():
    async with running(config(tick=0.5)) as daemon:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{daemon.http.address[1]}") as client:
            await asyncio.sleep(2)
            async with client.get("/readyz") as ready:
                assert ready.status == 200
            async with client.get("/metrics") as answer:
                text = await answer.text()
    assert 'fabriclens_source_up{source="linux"} 1' in text


async def test_a_port_in_use_is_said(tmp_path):
    trace = write_small(tmp_path / "trace")
    async with running(config(sources=replaying(trace, loop=True))) as daemon:
        taken = HttpConfig(port=daemon.http.address[1])
        with pytest.raises(ConfigError, match="cannot listen"):
            await Daemon(config(sources=replaying(trace), http=taken)).run(asyncio.Event())


def test_a_missing_model_dies_before_anything_listens(tmp_path):
    with pytest.raises(ConfigError, match="model"):
        Daemon(config(model=tmp_path / "no-model.skops"))


def test_sigterm_ends_the_daemon_in_good_order(tmp_path, free_port):
    trace = write_small(tmp_path / "trace")
    process = subprocess.Popen(
        [
            sys.executable, "-m", "fabriclens.cli", "run", "--replay", str(trace),
            "--port", str(free_port),
        ],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    for line in process.stderr:
        if b"serving" in line:
            break
    process.send_signal(signal.SIGTERM)

    _, rest = process.communicate(timeout=10)
    assert process.returncode == 0, rest
    assert b"Traceback" not in rest


async def test_not_ready_while_no_source_works(tmp_path):
    blind = LinuxConfig(root=tmp_path / "nowhere", infiniband=False)
    async with running(config(sources=(blind,), tick=0.2)) as daemon:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{daemon.http.address[1]}") as client:
            async with client.get("/readyz") as answer:
                said = await answer.json()
                assert answer.status == 503
            async with client.get("/healthz") as answer:
                assert answer.status == 200

    assert "no source works (linux:" in said["reason"]
