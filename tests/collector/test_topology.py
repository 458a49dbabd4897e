import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.errors import ConfigError
from collector.ports import PortTable
from collector.topology import HOST, LEAF, ROLES, SPINE, Topology, bind, read_topology

SMALL = {
    "devices": [
        {"name": "h0", "role": "host", "site": "dc0", "rail": 3},
        {"name": "leaf0", "role": "leaf", "site": "dc0"},
        {"name": "spine0", "role": "spine"},
    ],
    "links": [
        {"a": {"device": "h0", "port": "eth0"}, "b": {"device": "leaf0", "port": "swp1"}},
        {
            "a": {"device": "leaf0", "port": "swp2"},
            "b": {"device": "spine0", "port": "swp1"},
            "speed_bps": 4e11,
        },
    ],
}


def written(tmp_path, content):
    path = tmp_path / "topology.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_arrays_follow_the_port_table(tmp_path):
    ports = PortTable()
    early = ports.intern("spine0", "swp1")
    stranger = ports.intern("other", "eth7")
    fabric = bind(read_topology(written(tmp_path, SMALL)), ports)
    find = ports.find
    assert len(fabric) == len(ports) == 5
    assert fabric.peer[early] == find("leaf0", "swp2")
    assert fabric.peer[find("leaf0", "swp2")] == early
    assert fabric.peer[find("h0", "eth0")] == find("leaf0", "swp1")
    assert fabric.peer[stranger] == -1
    assert fabric.nominal_bps[early] == 4e11
    assert np.isnan(fabric.nominal_bps[find("h0", "eth0")])
    assert fabric.names == ("h0", "leaf0", "spine0", "other")
    assert fabric.site == ("dc0", "dc0", "", "")
    assert list(fabric.port_role()) == [SPINE, 0, HOST, LEAF, LEAF]
    assert fabric.names[fabric.peer_device()[early]] == "leaf0"
    assert fabric.peer_device()[stranger] == -1


def test_an_empty_topology_still_names_the_ports_devices():
    ports = PortTable()
    ports.intern("a", "x")
    ports.intern("b", "y")
    fabric = bind(Topology(), ports)
    assert fabric.names == ("a", "b")
    assert (fabric.peer == -1).all()
    assert (fabric.peer_device() == -1).all()
    assert np.isnan(fabric.nominal_bps).all()


def test_binding_again_keeps_ids():
    ports = PortTable()
    topology = Topology.model_validate(SMALL)
    first = bind(topology, ports)
    ports.intern("late", "eth0")
    again = bind(topology, ports)
    np.testing.assert_array_equal(again.peer[: len(first)], first.peer)
    np.testing.assert_array_equal(again.device[: len(first)], first.device)


def change(**changes):
    return {**SMALL, **changes}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "file: "),
        ("[]", "file: "),
        (change(devices=[{"name": ""}]), "devices.0.name"),
        (change(devices=[{"name": "x", "role": "boss"}]), "devices.0.role"),
        (change(devices=[*SMALL["devices"], {"name": "h0"}]), "'h0' is declared twice"),
        (
            change(links=[{"a": {"device": "no", "port": "p"}, "b": SMALL["links"][0]["b"]}]),
            "links.0.a.device: 'no'",
        ),
        (change(links=[{**SMALL["links"][1], "speed_bps": 0}]), "links.0.speed_bps"),
        (change(links=[{"a": {"device": "h0", "port": "p"}}]), "links.0.b"),
        (
            change(
                links=[
                    SMALL["links"][0],
                    {"a": SMALL["links"][0]["b"], "b": {"device": "spine0", "port": "swp9"}},
                ]
            ),
            "links.1.a: leaf0 swp1 already ends link 0",
        ),
        (
            change(links=[{"a": SMALL["links"][0]["a"], "b": SMALL["links"][0]["a"]}]),
            "links.0.b: h0 eth0 already ends link 0",
        ),
    ],
)
def test_mistakes_are_named_by_file_and_field(tmp_path, content, says):
    path = written(tmp_path, content)
    with pytest.raises(ConfigError) as caught:
        read_topology(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.json: cannot be read"):
        read_topology(tmp_path / "gone.json")


@given(st.permutations(range(6)))
def test_peers_are_mutual_whatever_the_order_of_ports(order):
    ports = PortTable()
    names = [("h0", "eth0"), ("leaf0", "swp1"), ("leaf0", "swp2"), ("spine0", "swp1")]
    names += [("x", "1"), ("x", "2")]
    for index in order:
        ports.intern(*names[index])
    fabric = bind(Topology.model_validate(SMALL), ports)
    for port, peer in enumerate(fabric.peer):
        if peer >= 0:
            assert fabric.peer[peer] == port
            assert fabric.device[peer] != fabric.device[port]
    assert len(ROLES) > fabric.role.max()


@pytest.mark.parametrize("name", ["captures-pfc/clean-1", "captures/ho_diloco_2site"])
def test_field_topologies_bind(shared, name):
    ports = PortTable()
    fabric = bind(read_topology(shared / name / "topology.json"), ports)
    assert len(fabric) > 0
    assert (fabric.peer >= 0).all()
    assert (fabric.nominal_bps > 0).all()
