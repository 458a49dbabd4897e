"""Logging: readable on a terminal, one JSON object a line anywhere else."""

import logging
import sys

import orjson
import structlog


def configure_logs(level: str = "info") -> None:
    """Route structlog and the standard library to standard error, once per process."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    tty = sys.stderr.isatty()
    final: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer()
        if tty
        else structlog.processors.JSONRenderer(serializer=lambda o, **_: orjson.dumps(o).decode())
    )
    before_final = [] if tty else [structlog.processors.format_exc_info]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *before_final,
                final,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
