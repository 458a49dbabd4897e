"""SIGTERM and SIGINT, turned into an event."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_WANTED = (signal.SIGTERM, signal.SIGINT)


@asynccontextmanager
async def told_to_end() -> AsyncIterator[asyncio.Event]:
    """An event that is set once the process is asked to end, so that it can end in good order."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in _WANTED:
        loop.add_signal_handler(name, ended.set)
    try:
        yield ended
    finally:
        for name in _WANTED:
            loop.remove_signal_handler(name)
