"""Reading traces: every layout gives the same rows, every broken file a message that helps."""

from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from collector.concat import concat
from collector.errors import TraceError
from collector.ports import PortTable
from collector.record import Batch
from collector.trace import Trace, read_labels

START = 1_780_272_000_000_000_000
TICK = 10_000_000
UTC = pa.timestamp("ns", tz="UTC")


def samples(ports: int = 6, rounds: int = 40, *, jitter: int = 0) -> pa.Table:
    """Rows sorted by time; port p of device p // 2 has sent round * (p + 1) bytes."""
    rng = np.random.default_rng(3)
    step = np.repeat(np.arange(rounds), ports)
    port = np.tile(np.arange(ports), rounds)
    time = START + step * TICK + (rng.integers(0, jitter, len(step)) if jitter else 0)
    order = np.argsort(time, kind="stable")
    step, port, time = step[order], port[order], time[order]
    return pa.table(
        {
            "time": pa.array(time).cast(UTC),
            "device": pa.array([f"leaf{p // 2}" for p in port]).dictionary_encode(),
            "port": pa.array([f"swp{p % 2}" for p in port]).dictionary_encode(),
            "tx_bytes": pa.array((step * (port + 1)).astype(np.uint64)),
            "rx_packets": pa.array((step * 7).astype(np.uint64), mask=port % 3 == 0),
            "queue_bytes": pa.array(step.astype(np.float64), mask=port == 1),
        }
    )


def by_port(table: pa.Table) -> pa.Table:
    return table.take(
        np.lexsort(
            (
                table["time"].cast(pa.int64()).to_numpy(),
                table["port"].combine_chunks().indices.to_numpy(),
                table["device"].combine_chunks().indices.to_numpy(),
            )
        )
    )


def written(path: Path, table: pa.Table, **options: object) -> Path:
    pq.write_table(table, path, **options)
    return path


def read(path: Path, rows: int = 65536) -> tuple[Trace, list[Batch], PortTable]:
    ports = PortTable()
    trace = Trace.open(path, ports)
    batches = list(trace.batches(rows))
    for batch in batches:
        batch.check()
    return trace, batches, ports


def same(left: Batch, right: Batch) -> bool:
    """Whether two batches say the same; values under a mask do not count."""
    if list(left.counters) != list(right.counters) or list(left.gauges) != list(right.gauges):
        return False
    if left.valid.keys() != right.valid.keys() or left.narrow != right.narrow:
        return False
    masked = [
        np.array_equal(
            np.where(left.valid.get(name, True), left.counters[name], 0),
            np.where(right.valid.get(name, True), right.counters[name], 0),
        )
        and np.array_equal(left.valid.get(name, True), right.valid.get(name, True))
        for name in left.counters
    ]
    gauges = [
        np.array_equal(left.gauges[name], right.gauges[name], equal_nan=True)
        for name in left.gauges
    ]
    return (
        np.array_equal(left.time, right.time)
        and np.array_equal(left.port, right.port)
        and all(masked)
        and all(gauges)
    )


def test_values_masks_and_gauges_arrive_as_written(tmp_path: Path) -> None:
    trace, (batch,), ports = read(written(tmp_path / "a.parquet", samples()))
    assert (trace.rows, trace.order, trace.sorted_rows) == (240, "time", 0)
    assert (trace.start, trace.end) == (START, START + 39 * TICK)
    assert trace.interval == pytest.approx(0.01)
    assert trace.columns == ("tx_bytes", "rx_packets", "queue_bytes")
    port = ports.find("leaf1", "swp1")
    mine = batch.port == port
    np.testing.assert_array_equal(batch.counters["tx_bytes"][mine], np.arange(40) * 4)
    assert "tx_bytes" not in batch.valid
    assert not batch.valid["rx_packets"][mine].any()
    assert np.isnan(batch.gauges["queue_bytes"][batch.port == ports.find("leaf0", "swp1")]).all()
    assert ports.devices == ["leaf0", "leaf0", "leaf1", "leaf1", "leaf2", "leaf2"]


