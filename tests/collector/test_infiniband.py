"""Sysfs trees from the field, whole ones where they are at hand and reduced ones always."""

import json
import math
import shutil
from collections import Counter
from pathlib import Path

import pytest

from collector.choice import Choice
from collector.clock import ManualClock, SteadyClock
from collector.dictionary import load_dictionary
from collector.errors import SourceUnavailable
from collector.infiniband import Infiniband, rate_bps
from collector.losses import Losses
from collector.ports import PortTable
from collector.sources.linux import LinuxConfig, LinuxSource
from collector.sysfs import Attributes

CASES = Path(__file__).parent.parent / "cases" / "linux"
REDUCED = sorted(folder.name for folder in CASES.iterdir() if (folder / "expected.json").exists())


async def read(root, **settings):
    """{port: {counter or gauge: value}} of one reading below a root, and what was dropped."""
    ports = PortTable()
    source = LinuxSource(LinuxConfig(device="host", root=root, **settings), ports, SteadyClock())
    found = {}
    async for batch in source.collect():
        batch.check()
        for row, port in enumerate(batch.port.tolist()):
            assert ports.devices[port] == "host"
            values = {n: c[row] for n, c in batch.counters.items() if n not in batch.valid}
            values |= {n: batch.counters[n][row] for n, m in batch.valid.items() if m[row]}
            values = {name: int(value) for name, value in values.items()}
            found[ports.ports[port]] = values | {n: float(c[row]) for n, c in batch.gauges.items()}
    await source.close()
    return found, source.dropped


def same(value, expected):
    return math.isnan(value) if expected is None else value == expected


@pytest.mark.parametrize("name", REDUCED)
async def test_specimens(name):
    expected = json.loads((CASES / name / "expected.json").read_text())
    dropped = Counter()
    for tree, answer in expected["reads"].items():
        found, lost = await read(CASES / name / tree)
        dropped += lost
        assert set(found) == set(answer["ports"])
        for port, values in answer["ports"].items():
            for counter, value in values.items():
                assert same(found[port][counter], value), (port, counter, found[port][counter])
        for port, counters in answer["absent"].items():
            assert not set(counters) & set(found[port])
    assert sorted(dropped) == expected["dropped"]


async def test_two_ports_with_legacy_folders(shared):
    found, _ = await read(shared / "cases/15-sysfs-mlx4-two-ports-legacy-64bit")
    for port in ("mlx4_0/1", "mlx4_0/2"):
        assert (found[port]["rx_bytes"], found[port]["tx_bytes"]) == (18527668, 14933760)
        assert found[port]["speed_bps"] == 4e10
        assert "rx_packets" not in found[port]
    assert found["mlx4_0/1"]["symbol_errors"] == 0
    assert "symbol_errors" not in found["mlx4_0/2"]


def test_link_layers_lose_their_empty_lines(shared):
    reader = infiniband(shared / "cases/15-sysfs-mlx4-two-ports-legacy-64bit")
    reader.read()
    assert reader.link_layers == {"mlx4_0/1": "InfiniBand", "mlx4_0/2": "InfiniBand"}


async def test_a_poor_driver_beside_a_rich_one(shared, capsys):
    found, _ = await read(shared / "cases/17-sysfs-irdma-next-to-mlx5")
    assert found["mlx5_0/1"]["rx_bytes"] == 72505381512
    assert found["mlx5_0/1"]["tx_bytes"] == 11523046035392
    for port in ("irdma0/1", "irdma1/1"):
        assert set(found[port]) == {"oper_up", "speed_bps"}
        assert math.isnan(found[port]["speed_bps"])
    logged = capsys.readouterr().out
    assert logged.count("irdma0/ports/1/counters") == 1


async def test_omni_path(shared):
    found, _ = await read(shared / "cases/19-sysfs-hfi1-comma-in-file-name")
    assert set(found) == {"hfi1_0/1"}
    assert found["hfi1_0/1"]["rx_bytes"] == 1380366808104
    assert found["hfi1_0/1"]["tx_bytes"] == 1094233306172


async def test_rate_strings(shared):
    found, dropped = await read(shared / "cases/21-sysfs-rate-strings")
    speeds = {port[:-2]: row["speed_bps"] / 8 for port, row in found.items()}
    known = {name: speed for name, speed in speeds.items() if not math.isnan(speed)}
    assert known == {
        "mlx5_0": 5e10, "mlx5_1": 1e11, "mlx5_2": 1.25e10, "mlx5_3": 1.25e10, "mlx5_4": 3.125e9,
        "i40iw0": 1.25e9, "irdma0": 1.25e10,
    }  # fmt: skip
    assert {"mlx5_5", "mlx4_1", "mlx4_0", "mlx5_9", "rxe0"} <= set(speeds)
    assert dropped["rate_unparsable"] == 1
    assert [found[f"{name}/1"]["oper_up"] for name in ("mlx5_5", "mlx4_0", "mlx5_0")] == [0, 0, 1]


async def test_efa_counts_bytes(shared):
    case = shared / "cases/23-sysfs-efa-no-counters-dir-real-bytes"
    (before, _), (after, _) = await read(case / "t0"), await read(case / "t10")
    rates = {
        name: (after["rdmap0s31/1"][name] - before["rdmap0s31/1"][name]) / 10
        for name in ("tx_bytes", "rx_bytes", "rx_discards")
    }
    assert rates == {"tx_bytes": 2.5e9, "rx_bytes": 2.4e9, "rx_discards": 10}
    assert math.isnan(after["rdmap0s31/1"]["oper_up"])


