"""The server, asked over a real socket."""

import asyncio
import gzip
import json
import socket
import threading
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics

from collector.errors import ConfigError
from exporters.bake import Baked, Baker, Form
from exporters.board import Board
from exporters.http import HEADERS, PAGES, HttpExporter
from exporters.selfmetrics import Snapshot
from tests.exporters.frames import large_frame, small_frame


def board_of(frame=None, **settings) -> Board:
    board = Board(**settings)
    frame = frame or small_frame()
    board.publish(frame, Baker().bake(frame))
    return board


@asynccontextmanager
async def serving(board: Board, **settings):
    exporter = HttpExporter("127.0.0.1", 0, board, **settings)
    await exporter.start()
    host, port = exporter.address
    try:
        async with aiohttp.ClientSession(
            f"http://{host}:{port}", auto_decompress=False, skip_auto_headers=["Accept-Encoding"]
        ) as client:
            yield exporter, client
    finally:
        await exporter.stop()


async def test_metrics_in_the_form_that_is_asked_for():
    board = board_of()
    baked = board.newest.baked
    async with serving(board) as (exporter, client):
        for form, headers in (
            (Form(openmetrics=False, gzip=False), {}),
            (Form(openmetrics=False, gzip=True), {"Accept-Encoding": "gzip"}),
            (
                Form(openmetrics=True, gzip=True),
                {"Accept-Encoding": "gzip", "Accept": "application/openmetrics-text"},
            ),
        ):
            async with client.get("/metrics", headers=headers) as answer:
                body = await answer.read()
                assert answer.status == 200
                assert body == baked.make(form)
                assert answer.headers.get("Content-Encoding") == ("gzip" if form.gzip else None)
                assert answer.headers["Vary"] == "Accept, Accept-Encoding"
                assert ("openmetrics" in answer.headers["Content-Type"]) is form.openmetrics
        list(read_openmetrics(gzip.decompress(body).decode()))
        async with client.head("/metrics") as answer:
            assert answer.status == 200
            assert int(answer.headers["Content-Length"]) == len(baked.make(Form(False, False)))  # noqa: FBT003
        assert exporter.scrapes == 4
        assert exporter.requests["/metrics", "200"] == 4


async def test_a_whole_megabyte_arrives():
    board = board_of(large_frame(2000))
    async with serving(board) as (_, client):
        async with client.get("/metrics") as answer:
            body = await answer.read()
        assert len(body) > 2_000_000
        assert body == board.newest.baked.make(Form(openmetrics=False, gzip=False))


class Watched(Baked):
    """Remembers which threads made its forms."""

    def __init__(self, baked: Baked):
        super().__init__(baked._families)
        self.threads: set[int] = set()

    def make(self, form: Form) -> bytes:
        self.threads.add(threading.get_ident())
        return super().make(form)


async def test_the_loop_never_makes_a_form():
    board, frame = Board(), small_frame()
    baked = Watched(Baker().bake(frame))
    board.publish(frame, baked)
    async with serving(board) as (_, client):
        for accept in ("text/plain", "application/openmetrics-text"):
            for encoding in ("gzip", "identity"):
                headers = {"Accept": accept, "Accept-Encoding": encoding}
                async with client.get("/metrics", headers=headers) as answer:
                    await answer.read()
    assert baked.threads
    assert threading.get_ident() not in baked.threads


async def test_before_the_first_tick_and_when_stale():
    now = [0.0]
    board = Board(stale_after=5.0, now=lambda: now[0])
    async with serving(board) as (_, client):
        for path in ("/metrics", "/readyz", "/api/v1/ports"):
            async with client.get(path) as answer:
                assert answer.status == 503
                assert "no tick" in await answer.text()
        async with client.get("/healthz") as answer:
            assert answer.status == 200
            assert await answer.json() == {"status": "alive", "frame": None}
        frame = small_frame()
        board.publish(frame, Baker().bake(frame))
        async with client.get("/readyz") as answer:
            assert answer.status == 200
        now[0] = 6.0
        for path in ("/metrics", "/readyz"):
            async with client.get(path) as answer:
                assert answer.status == 503
                assert "6.0 s old" in await answer.text()
        async with client.get("/healthz") as answer:
            assert answer.status == 200


async def test_every_answer_is_guarded():
    async with serving(board_of()) as (exporter, client):
        for path in [path for path, _ in PAGES] + ["/", "/nowhere", "/api/v1/ports?x=1"]:
            async with client.get(path) as answer:
                assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, path
        async with client.get("/") as answer:
            page = await answer.text()
            assert "script" not in page
            assert "style" not in page
            assert all(path in page for path, _ in PAGES)
        async with client.get("/nowhere") as answer:
            assert answer.status == 404
            assert await answer.json() == {"error": "Not Found"}
        async with client.post("/metrics") as answer:
            assert answer.status == 405
            assert answer.headers["Allow"] == "GET,HEAD"
        assert exporter.requests["other", "404"] == 2