@pytest.mark.parametrize("group", [7, 64, 1000])
@pytest.mark.parametrize("jitter", [0, 3_000_000, 40_000_000])
@pytest.mark.parametrize("rows", [50, 65536])
def test_every_layout_gives_identical_batches(
    tmp_path: Path, group: int, jitter: int, rows: int
) -> None:
    table = samples(jitter=jitter)
    rng = np.random.default_rng(1)
    want_trace, want, want_ports = read(written(tmp_path / "time.parquet", table), rows)
    other = {
        "grouped": written(tmp_path / "grouped.parquet", table, row_group_size=group),
        "port": written(tmp_path / "port.parquet", by_port(table), row_group_size=group),
    }
    if jitter == 40_000_000:
        # Without ties even a shuffled file has one right order.
        shuffled = table.take(rng.permutation(table.num_rows))
        other["unsorted"] = written(tmp_path / "u.parquet", shuffled, row_group_size=group)
    for order, path in other.items():
        trace, got, ports = read(path, rows)
        assert len(got) == len(want)
        assert all(same(left, right) for left, right in zip(got, want, strict=True)), order
        assert ports.devices == want_ports.devices
        assert ports.ports == want_ports.ports
        assert trace.order == ("time" if order == "grouped" else order)
        assert trace.sorted_rows == (0 if order == "grouped" else trace.rows)
        assert trace.interval == want_trace.interval


def test_an_instant_is_never_split_between_batches(tmp_path: Path) -> None:
    _, batches, _ = read(written(tmp_path / "a.parquet", samples(), row_group_size=31), rows=8)
    assert sum(map(len, batches)) == 240
    for before, after in pairwise(batches):
        assert before.time[-1] < after.time[0]


def test_a_file_without_statistics_of_time_reads_as_well(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.parquet", samples(), write_statistics=["device"], row_group_size=60
    )
    trace, batches, _ = read(path)
    assert trace.order == "time"
    assert (trace.start, trace.end) == (int(batches[0].time[0]), int(batches[0].time[-1]))


def test_sorted_by_time_streams_row_group_by_row_group(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", samples(), row_group_size=60)
    assert [len(span) for span in Trace.open(path, PortTable()).spans] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        (pa.timestamp("us", tz="UTC"), 1),
        (pa.timestamp("ms"), 1),
        (pa.timestamp("ns", tz="Asia/Tokyo"), 1),
        (pa.int64(), 1),
    ],
)
def test_times_of_other_types(tmp_path: Path, kind: pa.DataType, factor: int) -> None:
    table = samples()
    nanos = table["time"].cast(pa.timestamp("ns"))
    if pa.types.is_timestamp(kind):
        column = nanos.cast(pa.timestamp(kind.unit)).cast(pa.int64()).cast(kind)
    else:
        column = nanos.cast(kind)
    _, (batch,), _ = read(written(tmp_path / "a.parquet", table.set_column(0, "time", column)))
    np.testing.assert_array_equal(batch.time, table["time"].cast(pa.int64()).to_numpy())


@pytest.mark.parametrize(
    "kind",
    ["int64", "int32", "float64", "float32", "decimal128(20, 0)", "decimal128(20, 2)", "uint8"],
)
def test_lossless_number_types_are_taken(tmp_path: Path, kind: str) -> None:
    table = samples()
    numbers = [value.as_py() for value in table["tx_bytes"]]
    arrow = {
        "decimal128(20, 0)": pa.decimal128(20, 0),
        "decimal128(20, 2)": pa.decimal128(20, 2),
    }.get(kind) or getattr(pa, kind)()
    if pa.types.is_decimal(arrow):
        numbers = [Decimal(number) for number in numbers]
    path = written(
        tmp_path / "a.parquet", table.set_column(3, "tx_bytes", pa.array(numbers, arrow))
    )
    _, (batch,), _ = read(path)
    np.testing.assert_array_equal(batch.counters["tx_bytes"], table["tx_bytes"].to_numpy())


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.decimal128(20, 0)])
def test_negative_counts_are_absent_and_counted(tmp_path: Path, kind: pa.DataType) -> None:
    table = samples()
    numbers = [value.as_py() for value in table["tx_bytes"]]
    numbers[5], numbers[9] = -1, None
    column = pa.array(numbers).cast(pa.int64()).cast(kind)
    trace, (batch,), _ = read(
        written(tmp_path / "a.parquet", table.set_column(3, "tx_bytes", column))
    )
    assert trace.negative_values == 1
    assert np.flatnonzero(~batch.valid["tx_bytes"]).tolist() == [5, 9]


