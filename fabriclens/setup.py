"""What the daemon is to run, from the configuration file and the command line."""

from pathlib import Path

from collector.errors import ConfigError
from collector.sources.replay import ReplayConfig
from collector.topology import Topology, read_topology
from collector.trace import topology_beside
from fabriclens.config import Config, parse_config, read_config
from fabriclens.pace import parse_speed


def daemon_config(
    path: Path | None,
    *,
    host: str | None = None,
    port: int | None = None,
    replay: Path | None = None,
    speed: str | None = None,
) -> Config:
    """The configuration of a file (or the defaults), with the command line's words over it.

    Raises ConfigError where the two do not fit together.
    """
    config = read_config(path) if path else Config()
    if replay is not None:
        if path is not None:
            raise ConfigError("--replay and --config exclude each other; put the trace in the file")
        pace = parse_speed("1" if speed is None else speed)
        source = ReplayConfig(path=existing(replay), speed=pace, loop=True, realtime=True)
        config = config.model_copy(update={"sources": (source,)})
    elif speed is not None:
        raise ConfigError("--speed is the pace of --replay, which was not given")
    changed = {"host": host, "port": port}
    given = {name: value for name, value in changed.items() if value is not None}
    if given:
        checked = parse_config({"http": config.http.model_dump() | given}, "command line", Path())
        config = config.model_copy(update={"http": checked.http})
    return config


def existing(trace: Path) -> Path:
    """The path of a trace; ConfigError where there is none."""
    if not trace.exists():
        raise ConfigError(f"{trace}: no such trace; name its folder or its counters file")
    return trace


def topology_of(config: Config) -> Topology:
    """The configured topology, else the replayed trace's own, else an empty one."""
    path = config.topology
    if path is None:
        traces = [source.path for source in config.sources if isinstance(source, ReplayConfig)]
        path = next(filter(None, map(topology_beside, traces)), None)
    return Topology() if path is None else read_topology(path)
