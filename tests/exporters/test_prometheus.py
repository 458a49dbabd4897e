"""A real Prometheus scrapes a hand-made frame, and its query API gives the values back."""

import asyncio
import json
import subprocess
from shutil import which

import aiohttp
import pytest

from exporters.bake import Baker
from exporters.board import Board
from exporters.http import HttpExporter
from tests.exporters.frames import small_frame

pytestmark = [
    pytest.mark.skipif(which("prometheus") is None, reason="prometheus is not installed"),
    pytest.mark.slow,
]

QUERIES = {
    'fabriclens_port_transmit_bytes_total{device="leaf0",port="p1"}': {1000.0},
    'fabriclens_port_utilization_ratio{device="leaf0",direction="transmit"}': {0.5, 0.75},
    "fabriclens_port_congestion_score": {0.125, 0.875, 0.0},
    'fabriclens_port_traffic_label{label="unknown"}': {1.0},
    'fabriclens_route_suggested_weight{via="p0",destination="leaf1"}': {4.0},
    "sum(fabriclens_ports)": {4.0},
    'scrape_samples_scraped{job="fabriclens"} - on() fabriclens_series': {0.0},
    'count(fabriclens_port_sample_age_seconds{device="leaf1"})': {2.0},
    'up{job="fabriclens"}': {1.0},
}


def configuration(target: int) -> str:
    return (
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        "  - job_name: fabriclens\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n"
    )


async def query(client: aiohttp.ClientSession, expression: str) -> list[float]:
    async with client.get("/api/v1/query", params={"query": expression}) as answer:
        document = json.loads(await answer.read())
        assert document["status"] == "success", document
        return [float(one["value"][1]) for one in document["data"]["result"]]


async def test_prometheus_reads_what_the_frame_says(tmp_path, free_port):
    board, baker = Board(stale_after=60.0), Baker()
    board.publish(small_frame(), baker.bake(small_frame()))
    exporter = HttpExporter("127.0.0.1", 0, board)
    await exporter.start()
    settings = tmp_path / "prometheus.yml"
    settings.write_text(configuration(exporter.address[1]))
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={settings}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{free_port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        async with (
            asyncio.timeout(20),
            aiohttp.ClientSession(f"http://127.0.0.1:{free_port}") as client,
        ):
            await scraped(client, exporter)
            for expression, expected in QUERIES.items():
                found = await query(client, expression)
                assert set(found) == expected, expression
            board.publish(small_frame(1), baker.bake(small_frame(1)))
            await scraped(client, exporter)
            moved = 'fabriclens_port_transmit_bytes_total{device="leaf0",port="p1"}'
            assert await query(client, moved) == [2000.0]
            metadata = await client.get(
                "/api/v1/metadata", params={"metric": "fabriclens_port_transmit_bytes"}
            )
            kinds = json.loads(await metadata.read())["data"]
            assert kinds["fabriclens_port_transmit_bytes"][0]["type"] == "counter"
    finally:
        server.terminate()
        await asyncio.to_thread(server.wait, 10)
        await exporter.stop()


async def scraped(client: aiohttp.ClientSession, exporter: HttpExporter) -> None:
    """Wait until two more scrapes have been answered: the first of them is stored by then."""
    enough = exporter.scrapes + 2
    while True:
        try:
            if exporter.scrapes >= enough and await query(client, 'up{job="fabriclens"} == 1'):
                return
        except aiohttp.ClientConnectionError:
            pass
        await asyncio.sleep(0.1)