def test_a_counter_kept_in_32_bits_wraps_there(tmp_path: Path) -> None:
    table = samples()
    table = table.set_column(3, "tx_bytes", table["tx_bytes"].cast(pa.uint32()))
    _, (batch,), _ = read(written(tmp_path / "a.parquet", table))
    assert batch.narrow == {"tx_bytes"}


def test_unknown_columns_are_reported_not_fatal(tmp_path: Path) -> None:
    table = samples().append_column("flux", pa.array(np.arange(240)))
    table = table.append_column("note", pa.array(["x"] * 240))
    table = table.append_column("tcp_retransmits", pa.array(np.arange(240, dtype=np.uint64)))
    trace, (batch,), _ = read(written(tmp_path / "a.parquet", table))
    assert trace.ignored == ("flux", "note")
    np.testing.assert_array_equal(batch.counters["retransmits"], np.arange(240))


def test_a_folder_is_the_union_of_its_files(tmp_path: Path) -> None:
    table = samples()
    later = table.slice(120).append_column("cnp_sent", pa.array(np.ones(120, np.uint64)))
    written(tmp_path / "counters-000002.parquet", later)
    written(tmp_path / "counters-000001.parquet", table.slice(0, 120))
    (tmp_path / ".counters-000003.parquet.tmp").write_bytes(b"PAR1 half written")
    (tmp_path / "topology.json").write_text("{}")
    trace, (batch,), _ = read(tmp_path)
    assert len(batch) == trace.rows == 240
    assert (batch.time[1:] >= batch.time[:-1]).all()
    assert not batch.valid["cnp_sent"][:120].any()
    assert batch.valid["cnp_sent"][120:].all()
    assert trace.topology_path == tmp_path / "topology.json"
    assert trace.labels_path is None


def test_overlapping_files_are_merged_by_time(tmp_path: Path) -> None:
    table = samples()
    odd = np.arange(240) // 6 % 2 == 1
    written(tmp_path / "counters-000001.parquet", table.filter(pa.array(~odd)))
    written(tmp_path / "counters-000002.parquet", table.filter(pa.array(odd)))
    _, (got,), _ = read(tmp_path)
    _, (want,), _ = read(written(tmp_path / "whole.parquet", table))
    assert same(got, want)


