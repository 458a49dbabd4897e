"""Where counters come from: one module, one configuration model and one class a source."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol, cast

from pydantic import BaseModel

from collector.clock import Clock
from collector.dictionary import Dictionary
from collector.errors import ConfigError
from collector.ports import PortTable
from collector.record import Batch


class Source(Protocol):
    """What the supervisor runs.

    A constructor takes (configuration, ports, clock, dictionary) and only stores them: no file is
    opened and no socket made before `collect` is iterated. A source has no retry loop, no sleep
    between polls and no broad except of its own.

    name: unique in one configuration. interval: seconds between polls; None for a stream.
    """

    name: str
    interval: float | None

    def collect(self) -> AsyncGenerator[Batch, None]:
        """Polled: the batches of one reading. Streaming: batches for as long as the stream lasts.

        Raises SourceUnavailable with a short reason, NoData, or ConfigError.
        """
        ...

    async def close(self) -> None:
        """Let go of what is kept open between readings; a later `collect` opens it again."""
        ...


class Factory(Protocol):
    """Makes an inert source from its configuration."""

    def __call__(
        self,
        config: BaseModel,
        ports: PortTable,
        clock: Clock,
        dictionary: Dictionary | None = None,
    ) -> Source: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """Where a kind of source lives; its module is imported when it is first asked for."""

    module: str
    config: str
    factory: str

    def load(self) -> tuple[type[BaseModel], Factory]:
        """The configuration model and the constructor."""
        module = import_module(self.module)
        return (
            cast("type[BaseModel]", getattr(module, self.config)),
            cast("Factory", getattr(module, self.factory)),
        )


KINDS: Final[dict[str, Kind]] = {
    "linux": Kind("collector.sources.linux", "LinuxConfig", "LinuxSource"),
    "replay": Kind("collector.sources.replay", "ReplayConfig", "ReplaySource"),
}
"""Every source there is, by the `kind` of its configuration."""


def load(kind: str) -> tuple[type[BaseModel], Factory]:
    """Configuration model and constructor of a kind; ConfigError names the kinds there are."""
    if kind not in KINDS:
        raise ConfigError(f"source kind {kind!r} does not exist; choose one of {', '.join(KINDS)}")
    return KINDS[kind].load()
