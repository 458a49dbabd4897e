"""The command line. Every command imports what it needs when it runs, so that `--help` is quick."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import typer

from collector.errors import ConfigError, FabriclensError
from fabriclens import __version__

EXIT_CONFIG = 2
EXIT_FAILED = 1

T = TypeVar("T")

app = typer.Typer(
    name="fabriclens",
    help="See the workload in the network of an AI training cluster: what the traffic is, where "
    "the fabric hurts, which routes to use instead.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file (TOML).")
]
ModelFile = Annotated[
    Path | None, typer.Option("--model", help="Folder of a model instead of the bundled one.")
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], typer.Option(help="Least level to log.")
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fabriclens {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Options that stand before the command."""


@app.command()
def run(
    config: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="Bind here instead.")] = None,
    port: Annotated[int | None, typer.Option(help="Listen here instead.")] = None,
    replay: Annotated[
        Path | None, typer.Option(help="Serve this trace, over and over, instead of live counters.")
    ] = None,
    speed: Annotated[str | None, typer.Option(help="Pace of --replay: 1, 20 ... or max.")] = None,
    log_level: LogLevel = "info",
) -> None:
    """Run the daemon: collect, classify, score, and serve /metrics and the API.

    Without --config it watches the interfaces of this machine.
    """
    from fabriclens.daemon import Daemon
    from fabriclens.logs import configure_logs
    from fabriclens.setup import daemon_config

    configure_logs(log_level)
    with _errors():
        chosen = daemon_config(config, host=host, port=port, replay=replay, speed=speed)
        asyncio.run(Daemon(chosen).run())


@app.command()
def replay(
    trace: Annotated[Path, typer.Argument(help="Folder of a trace, or its counters file.")],
    speed: Annotated[str, typer.Option(help="1, 20 ... or max.")] = "max",
    tick: Annotated[
        str | None, typer.Option(help="Length of a tick, such as 100ms; else the trace decides.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the findings.")] = None,
    topology: Annotated[Path | None, typer.Option(help="Instead of the trace's own.")] = None,
    model: ModelFile = None,
    as_json: Json = False,
) -> None:
    """Run a recorded trace through the daemon's own code and write what it finds.

    DIR/ports.parquet holds a row per tick and port, DIR/routes.json the suggestions.
    """
    from fabriclens.offline import Replay
    from fabriclens.offline import replay as run_replay
    from fabriclens.pace import parse_duration, parse_speed
    from fabriclens.summary import print_summary

    with _errors():
        request = Replay(
            trace=trace,
            speed=parse_speed(speed),
            tick=parse_duration(tick) if tick else None,
            topology=topology,
            model=model,
            out=out,
        )
        summary = _with_bar(
            f"replaying {trace}",
            lambda progress: asyncio.run(run_replay(request, progress=progress)),
            quiet=as_json,
        )
        _emit(summary, as_json, print_summary)


@app.command()
def record(
    out: Annotated[Path, typer.Option(help="Folder for the trace.")],
    config: ConfigFile = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long.", min=0.1)] = None,
    log_level: LogLevel = "warning",
) -> None:
    """Record the configured sources (or this machine's interfaces) as a trace; Ctrl-C ends it."""
    from fabriclens.logs import configure_logs
    from fabriclens.recording import record as run_record
    from fabriclens.setup import daemon_config

    configure_logs(log_level)
    with _errors():
        rows = asyncio.run(run_record(daemon_config(config), out, seconds))
        typer.echo(f"{rows} rows written to {out}", err=True)


@app.command()
def train(
    traces: Annotated[list[Path], typer.Argument(help="Labelled traces to learn from.")],
    out: Annotated[Path, typer.Option(help="Folder for model.skops and card.json.")],
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    as_json: Json = False,
) -> None:
    """Train a model on labelled traces; prints its scores on held-out captures and the baselines.

    The bundled model: make model CAPTURES=FOLDER
    """
    from classifier.evaluate import Report
    from classifier.train import train as run_train
    from fabriclens.shards import executor

    with _errors(), executor(workers) as pool:
        card = _with_bar(
            "training",
            lambda progress: run_train(
                traces, out, progress=lambda _, share: progress(share), executor=pool, seed=seed
            ),
            quiet=as_json,
        )
        _emit(card.model_dump(), as_json, lambda _: typer.echo(Report(card.scores).table()))


