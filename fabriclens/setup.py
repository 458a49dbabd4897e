"""What the daemon is to run, from the configuration file and the command line."""

from pathlib import Path

from collector.errors import ConfigError
from collector.sources.replay import ReplayConfig
from collector.topology import Topology, read_topology
from collector.trace import topology_beside
from fabriclens.config import Config, HttpConfig, read_config
from fabriclens.pace import parse_speed


def daemon_config(
    path: Path | None,
    *,
    host: str | None = None,
    port: int | None = None,
    replay: Path | None = None,
    speed: str = "1",
) -> Config:
    """The configuration of a file (or the defaults), with the command line's words over it.

    Raises ConfigError where the two do not fit together.
    """
    config = read_config(path) if path else Config()
    if replay is not None:
        if path is not None:
            raise ConfigError("--replay and --config exclude each other; put the trace in the file")
        if not replay.exists():
            raise ConfigError(f"{replay}: no such trace")
        source = ReplayConfig(path=replay, speed=parse_speed(speed), loop=True, realtime=True)
        config = config.model_copy(update={"sources": (source,)})
    changed = {"host": host, "port": port}
    given = {name: value for name, value in changed.items() if value is not None}
    if given:
        http = HttpConfig.model_validate(config.http.model_dump() | given)
        config = config.model_copy(update={"http": http})
    return config


def topology_of(config: Config) -> Topology:
    """The configured topology, else the replayed trace's own, else an empty one."""
    path = config.topology
    if path is None:
        traces = [source.path for source in config.sources if isinstance(source, ReplayConfig)]
        path = next(filter(None, map(topology_beside, traces)), None)
    return Topology() if path is None else read_topology(path)