async def test_net_speeds(shared):
    found, _ = await read(shared / "cases/25-sysfs-net-speed-minus-one")
    assert len(found) == 7
    assert "bonding_masters" not in found
    known = {name: row["speed_bps"] for name, row in found.items() if row["speed_bps"] > 0}
    assert known == {"ens1f0np0": 4e11}
    assert all("rx_bytes" in row and "tx_bytes" in row for row in found.values())


async def test_factor_four(shared):
    case = shared / "cases/27-ib-factor-four-three-tools"
    (before, _), (after, _) = await read(case / "t0"), await read(case / "t60")
    first, last = before["mlx5_0/1"]["rx_bytes"], after["mlx5_0/1"]["rx_bytes"]
    assert first == 953339799751036
    assert (last - first) / 60 == 6_458_810_000


async def test_only_hardware_that_is_up_is_worth_a_warning(capsys):
    await read(CASES / "speed-unknown" / "tree")
    warned = [line for line in capsys.readouterr().out.splitlines() if "speed_unknown" in line]
    # vnet3 and tap0 are virtual, ens5f0, eno2 and ibp1s0 are down.
    assert ["eth7" in line for line in warned] == [True]


@pytest.mark.parametrize(
    ("text", "bps"),
    [("400 Gb/sec (4X NDR)", 4e11), ("2.5 Gb/sec (1X SDR)", 2.5e9), ("100 Gb/sec", 1e11)],
)
def test_rates(text, bps):
    assert rate_bps(text) == bps


@pytest.mark.parametrize("text", ["", "unknown", "Gb/sec", "-1 Gb/sec", "100", "100 Mb/sec"])
def test_no_rates(text):
    assert math.isnan(rate_bps(text))


def infiniband(root, clock=None, losses=None, tick=None):
    choice = Choice(("*",), (), {})
    clock, losses = clock or ManualClock(), losses or Losses()
    return Infiniband(root, "host", load_dictionary(), choice, clock, losses, tick)


def test_waiting_needs_the_length_of_a_tick(shared):
    root = shared / "cases/17-sysfs-irdma-next-to-mlx5"
    untold = infiniband(root).read()
    assert not any("tx_stalled_ns" in reading.counters for reading in untold)
    told = [r for r in infiniband(root, tick=2.5).read() if "tx_stalled_ns" in r.counters]
    row = told[0].names.index("mlx5_0/1")
    assert told[0].counters["tx_stalled_ns"][row] == round(77 * 2.5)


@pytest.fixture
def tree(tmp_path):
    shutil.copytree(CASES / "words-times-four" / "t0", tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_mixed_widths_go_into_readings_of_their_own(tree):
    hw_counters = tree / "sys/class/infiniband/mlx5_0/ports/1/hw_counters"
    hw_counters.mkdir()
    (hw_counters / "out_of_sequence").write_text("7\n")
    shutil.copytree(CASES / "bytes-are-bytes" / "t0", tree, dirs_exist_ok=True)
    by_port = {reading.names: reading for reading in infiniband(tree).read()}
    assert by_port["mlx5_0/1",].narrow == {"out_of_sequence"}
    assert by_port["mlx5_0/1",].counters["out_of_sequence"].tolist() == [7]
    assert by_port["rdmap0s31/1",].narrow == frozenset()


def test_a_device_that_goes_and_comes_back(tree):
    clock, losses = ManualClock(), Losses()
    reader = infiniband(tree, clock, losses)
    assert reader.read()[0].counters["tx_bytes"].tolist() == [4000]
    device = tree / "sys/class/infiniband/mlx5_0"
    device.rename(tree / "aside")
    gone = reader.read()
    assert "tx_bytes" not in gone[0].counters
    assert losses.counts["missing"] > 0
    clock.advance(1)
    assert reader.read() == []
    (tree / "aside").rename(device)
    clock.advance(31)
    assert reader.read()[0].counters["tx_bytes"].tolist() == [4000]


def test_a_choice_of_file_lasts(tree):
    """A second file that counts the same must not take over while the first can be read."""
    clock = ManualClock()
    reader = infiniband(tree, clock)
    reader.read()
    extended = tree / "sys/class/infiniband/mlx5_0/ports/1/counters_ext"
    extended.mkdir()
    (extended / "port_xmit_data_64").write_text("1\n")
    clock.advance(31)
    assert reader.read()[0].counters["tx_bytes"].tolist() == [4000]


def test_attributes_stay_open_in_sysfs_only(tmp_path):
    real = "/sys/class/net/lo/statistics/rx_bytes"
    if not Path(real).exists():
        pytest.skip("no sysfs here")
    losses = Losses()
    attributes = Attributes(losses)
    first = attributes.number(real)
    assert attributes.number(real) >= first
    assert list(attributes._open) == [real]
    copy = tmp_path / "rx_bytes"
    for value in (1, 2):
        later = tmp_path / "later"
        later.write_text(str(value))
        later.rename(copy)
        assert attributes.number(str(copy)) == value
    assert list(attributes._open) == [real]
    attributes.close()
    assert not attributes._open


def test_each_failure_is_named_once_and_counted_always(tmp_path, capsys):
    losses = Losses()
    attributes = Attributes(losses)
    for _ in range(3):
        assert attributes.number(str(tmp_path / "absent")) is None
        assert attributes.number(str(tmp_path)) is None
    assert losses.counts == {"missing": 3, "directory": 3}
    assert capsys.readouterr().out.count("absent") == 1


async def test_an_empty_root_is_an_error(tmp_path):
    with pytest.raises(SourceUnavailable, match="sys/class/net"):
        await read(tmp_path)
