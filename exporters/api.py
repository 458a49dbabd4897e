"""The JSON API: documents of the newest frame, made in a thread, never on the event loop."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from aiohttp import web

from analyzer.frame import Frame
from classifier.labels import LABELS
from exporters.board import Board
from exporters.catalogue import CONGESTED
from exporters.documents import (
    Document,
    congestion_document,
    ports_document,
    routes_document,
    topology_document,
)

MAX_LIMIT: Final = 10_000
KINDS: Final = ("avoid_link", "drain_link", "set_weights")


class BadQueryError(ValueError):
    """The client asked for something that does not exist; the message says what does."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query parameter: its reader, what it takes in words, and the argument it becomes."""

    read: Callable[[str], Any]
    takes: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One document of the API."""

    path: str
    about: str
    document: Callable[..., Document]
    parameters: Mapping[str, Parameter]
    defaults: Mapping[str, Any]


def _flag(text: str) -> bool:
    return {"1": True, "true": True, "0": False, "false": False}[text.lower()]


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return read


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    return lambda text: names[names.index(text)]


def _score(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise ValueError(text)
    return value


_DEVICE: Final = Parameter(str, "the name of a device")
_PAGE: Final = {
    "limit": Parameter(_whole(1, MAX_LIMIT), f"a number from 1 to {MAX_LIMIT}"),
    "offset": Parameter(_whole(0, 2**31), "a number from 0"),
}

ENDPOINTS: Final = (
    Endpoint(
        "/api/v1/ports",
        "what is known of every port",
        ports_document,
        {
            "device": _DEVICE,
            "port": Parameter(str, "the name of a port"),
            "label": Parameter(_one_of(LABELS), f"one of {', '.join(LABELS)}"),
            "congested": Parameter(_flag, "1 or 0", "hot"),
            **_PAGE,
        },
        {"limit": 1000},
    ),
    Endpoint(
        "/api/v1/congestion",
        "the congested ports, worst first",
        congestion_document,
        {
            "device": _DEVICE,
            "min_score": Parameter(_score, "a number from 0 to 1"),
            **_PAGE,
        },
        {"min_score": CONGESTED, "limit": 1000},
    ),
    Endpoint(
        "/api/v1/routes",
        "the suggested routes in force",
        routes_document,
        {"device": _DEVICE, "kind": Parameter(_one_of(KINDS), f"one of {', '.join(KINDS)}")},
        {},
    ),
    Endpoint("/api/v1/topology", "devices and links with their state", topology_document, {}, {}),
)


def read_query(endpoint: Endpoint, query: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of the endpoint's document; BadQueryError names the parameter and what it takes."""
    arguments = dict(endpoint.defaults)
    seen: set[str] = set()
    for name, text in query.items():
        parameter = endpoint.parameters.get(name)
        if parameter is None:
            allowed = ", ".join(endpoint.parameters) or "none"
            raise BadQueryError(f"unknown parameter {name!r}; allowed: {allowed}")
        if name in seen:
            raise BadQueryError(f"parameter {name!r} is given twice")
        seen.add(name)
        try:
            arguments[parameter.argument or name] = parameter.read(text)
        except (ValueError, KeyError):
            raise BadQueryError(f"{name}={text!r} is wrong: it takes {parameter.takes}") from None
    return arguments


def json_response(document: Any, status: int = 200) -> web.Response:
    """A small document as a response."""
    return web.Response(body=orjson.dumps(document), status=status, content_type="application/json")


def add_endpoints(app: web.Application, board: Board) -> None:
    """Serve every endpoint from the board."""
    turns = asyncio.Semaphore(2)  # documents are made by few threads: the tick needs the cores
    for endpoint in ENDPOINTS:
        app.router.add_get(endpoint.path, _handler(endpoint, board, turns))


def _handler(
    endpoint: Endpoint, board: Board, turns: asyncio.Semaphore
) -> Callable[[web.Request], Any]:
    async def handle(request: web.Request) -> web.Response:
        try:
            arguments = read_query(endpoint, request.query)
        except BadQueryError as error:
            return json_response({"error": str(error), "allowed": _allowed(endpoint)}, status=400)
        notice = board.newest
        if notice is None:
            return json_response({"error": board.problem()}, status=503)
        async with turns:
            body = await asyncio.to_thread(_dump, endpoint, notice.frame, arguments)
        return web.Response(body=body, content_type="application/json")

    return handle


def _dump(endpoint: Endpoint, frame: Frame, arguments: Mapping[str, Any]) -> bytes:
    return orjson.dumps(endpoint.document(frame, **arguments))


def _allowed(endpoint: Endpoint) -> dict[str, str]:
    return {name: parameter.takes for name, parameter in endpoint.parameters.items()}