@app.command()
def evaluate(
    traces: Annotated[list[Path], typer.Argument(help="Labelled traces.")],
    model: Annotated[
        Path | None,
        typer.Option(
            help="Score this model; without it, models are trained with captures held out."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    as_json: Json = False,
) -> None:
    """Score labels by capture held out (never by a random split of windows), beside baselines."""
    from classifier.evaluate import evaluate as run_evaluate
    from fabriclens.shards import executor

    with _errors(), executor(workers) as pool:
        report = _with_bar(
            "evaluating",
            lambda progress: run_evaluate(
                traces, model=model, progress=lambda _, share: progress(share), executor=pool
            ),
            quiet=as_json,
        )
        _emit(report.as_dict(), as_json, lambda _: typer.echo(report.table()))


@app.command()
def routes(
    trace: Annotated[
        Path | None, typer.Argument(help="A trace; without it, ask a running daemon.")
    ] = None,
    url: Annotated[str, typer.Option(help="Where the daemon serves.")] = "http://127.0.0.1:9400",
    topology: Annotated[Path | None, typer.Option(help="Instead of the trace's own.")] = None,
    as_json: Json = False,
) -> None:
    """Print the suggested routes. Nothing is ever applied."""
    from fabriclens.suggested import print_routes, routes_of_daemon, routes_of_trace

    with _errors():
        found = routes_of_trace(trace, topology) if trace else routes_of_daemon(url)
        _emit(found, as_json, print_routes)


@app.command()
def check(
    config: ConfigFile = None,
    live: Annotated[str | None, typer.Option(help="Is the daemon at this URL ready?")] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Print a documented sample configuration.")
    ] = False,
) -> None:
    """Explain what is wrong with a configuration: file, field and allowed values. Exit 2 if so."""
    from fabriclens.checks import check_config, check_live
    from fabriclens.sample import sample_config

    with _errors():
        if sample:
            typer.echo(sample_config(), nl=False)
        elif live:
            typer.echo(check_live(live))
        elif config:
            for line in check_config(config):
                typer.echo(line)
        else:
            raise ConfigError("nothing to check; give --config FILE, --live URL or --sample")


@contextmanager
def _errors() -> Iterator[None]:
    """Our own errors become one clear line and an exit status; anything else is a bug and shows."""
    # As Ctrl-C does, so that half-written files go and whole ones stay. The daemon has its own way.
    signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    except ConfigError as error:
        typer.echo(f"fabriclens: {error}", err=True)
        raise typer.Exit(EXIT_CONFIG) from error
    except FabriclensError as error:
        typer.echo(f"fabriclens: {error}", err=True)
        raise typer.Exit(EXIT_FAILED) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(130) from error
    except BrokenPipeError as error:
        # The reader of our output has gone (`| head`): that is its right, and no failure.
        sys.stderr.close()
        raise typer.Exit(0) from error


def _terminated(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _with_bar(title: str, work: Callable[[Callable[[float], None]], T], *, quiet: bool) -> T:
    """Do long work under a progress bar, where somebody is watching."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return work(lambda _: None)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        job = bar.add_task(title, total=1.0)
        return work(lambda share: bar.update(job, completed=share))


def _emit(result: Any, as_json: bool, pretty: Callable[[Any], None]) -> None:
    if as_json:
        import orjson

        options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
        typer.echo(orjson.dumps(result, option=options).decode())
    else:
        pretty(result)


def main() -> None:
    """Entry point of the `fabriclens` command."""
    # A tick is the work of one thread; more would only wait for each other on small matrices.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    app()


if __name__ == "__main__":
    main()