def broken(tmp_path: Path, name: str) -> Path:  # noqa: PLR0912 - one case per way to be broken
    """A file that is broken in one way."""
    path = tmp_path / "counters.parquet"
    table = samples()
    match name:
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("time,device,port\n1,a,b\n")
        case "short":
            path.write_bytes(b"PAR1")
        case "truncated":
            whole = written(path, table).read_bytes()
            path.write_bytes(whole[: len(whole) * 2 // 3])
        case "footer":
            whole = bytearray(written(path, table).read_bytes())
            whole[-40:-20] = b"\xff" * 20
            path.write_bytes(bytes(whole))
        case "no rows":
            written(path, table.slice(0, 0))
        case "no time" | "no device" | "no port":
            written(path, table.drop_columns([name.removeprefix("no ")]))
        case "no counters":
            written(path, table.select(["time", "device", "port"]))
        case "column twice":
            double = pa.schema([*table.schema, table.schema.field("tx_bytes")])
            written(path, pa.table([*table.columns, table["tx_bytes"]], schema=double))
        case "text time":
            written(path, table.set_column(0, "time", pa.array(["noon"] * 240)))
        case "text counter":
            written(path, table.set_column(3, "tx_bytes", table["tx_bytes"].cast(pa.string())))
        case "number port":
            written(path, table.set_column(2, "port", pa.array(np.arange(240))))
        case "fractions":
            written(path, table.set_column(3, "tx_bytes", pa.array(np.arange(240) / 3)))
        case "decimal fractions":
            column = pa.array([Decimal("1.25")] * 240)
            written(path, table.set_column(3, "tx_bytes", column))
        case "infinite":
            written(path, table.set_column(3, "tx_bytes", pa.array(np.full(240, np.inf))))
        case "null time":
            column = pa.array([None] + [START] * 239, UTC)
            written(path, table.set_column(0, "time", column))
        case "null device":
            column = pa.array([None] + ["leaf0"] * 239)
            written(path, table.set_column(1, "device", column))
        case "far time":
            column = pa.array([2**62] * 240, pa.timestamp("ms"))
            written(path, table.set_column(0, "time", column))
        case "missing":
            pass
    return path


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("empty", "empty", "0 bytes"),
        ("text", "foreign", "not a Parquet file"),
        ("short", "corrupt", "corrupt"),
        ("truncated", "truncated", "truncated after"),
        ("footer", "corrupt", "corrupt"),
        ("no rows", "empty", "no rows"),
        ("no time", "mistyped", "'time'.*device, port, tx_bytes"),
        ("no device", "mistyped", "'device'"),
        ("no port", "mistyped", "'port'"),
        ("no counters", "mistyped", "known counter"),
        ("column twice", "mistyped", "'tx_bytes' more than once"),
        ("text time", "mistyped", "'time'.*string.*expected timestamp"),
        ("text counter", "mistyped", "'tx_bytes'.*string.*expected uint64"),
        ("number port", "mistyped", "'port'.*int64.*expected string"),
        ("fractions", "mistyped", "'tx_bytes'.*whole numbers"),
        ("decimal fractions", "mistyped", "'tx_bytes'.*whole numbers"),
        ("infinite", "mistyped", "'tx_bytes'.*whole numbers"),
        ("null time", "mistyped", "'time' has 1 null"),
        ("null device", "mistyped", "'device' has nulls"),
        ("far time", "corrupt", "corrupt"),
        ("missing", "missing", "no such file"),
    ],
)
def test_a_broken_file_is_named_and_explained(
    tmp_path: Path, name: str, reason: str, words: str
) -> None:
    path = broken(tmp_path, name)
    with pytest.raises(TraceError, match=words) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert caught.value.reason == reason
    if path.exists():
        with pytest.raises(TraceError, match=words):
            read(tmp_path)


