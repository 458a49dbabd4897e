"""What the project promises about itself: no registry host, no path of a machine, no drift."""

import re
import subprocess
import sys
import tomllib
import zipfile

import pytest


def tracked(root):
    listed = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [root / name for name in listed.stdout.splitlines()]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_lock_is_hashed_and_names_no_host(root, name):
    text = (root / name).read_text()
    pins = re.findall(r"^[a-z0-9_.-]+==", text, re.MULTILINE)

    assert len(pins) > 15
    assert "://" not in text
    for block in re.split(r"\n(?=[a-z])", text):
        assert "--hash=sha256:" in block


def test_direct_dependencies_are_locked(root):
    wanted = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    lock = (root / "requirements.lock").read_text()
    for requirement in wanted:
        assert f"\n{re.split('[<>=]', requirement)[0]}==" in f"\n{lock}"


def test_files_stay_one_idea_long(root):
    for path in tracked(root):
        if path.suffix == ".py" and path.parent.name != "tests" and "tests" not in path.parts:
            assert len(path.read_text().splitlines()) <= 350, path


def test_replay_data_fits(root):
    size = sum(path.stat().st_size for path in (root / "replay_data").rglob("*") if path.is_file())

    assert size < 10_000_000


def test_every_bundled_trace_has_its_sheet(root):
    sheet = (root / "replay_data/README.md").read_text()
    for folder in (root / "replay_data").iterdir():
        if folder.is_dir():
            assert f"`{folder.name}`" in sheet
            assert (folder / "meta.json").is_file()


def test_wheel_holds_the_model_and_the_dictionary(root, tmp_path):
    """What the container installs: code alone would start and then find no model."""
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {
        "classifier/bundled/model.skops",
        "classifier/bundled/card.json",
        "collector/vendors/infiniband.toml",
        "fabriclens/cli.py",
    } <= names


def test_packages_are_what_the_container_copies(root):
    dockerfile = (root / "Dockerfile").read_text()
    packages = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    for package in packages["targets"]["wheel"]["packages"]:
        assert f"COPY {package} {package}" in dockerfile
    assert "USER 65532" in dockerfile
    assert "HEALTHCHECK" in dockerfile