async def test_scrapes_beyond_the_limit_are_refused_and_a_slow_reader_is_cut():
    board = board_of(large_frame(60_000))
    async with serving(board, max_scrapes=1, scrape_timeout=1.5) as (exporter, client):
        reader, writer = await asyncio.open_connection(*exporter.address, limit=1024)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await writer.drain()
        async with asyncio.timeout(10):
            while exporter.scraping == 0:
                await asyncio.sleep(0.01)
        async with client.get("/metrics") as answer:
            assert answer.status == 503
            assert answer.headers["Retry-After"] == "1"
            assert "in progress" in await answer.text()
        async with client.get("/healthz") as answer:
            assert answer.status == 200
        async with asyncio.timeout(10):
            while exporter.scraping:
                await asyncio.sleep(0.01)
        assert exporter.scrapes_cut == 1
        assert exporter.scrapes_refused == 1
        async with client.get("/metrics", headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.status == 200
            await answer.read()
        writer.close()
        del reader


async def test_a_client_that_leaves_frees_its_place():
    board = board_of(large_frame(60_000))
    async with serving(board, max_scrapes=1) as (exporter, client):
        _, writer = await asyncio.open_connection(*exporter.address, limit=1024)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await writer.drain()
        async with asyncio.timeout(10):
            while exporter.scraping == 0:
                await asyncio.sleep(0.01)
        writer.transport.abort()
        async with asyncio.timeout(10):
            while exporter.scraping:
                await asyncio.sleep(0.01)
        async with client.get("/metrics") as answer:
            assert answer.status == 200
            await answer.read()


async def test_a_port_in_use_is_a_configuration_error():
    async with serving(board_of()) as (exporter, _):
        host, port = exporter.address
        other = HttpExporter(host, port, board_of())
        with pytest.raises(ConfigError, match=f"cannot listen on {host}:{port}.*choose another"):
            await other.start()
        await other.stop()


async def test_an_address_that_is_not_ours_is_a_configuration_error():
    with pytest.raises(ConfigError, match="cannot listen"):
        await HttpExporter("192.0.2.1", 9400, board_of()).start()


async def test_construction_listens_to_nothing(free_port):
    exporter = HttpExporter("127.0.0.1", free_port, board_of())
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", free_port)
    await exporter.stop()


async def test_stop_closes_within_a_second_though_clients_hang_on():
    async with serving(board_of()) as (exporter, client):
        async with client.get("/healthz") as answer:
            await answer.read()
        async with asyncio.timeout(1.5):
            await exporter.stop()


async def test_the_servers_own_numbers():
    async with serving(board_of()) as (exporter, client):
        for path in ("/metrics", "/healthz", "/nowhere"):
            async with client.get(path) as answer:
                await answer.read()
        snapshot = Snapshot()
        exporter.put(snapshot)
        assert snapshot.rows["fabriclens_scrapes_total"] == [({}, 1)]
        assert snapshot.rows["fabriclens_scrape_size_bytes"][0][1] > 1000
        assert ({"path": "other", "code": "404"}, 1) in snapshot.rows[
            "fabriclens_http_requests_total"
        ]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("ports?colour=red", "unknown parameter 'colour'; allowed: device, port, label, congested"),
        ("ports?label=red", "label='red' is wrong: it takes one of parameter_sync"),
        ("ports?congested=maybe", "it takes 1 or 0"),
        ("ports?limit=0", "a number from 1 to"),
        ("ports?limit=x", "a number from 1 to"),
        ("ports?offset=-1", "a number from 0"),
        ("ports?device=a&device=b", "given twice"),
        ("congestion?min_score=2", "a number from 0 to 1"),
        ("congestion?min_score=nan", "a number from 0 to 1"),
        ("routes?kind=x", "one of avoid_link"),
        ("topology?x=1", "allowed: none"),
    ],
)
async def test_a_wrong_query_says_what_is_allowed(query, said):
    async with serving(board_of()) as (_, client), client.get(f"/api/v1/{query}") as answer:
        assert answer.status == 400
        document = await answer.json()
        assert said in document["error"]
        assert isinstance(document["allowed"], dict)


async def test_the_api_over_the_wire():
    async with serving(board_of()) as (_, client):

        async def get(path):
            async with client.get(f"/api/v1/{path}") as answer:
                assert answer.status == 200
                assert answer.content_type == "application/json"
                return json.loads(await answer.read())

        assert [row["port"] for row in (await get("ports?device=leaf0"))["ports"]] == ["p0", "p1"]
        assert (await get("ports?congested=1"))["total"] == 1
        assert (await get("ports?congested=0&limit=1&offset=1"))["ports"][0]["device"] == "leaf1"
        assert (await get("congestion"))["ports"][0]["congestion_score"] == 0.875
        assert (await get("congestion?min_score=0"))["total"] == 3
        assert (await get("routes?kind=set_weights"))["suggestions"][0]["weights"] == {
            "p0": 4,
            "p1": 0,
        }
        assert len((await get("topology"))["links"]) == 1
