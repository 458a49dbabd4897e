"""The daemon's snapshot and what /proc says."""

import os
import time
from pathlib import Path

import pytest

from exporters.selfmetrics import Process, Snapshot, put_build


def test_names_and_labels_are_checked():
    snapshot = Snapshot()
    snapshot.put("source_up", 1, source="linux")
    assert snapshot.rows == {"fabriclens_source_up": [({"source": "linux"}, 1)]}
    for name, labels in (
        ("source_up", {}),
        ("source_up", {"source": "a", "port": "b"}),
        ("no_such_thing", {}),
        ("port_up", {"device": "a", "port": "b"}),
    ):
        with pytest.raises(KeyError):
            snapshot.put(name, 1, **labels)


def test_counter_dicts():
    snapshot = Snapshot()
    snapshot.put_counts("source_failures_total", "reason", {"timeout": 2, "refused": 1}, source="x")
    assert snapshot.rows["fabriclens_source_failures_total"] == [
        ({"reason": "timeout", "source": "x"}, 2),
        ({"reason": "refused", "source": "x"}, 1),
    ]


def test_build():
    snapshot = Snapshot()
    put_build(snapshot)
    ((labels, value),) = snapshot.rows["fabriclens_build_info"]
    assert value == 1
    assert labels["version"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
def test_this_process():
    snapshot = Snapshot()
    Process().put(snapshot)
    values = {name: rows[0][1] for name, rows in snapshot.rows.items()}
    spent = os.times()
    assert values["process_cpu_seconds_total"] == pytest.approx(spent.user + spent.system, abs=0.5)
    assert 1e7 < values["process_resident_memory_bytes"] < 1e11
    assert values["process_virtual_memory_bytes"] >= values["process_resident_memory_bytes"]
    assert values["process_open_fds"] >= 3
    assert values["process_threads"] >= 1
    assert 0 <= time.time() - values["process_start_time_seconds"] < 86400


def test_a_strange_command_name_and_no_proc(tmp_path):
    snapshot = Snapshot()
    Process(tmp_path / "self").put(snapshot)
    assert snapshot.rows == {}
    home = tmp_path / "self"
    (home / "fd").mkdir(parents=True)
    (home / "fd" / "0").touch()
    fields = " ".join(str(number) for number in range(3, 53))
    (home / "stat").write_text(f"7 (a) b (c)) {fields}\n")
    (tmp_path / "stat").write_text("cpu 1\nbtime 1000\nprocesses 3\n")
    Process(home).put(snapshot)
    ticks = os.sysconf("SC_CLK_TCK")
    # Fields 14, 15, 20, 22 to 24 of the manual page of /proc; here each holds its own number.
    assert snapshot.rows["process_cpu_seconds_total"] == [({}, (14 + 15) / ticks)]
    assert snapshot.rows["process_threads"] == [({}, 20)]
    assert snapshot.rows["process_start_time_seconds"] == [({}, 1000 + 22 / ticks)]
    assert snapshot.rows["process_virtual_memory_bytes"] == [({}, 23)]
    assert snapshot.rows["process_open_fds"] == [({}, 1)]
