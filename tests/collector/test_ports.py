"""Port names: one id a name, and nothing that an encoder would choke on."""

from collector.ports import PortTable


def test_ids_are_dense_and_stay():
    ports = PortTable()

    assert [ports.intern("a", "1"), ports.intern("b", "1"), ports.intern("a", "1")] == [0, 1, 0]
    assert ports.find("b", "1") == 1
    assert ports.find("b", "2") == -1


def test_broken_bytes_in_names_are_written_out_and_kept_apart():
    ports = PortTable()
    first, second = ports.intern("q\udcff", "p"), ports.intern("q\udcfe", "p")

    assert first != second
    assert ports.devices[first] != ports.devices[second]
    assert ports.devices[first].encode("utf-8") == b"q\\udcff"
