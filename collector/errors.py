"""The errors of fabriclens, as a tree.

FabriclensError
├── ConfigError        the operator must change something; nothing was started (exit 2)
├── SourceUnavailable  a peer, file or device cannot be read now; retried and counted
│   └── TraceError     a recorded trace cannot be read; names the file and the field
└── NoData             nothing to read here, and that is fine (logged at debug)

Anything else that is raised is a bug.
"""


class FabriclensError(Exception):
    """Root of every error that fabriclens raises on purpose."""


class ConfigError(FabriclensError):
    """The configuration or the command line is wrong; the message names file, field and remedy."""


class SourceUnavailable(FabriclensError):  # noqa: N818 - names a state of the peer
    """A source cannot be read at the moment; `reason` is a short word for the metric's label."""

    def __init__(self, message: str, *, reason: str = "unavailable") -> None:
        super().__init__(message)
        self.reason = reason


class TraceError(SourceUnavailable):
    """A recorded trace is corrupt, truncated, empty or mistyped."""


class NoData(FabriclensError):  # noqa: N818 - an answer, not a failure
    """The source works and has nothing to say."""
