"""The HTTP server: `/metrics`, health, the API and a plain index. Handlers only hand out bytes."""

import asyncio
import errno
import html
from collections import Counter
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final

from aiohttp import web

from collector.errors import ConfigError
from exporters.api import ENDPOINTS, add_endpoints, json_response
from exporters.bake import Form
from exporters.board import Board, Notice
from exporters.negotiate import content_type, negotiate
from exporters.selfmetrics import Snapshot

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PIECE_BYTES: Final = 256 * 1024
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
PAGES: Final = (
    ("/metrics", "all metrics, for Prometheus"),
    ("/healthz", "is the process alive"),
    ("/readyz", "is the newest frame fresh"),
    *((endpoint.path, endpoint.about) for endpoint in ENDPOINTS),
)


class HttpExporter:
    """Serves a board. Nothing listens before `start`.

    max_scrapes: answers to /metrics in progress at once; more are refused with 503.
    scrape_timeout: seconds after which a client that reads too slowly is cut off.
    doubt: why fresh findings may still be worth nothing, such as that no source works; or nothing.
    Counters: scrapes, scrapes_refused, scrapes_cut, requests[path, code].
    """

    def __init__(
        self,
        host: str,
        port: int,
        board: Board,
        *,
        max_scrapes: int = 4,
        scrape_timeout: float = 30.0,
        doubt: Callable[[], str] = str,
    ) -> None:
        self._host = host
        self._port = port
        self._board = board
        self._max_scrapes = max_scrapes
        self._scrape_timeout = scrape_timeout
        self._doubt = doubt
        self._runner: web.AppRunner | None = None
        self.requests: Counter[tuple[str, str]] = Counter()
        self.scrapes = 0
        self.scrapes_refused = 0
        self.scrapes_cut = 0
        self.scraping = 0
        self.scrape_seconds = 0.0
        self.scrape_bytes = 0

    async def start(self) -> None:
        """Listen; ConfigError where the address cannot be had."""
        app = web.Application(middlewares=[self._count])
        app.on_response_prepare.append(_add_headers)
        app.router.add_get("/", _index)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        add_endpoints(app, self._board)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            raise ConfigError(
                f"http: cannot listen on {self._host}:{self._port}: {error.strerror}; "
                + (
                    "stop the program that holds it, or choose another port"
                    if error.errno == errno.EADDRINUSE
                    else "choose an address of this machine and a port that you may use"
                )
            ) from error
        self._runner = runner

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on; the real port where 0 was asked for."""
        if self._runner is None or not self._runner.addresses:
            return self._host, self._port
        host, port = self._runner.addresses[0][:2]
        return str(host), int(port)

    def put(self, snapshot: Snapshot) -> None:
        """Add the server's own numbers to a snapshot."""
        snapshot.put("scrapes_total", self.scrapes)
        snapshot.put("scrapes_refused_total", self.scrapes_refused)
        snapshot.put("scrapes_cut_total", self.scrapes_cut)
        snapshot.put("scrapes_in_progress", self.scraping)
        if self.scrapes:
            snapshot.put("scrape_duration_seconds", self.scrape_seconds)
            snapshot.put("scrape_size_bytes", self.scrape_bytes)
        # A copy first: the event loop may add a key while the tick thread reads.
        for (path, code), count in self.requests.copy().items():
            snapshot.put("http_requests_total", count, path=path, code=code)

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        problem, notice = self._board.problem(), self._board.newest
        if problem or notice is None:
            return _refusal(problem)
        if self.scraping >= self._max_scrapes:
            self.scrapes_refused += 1
            return _refusal(f"{self.scraping} scrapes are in progress already")
        self.scraping += 1
        begin = perf_counter()
        try:
            response = await self._scrape(request, notice)
        finally:
            self.scraping -= 1
        self.scrapes += 1
        self.scrape_seconds = perf_counter() - begin
        return response

    async def _scrape(self, request: web.Request, notice: Notice) -> web.StreamResponse:
        """Send the exposition piece by piece, so that a slow client fills no buffer of ours."""
        form = negotiate(
            ",".join(request.headers.getall("Accept", [])),
            ",".join(request.headers.getall("Accept-Encoding", [])),
        )
        body = await self._body(notice, form)
        response = web.StreamResponse(
            headers={"Content-Type": content_type(form), "Vary": "Accept, Accept-Encoding"}
        )
        if form.gzip:
            response.headers["Content-Encoding"] = "gzip"
        response.content_length = len(body)
        try:
            async with asyncio.timeout(self._scrape_timeout):
                await response.prepare(request)
                if request.method != "HEAD":
                    view = memoryview(body)
                    for start in range(0, len(body), PIECE_BYTES):
                        await response.write(view[start : start + PIECE_BYTES])
                await response.write_eof()
        except TimeoutError:
            self.scrapes_cut += 1
            if request.transport is not None:
                request.transport.abort()
        self.scrape_bytes = len(body)
        return response

    async def _body(self, notice: Notice, form: Form) -> bytes:
        self._board.ask(form)
        body = notice.baked.ready(form)
        if body is None:
            body = await asyncio.to_thread(notice.baked.make, form)
        return body

    async def _healthz(self, _request: web.Request) -> web.Response:
        notice = self._board.newest
        return json_response(
            {"status": "alive", "frame": None if notice is None else notice.frame.number}
        )

    async def _readyz(self, _request: web.Request) -> web.Response:
        problem = self._board.problem() or self._doubt()
        if problem:
            return json_response({"status": "not ready", "reason": problem}, status=503)
        return json_response({"status": "ready"})

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count every answer; errors of routing become JSON."""
        try:
            response = await handler(request)
        except web.HTTPException as error:
            response = json_response({"error": error.reason}, status=error.status)
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
        resource = request.match_info.route.resource
        path = "other" if resource is None else resource.canonical
        self.requests[path, str(response.status)] += 1
        return response


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


async def _index(_request: web.Request) -> web.Response:
    items = "".join(
        f'<li><a href="{path}">{path}</a>: {html.escape(about)}</li>' for path, about in PAGES
    )
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>fabriclens</title>'
        f"<h1>fabriclens</h1><ul>{items}</ul></html>"
    )
    return web.Response(text=page, content_type="text/html")


def _refusal(reason: str) -> web.Response:
    return web.Response(status=503, text=f"{reason}\n", headers={"Retry-After": "1"})