def test_a_folder_without_counters(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no counters\.parquet") as caught:
        Trace.open(tmp_path, PortTable())
    assert str(tmp_path) in str(caught.value)


def test_an_unreadable_name_in_the_middle_of_a_folder_is_named(tmp_path: Path) -> None:
    written(tmp_path / "counters-000001.parquet", samples())
    (tmp_path / "counters-000002.parquet").write_bytes(b"")
    with pytest.raises(TraceError, match=r"counters-000002\.parquet: is empty"):
        Trace.open(tmp_path, PortTable())


def test_a_row_group_corrupt_in_the_middle(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.parquet", samples(8, 80_000), row_group_size=160_000, write_page_checksum=True
    )
    column = pq.ParquetFile(path).metadata.row_group(2).column(3)
    damaged = bytearray(path.read_bytes())
    place = column.data_page_offset + column.total_compressed_size // 2
    for index in range(place, place + 16):
        damaged[index] ^= 0x55
    path.write_bytes(bytes(damaged))
    trace = Trace.open(path, PortTable())
    batches = trace.batches(1 << 16)
    # What lies before the damage is still read.
    assert len(next(batches)) + len(next(batches)) > 120_000
    with pytest.raises(TraceError, match=r"a\.parquet: is corrupt"):
        list(batches)


def test_a_file_that_changes_under_the_reader_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", samples(), row_group_size=60)
    trace = Trace.open(path, PortTable())
    written(path, samples(6, 80).slice(60), row_group_size=60)
    with pytest.raises(TraceError, match="changed while"):
        list(trace.batches())


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_flipped_bytes_never_escape_as_another_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("flip") / "a.parquet"
    content = bytearray(written(path, samples(), write_page_checksum=True).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(content))
    try:
        _, batches, _ = read(path)
    except TraceError as error:
        event("refused")
        message = str(error)
    else:
        event("read")
        message = str(path)
        assert sum(map(len, batches)) <= 240
    assert str(path) in message


def test_concat_of_batches_with_different_columns() -> None:
    left = Batch(
        "a",
        np.array([1, 2]),
        np.array([0, 1], np.int32),
        {"tx_bytes": np.array([1, 2], np.uint64)},
        narrow=frozenset({"tx_bytes"}),
    )
    right = Batch(
        "b",
        np.array([3]),
        np.array([0], np.int32),
        {"rx_bytes": np.array([9], np.uint64)},
        {"power_watts": np.array([4.0])},
        discontinuity=np.array([7]),
    )
    whole = concat([left, right])
    whole.check()
    assert whole.valid["tx_bytes"].tolist() == [True, True, False]
    assert whole.valid["rx_bytes"].tolist() == [False, False, True]
    assert whole.narrow == {"tx_bytes"}
    assert whole.discontinuity is not None
    assert whole.discontinuity.tolist() == [0, 0, 7]
    assert np.isnan(whole.gauges["power_watts"]).tolist() == [True, True, False]


def labels(**changes: object) -> pa.Table:
    times = pa.array([START, START + TICK], UTC)
    columns: dict[str, object] = {
        "start": times,
        "end": times,
        "device": pa.array(["h0", "h1"]),
        "port": pa.array(["eth0", "eth0"]),
        "label": pa.array(["all_to_all", "other"]),
        "tx_bytes": pa.array([1, 2]),
        "extra": pa.array([1.5, 2.5]),
    }
    kept = columns | changes
    return pa.table({name: column for name, column in kept.items() if column is not None})


def test_labels_are_read_and_normalised(tmp_path: Path) -> None:
    times = pa.array([START // 1000, START // 1000 + 5], pa.timestamp("us"))
    path = written(tmp_path / "labels.parquet", labels(wire_end=times))
    table = read_labels(path)
    assert table.num_rows == 2
    assert table.schema.field("wire_end").type == UTC
    assert table.column("wire_end").cast(pa.int64()).to_pylist()[0] == START
    assert "extra" in table.column_names


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"label": None}, "no column 'label'"),
        ({"start": pa.array(["a", "b"])}, "'start' has the type string"),
        ({"end": pa.array([None, START], UTC)}, "'end' has 1 null"),
        ({"device": pa.array([1, 2])}, "'device' has the type int64"),
        ({"label": pa.array(["other", None])}, "'label' has nulls"),
        ({"tx_bytes": pa.array(["1", "2"])}, "'tx_bytes' has the type string"),
    ],
)
def test_bad_labels_are_explained(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    path = written(tmp_path / "labels.parquet", labels(**changes))
    with pytest.raises(TraceError, match=words) as caught:
        read_labels(path)
    assert str(path) in str(caught.value)


def test_labels_without_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "labels.parquet", labels().slice(0, 0))
    with pytest.raises(TraceError, match="no rows"):
        read_labels(path)


def test_every_shared_capture_reads_right(shared: Path) -> None:
    folders = sorted(path.parent for path in shared.glob("captures*/*/counters.parquet"))
    assert len(folders) >= 60
    for folder in folders:
        trace, batches, ports = read(folder)
        assert trace.rows == pq.read_metadata(folder / "counters.parquet").num_rows
        assert sum(map(len, batches)) == trace.rows
        time = np.concatenate([batch.time for batch in batches])
        assert (np.diff(time) >= 0).all()
        assert (time[0], time[-1]) == (trace.start, trace.end)
        assert trace.ignored == ()
        assert trace.topology_path is not None
        assert 0.009 < trace.interval < 0.11
        assert len(ports) == len(np.unique(np.concatenate([b.port for b in batches])))
        if trace.labels_path is not None:
            assert read_labels(trace.labels_path).num_rows > 0


def test_a_capture_agrees_with_pyarrow(shared: Path) -> None:
    path = shared / "captures" / "ho_moe"
    table = pq.read_table(path / "counters.parquet")
    _, batches, ports = read(path)
    whole = concat(batches)
    for name, column in (("tx_bytes", "tx_bytes"), ("retransmits", "tcp_retransmits")):
        mine = whole.port == ports.find("h3", "eth0")
        rows = np.array(
            [
                d == "h3" and p == "eth0"
                for d, p in zip(table["device"].to_pylist(), table["port"].to_pylist(), strict=True)
            ]
        )
        assert mine.sum() == rows.sum() > 0
        want = table[column].filter(pa.array(rows))
        present = want.is_valid().to_numpy()
        got = whole.counters[name][mine]
        np.testing.assert_array_equal(got[present], want.drop_null().to_numpy())
        if not present.all():
            np.testing.assert_array_equal(whole.valid[name][mine], present)
