"""The command line as an operator meets it: exit status and one clear line, never a traceback."""

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.fabriclens.traces import write_small


def fabriclens(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "fabriclens.cli", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=90,
        **options,
    )


def said(done, status):
    """What an unhappy command said, after checking that it said it properly."""
    assert status == done.returncode, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "command", ["run", "replay", "record", "train", "evaluate", "routes", "check"]
)
def test_every_command_explains_itself(command):
    done = fabriclens(command, "--help")

    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_help_does_not_load_the_heavy_parts():
    script = (
        "import sys, fabriclens.cli;"
        "print([m for m in ('sklearn', 'pyarrow', 'pydantic', 'aiohttp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stdout.strip() == "[]"


def test_wrong_configuration_exits_with_2(tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text("tick = 'often'\n[http]\nhots = 'x'")
    text = said(fabriclens("check", "--config", file), 2)

    assert "bad.toml: tick" in text
    assert "did you mean 'host'" in text


def test_a_good_configuration_is_described(tmp_path):
    write_small(tmp_path / "trace")
    file = tmp_path / "good.toml"
    file.write_text("[[sources]]\nkind = 'replay'\npath = 'trace'")
    done = fabriclens("check", "--config", file)

    assert done.returncode == 0
    assert "2 devices, 1 links" in done.stdout
    assert "40 rows" in done.stdout


@pytest.mark.parametrize(
    ("words", "status", "word"),
    [
        (["replay", "nowhere"], 2, "nowhere"),
        (["run", "--port", "99999"], 2, "http.port"),
        (["run", "--speed", "3"], 2, "--replay"),
        (["replay", ".", "--speed", "nan"], 2, "above 0"),
        (["run", "--log-level", "loud"], 2, "debug"),
        (["replay", ".", "--tick", "soon"], 2, "soon"),
        (["replay", ".", "--speed", "-1"], 2, "above 0"),
        (["check"], 2, "nothing to check"),
        (["check", "--config", "absent.toml"], 2, "absent.toml"),
        (["check", "--live", "http://127.0.0.1:9"], 1, "is the daemon running"),
        (["routes", "--url", "http://127.0.0.1:9"], 1, "is the daemon running"),
        (["run", "--config", "a.toml", "--replay", "b"], 2, "a.toml"),
        (["run", "--replay", "nowhere"], 2, "nowhere"),
        (["train", "nowhere", "--out", "x"], 2, "two traces"),
    ],
)
def test_bad_input_gets_one_clear_line(words, status, word, tmp_path):
    assert word in said(fabriclens(*words, cwd=tmp_path), status)


def test_replay_prints_json_for_programs(tmp_path):
    trace = write_small(tmp_path / "trace")
    done = fabriclens("replay", trace, "--out", tmp_path / "out", "--json")
    summary = json.loads(done.stdout)

    assert (summary["rows"], summary["ticks"], summary["ports"]) == (40, 20, 2)
    assert (tmp_path / "out/ports.parquet").exists()


def test_routes_of_a_trace(root):
    done = fabriclens("routes", root / "replay_data/degraded_link", "--json")

    assert {"set_weights"} <= {one["kind"] for one in json.loads(done.stdout)}


def test_output_into_a_closed_pipe_is_no_failure(tmp_path):
    trace = write_small(tmp_path / "trace")
    line = f"{sys.executable} -m fabriclens.cli replay {trace} --json | head -c 1 >/dev/null"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True)

    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_replay_that_is_stopped_leaves_no_half_files(number, status, root, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "fabriclens.cli", "replay", str(root / "replay_data/ddp")]
    process = subprocess.Popen(
        [*command, "--speed", "1", "--out", str(out)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 30
    while not list(out.glob(".*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(number)
    _, text = process.communicate(timeout=20)

    assert process.returncode == status, text
    assert "Traceback" not in text
    assert list(out.iterdir()) == []
