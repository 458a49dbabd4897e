"""A wrong configuration is explained with file, field and allowed values, before anything runs."""

import tomllib

import pytest

from collector.errors import ConfigError
from fabriclens.config import Config, parse_config, read_config
from fabriclens.sample import sample_config
from fabriclens.setup import daemon_config


def fault(text, tmp_path):
    """What the operator is told about a file."""
    path = tmp_path / "fabriclens.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_an_empty_file_is_the_default(tmp_path):
    path = tmp_path / "empty.toml"
    path.write_text("")

    assert Config() == read_config(path)


def test_the_default_binds_to_loopback():
    assert Config().http.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tick = 0", ["tick", "0.01"]),
        ("tic = 1", ["tic", "did you mean 'tick'", "queue_rows"]),
        ("[http]\nport = 70000", ["http.port", "65535"]),
        ("[http]\nhots = 'x'", ["http.hots", "'host'"]),
        ("[metrics]\nports = 'some'", ["metrics.ports", "'all'", "'congested'", "'none'"]),
        ("sources = []", ["sources", "at least 1"]),
        ("[[sources]]\nkind = 'snmp'", ["sources.0.kind", "'snmp'", "'linux'", "'replay'"]),
        ("[[sources]]\nname = 'x'", ["sources.0.kind", "missing", "'linux'"]),
        ("[[sources]]\nkind = 'replay'", ["sources.0.replay.path", "missing"]),
        ("[[sources]]\nkind = 'replay'\npath = 'x'\nspeed = -1", ["sources.0.replay.speed"]),
        ("[[sources]]\nkind = 'linux'\ninterval = 'often'", ["sources.0.linux.interval", "often"]),
        ("[[sources]]\nkind = 'linux'\nintervall = 1", ["intervall", "did you mean 'interval'"]),
        ("[record]\nrotate_seconds = 5", ["record.directory", "missing"]),
        ("tick = ", ["not valid TOML"]),
        ("[sources]\nkind = 'linux'", ["sources: must be [[sources]] tables"]),
        ("dictionary = 'x'", ["dictionary: must be a list"]),
    ],
)
def test_every_fault_names_field_and_remedy(text, words, tmp_path):
    said = fault(text, tmp_path)

    for word in words:
        assert word in said


def test_all_faults_are_told_at_once(tmp_path):
    said = fault("tick = 0\nqueue_rows = 1\n[http]\nport = -1", tmp_path)

    assert len(said.splitlines()) == 3


def test_a_fault_inside_a_source_is_not_followed_by_its_echo(tmp_path):
    said = fault("[[sources]]\nkind = 'replay'\npath = 'x'\nspeed = 'fast'", tmp_path)

    assert "constrained" not in said
    assert "at least 1 item" not in said


def test_two_sources_of_one_name(tmp_path):
    twice = "[[sources]]\nkind = 'linux'\n" * 2

    assert "two sources are called 'linux'" in fault(twice, tmp_path)


def test_a_replay_must_be_alone(tmp_path):
    text = "[[sources]]\nkind = 'linux'\n[[sources]]\nkind = 'replay'\npath = 'x'"

    assert "must be the only source" in fault(text, tmp_path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(tmp_path / "absent.toml")


def test_relative_paths_start_from_the_file(tmp_path):
    raw = tomllib.loads("topology = 'fabric.json'\n[[sources]]\nkind = 'replay'\npath = 'trace'")
    config = parse_config(raw, "x.toml", tmp_path)

    assert tmp_path / "fabric.json" == config.topology
    assert tmp_path / "trace" == config.sources[0].path


def test_sample_is_valid_and_is_the_default(tmp_path):
    path = tmp_path / "sample.toml"
    path.write_text(sample_config())
    config = read_config(path)

    assert Config().model_dump(exclude={"sources"}) == config.model_dump(exclude={"sources"})
    assert [source.kind for source in config.sources] == ["linux"]


def test_sample_names_every_setting():
    text = sample_config()
    for name in Config.model_fields:
        assert name in text


def test_documented_sample_has_not_drifted(root):
    assert sample_config() == (root / "docs/fabriclens.toml").read_text()


def test_command_line_goes_before_the_file(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text("[http]\nport = 1234")

    assert daemon_config(path, port=4321).http.port == 4321
    assert daemon_config(path, port=4321).http.host == "127.0.0.1"


def test_a_trace_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no such trace"):
        daemon_config(None, replay=tmp_path / "gone")
