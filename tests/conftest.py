"""Shared fixtures: where the field data lies, and free loopback ports."""

import os
import socket
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of field data beside the checkout; tests that need it skip where it is absent."""
    path = Path(os.environ.get("FABRICLENS_SHARED", ROOT.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"field data not found at {path}; set FABRICLENS_SHARED to use another place")
    return path


@pytest.fixture
def free_port() -> int:
    """A TCP port on loopback that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make network namespaces")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT
