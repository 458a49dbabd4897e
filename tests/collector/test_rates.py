"""What two readings mean: one test per way in which collectors in the field got it wrong."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.counters import CUMULATIVE
from collector.ports import PortTable
from collector.rates import Rates
from collector.record import Batch
from collector.ticks import TickCutter

NS = 1_000_000_000
EPOCH = 1_700_000_000 * NS


def batch(port, time, counters, *, narrow=(), received=None, mark=None, gauges=None):
    """One row of one port; time and received in seconds."""
    return Batch(
        source="test",
        time=np.array([EPOCH + round(time * NS)], np.int64),
        port=np.array([port], np.int32),
        counters={
            name: np.array([value], np.uint64)
            for name, value in counters.items()
            if value is not None
        },
        gauges={name: np.array([value], np.float64) for name, value in (gauges or {}).items()},
        narrow=frozenset(narrow),
        received=None if received is None else round(received * NS) + NS,
        discontinuity=None if mark is None else np.array([mark], np.int64),
    )


class Feed:
    """Feeds one port, a tick per sample, and keeps what each tick measured."""

    def __init__(self, speed_bps=np.nan, tick=1.0):
        self.ports = PortTable()
        self.port = self.ports.intern("switch", "p1")
        self.rates = Rates()
        self.speed = np.array([speed_bps])
        self.tick = tick
        self.measured = []

    def __call__(self, time, counters, **kwargs):
        sample = batch(self.port, time, counters, **kwargs)
        # Live, the tick's end is our clock's, not the device's.
        end = EPOCH + round((kwargs.get("received") or time) * NS)
        measured = self.rates.update([sample], end, self.tick, self.speed)
        self.measured.append(measured)
        return measured

    def rate(self, name):
        return [float(measured.rate(name)[0]) for measured in self.measured]

    def total(self, name):
        return int(self.measured[-1].total(name)[0])


def test_first_reading_only_seeds():
    feed = Feed(1e9)
    feed(0, {"rx_bytes": 5_000_000})

    assert np.isnan(feed.rate("rx_bytes")[0])
    assert feed.total("rx_bytes") == 0


def test_a_rate_uses_the_true_interval():
    feed = Feed(1e9)
    feed(0, {"rx_bytes": 0})
    feed(1.25, {"rx_bytes": 1_000_000})

    assert pytest.approx(feed.rate("rx_bytes")[1]) == 800_000


def test_missing_counter_is_null_not_zero():
    feed = Feed(1e9)
    feed(0, {"rx_bytes": 0})
    measured = feed(1, {"rx_bytes": 10})

    assert np.isnan(measured.rate("tx_bytes")[0])
    assert not measured.present[CUMULATIVE.index("tx_bytes"), 0]


def test_difference_beyond_2_to_53_is_exact():
    feed = Feed(400e9)
    start = 2**63 + 12345
    feed(0, {"rx_bytes": start})
    feed(1, {"rx_bytes": start + 12_500_000_001})

    assert feed.total("rx_bytes") == 12_500_000_001


def test_narrow_counter_wraps_at_line_rate():
    """Case 81, Gi0/1: 32 bits at 1 Gb/s over 30 s is one wrap."""
    feed = Feed(1e9, tick=30)
    feed(0, {"rx_bytes": 4_290_000_000}, narrow=["rx_bytes"])
    feed(30, {"rx_bytes": (4_290_000_000 + 12_967_296) % 2**32}, narrow=["rx_bytes"])

    assert pytest.approx(feed.rate("rx_bytes")[1]) == 432_243.2
    assert feed.total("rx_bytes") == 12_967_296
    assert feed.rates.events["wrapped"] == 1


def test_narrow_counter_that_fell_after_a_restart_is_no_wrap():
    """Case 81, t30 to t60: the device says that it restarted."""
    feed = Feed(1e9, tick=30)
    feed(0, {"rx_bytes": 8_000_000}, narrow=["rx_bytes"], mark=5)
    feed(30, {"rx_bytes": 300_000}, narrow=["rx_bytes"], mark=9)

    assert np.isnan(feed.rate("rx_bytes")[1])
    assert feed.rates.events["reset"] == 1


def test_narrow_counter_of_a_fast_port_says_nothing():
    """Case 81, Hu0/2: at 100 Gb/s 32 bits wrap every 0.34 s."""
    feed = Feed(100e9, tick=30)
    feed(0, {"rx_bytes": 1_000_000}, narrow=["rx_bytes"])
    feed(30, {"rx_bytes": 2_000_000}, narrow=["rx_bytes"])

    assert np.isnan(feed.rate("rx_bytes")[1])
    assert feed.rates.events["ambiguous"] == 1


def test_narrow_event_counter_still_works_on_a_fast_port():
    feed = Feed(400e9, tick=10)
    feed(0, {"out_of_sequence": 2**32 - 5}, narrow=["out_of_sequence"])
    feed(10, {"out_of_sequence": 15}, narrow=["out_of_sequence"])

    assert pytest.approx(feed.rate("out_of_sequence")[1]) == 2.0


def test_wide_counter_that_falls_was_reset():
    feed = Feed(10e9)
    feed(0, {"rx_bytes": 9_000_000_000})
    feed(1, {"rx_bytes": 1_000_000})
    feed(2, {"rx_bytes": 2_000_000})

    assert np.isnan(feed.rate("rx_bytes")[1])
    assert pytest.approx(feed.rate("rx_bytes")[2]) == 1_000_000
    assert feed.rates.events["reset"] == 1


def test_all_counters_falling_together_is_a_reset_even_if_narrow():
    feed = Feed(1e9)
    names = ["rx_bytes", "tx_bytes", "rx_packets"]
    feed(0, dict.fromkeys(names, 4_294_000_000), narrow=names)
    feed(1, dict.fromkeys(names, 100), narrow=names)

    assert np.isnan(feed.rate("rx_bytes")[1])
    assert feed.rates.events["reset"] == 3
    assert feed.rates.events["wrapped"] == 0


def test_underflow_is_dropped_and_the_fall_back_makes_no_spike(shared):
    """Case 85: unicast = all - multicast underflows to nearly 2**64."""
    case = shared / "cases/85-snmp-unicast-difference-underflow/samples.json"
    feed = Feed(10e9, tick=10)
    for sample in json.loads(case.read_text()):
        feed(sample["t"], {"rx_packets": int(sample["ifHCInUcastPkts"])})

    assert all(np.isnan(feed.rate("rx_packets")[:3]))
    assert pytest.approx(feed.rate("rx_packets")[3]) == 90
    assert feed.rates.events["impossible"] == 1


def test_a_new_level_is_accepted_once_it_goes_on_plausibly():
    feed = Feed(1e9)
    feed(0, {"rx_bytes": 1000})
    feed(1, {"rx_bytes": 10**15})
    feed(2, {"rx_bytes": 10**15 + 1_000_000})
    feed(3, {"rx_bytes": 10**15 + 2_000_000})

    assert all(np.isnan(feed.rate("rx_bytes")[:3]))
    assert pytest.approx(feed.rate("rx_bytes")[3]) == 1_000_000
    assert feed.rates.events["level_shift"] == 1


def test_an_impossible_value_leaves_the_base_alone():
    feed = Feed(1e9)
    feed(0, {"rx_bytes": 1000})
    feed(1, {"rx_bytes": 10**17})
    feed(2, {"rx_bytes": 2_001_000})

    assert pytest.approx(feed.rate("rx_bytes")[2]) == 1_000_000


def test_all_ones_is_no_value():
    feed = Feed(1e9)
    feed(0, {"rx_errors": 2**64 - 1})
    feed(1, {"rx_errors": 2**64 - 1})

    assert np.isnan(feed.rate("rx_errors")[1])


def test_wall_clock_jumps_do_not_reach_an_interval(shared):
    """Case 93: 12 h back, 12 h forward, 10 min forward, and two samples at one wall time."""
    case = shared / "cases/93-fault-wall-clock-jumps/samples.json"
    feed = Feed(10e9, tick=10)
    for sample in json.loads(case.read_text()):
        wall = sample["wall_s"] - EPOCH / NS
        feed(wall, {"rx_bytes": sample["rx_bytes"]}, received=sample["mono_s"])

    assert pytest.approx(feed.rate("rx_bytes")[1:], rel=1e-6) == [1_250_000.0] * 6


def test_out_of_order_and_duplicate_samples_change_nothing():
    """Case 45: t = 0, 20, 20 again, 10, 30 at 125 MB/s."""
    feed = Feed(10e9, tick=10)
    for time, value in ((0, 1000), (20, 3500), (20, 3500), (10, 2250), (30, 4750)):
        feed(time, {"rx_bytes": value * 1_000_000})

    rates = [rate for rate in feed.rate("rx_bytes") if not np.isnan(rate)]
    assert rates == pytest.approx([125e6] * len(rates))
    assert feed.total("rx_bytes") == 3_750_000_000
    assert dict(feed.rates.events) == {"duplicate": 1, "out_of_order": 1}


def test_late_sample_that_arrives_live_is_dropped():
    feed = Feed(10e9, tick=10)
    feed(0, {"rx_bytes": 1_000_000_000}, received=1000.0)
    feed(20, {"rx_bytes": 3_500_000_000}, received=1020.0)
    feed(10, {"rx_bytes": 2_250_000_000}, received=1020.1)
    feed(30, {"rx_bytes": 4_750_000_000}, received=1030.0)

    assert pytest.approx(feed.rate("rx_bytes")[3]) == 125e6
    assert feed.rates.events["out_of_order"] == 1


def test_time_of_last_change_repeats():
    """Case 37: the device stamps the last change; dt follows the time of arrival."""
    feed = Feed(10e9, tick=10)
    stamp = -2733.0
    for number in range(5):
        feed(stamp, {"rx_bytes": 88_172_341}, received=1000.0 + 10 * number)
    feed(40.5, {"rx_bytes": 88_172_341 + 2_500_000}, received=1049.98)

    assert feed.rate("rx_bytes")[1:5] == [0.0] * 4
    assert pytest.approx(feed.rate("rx_bytes")[5], rel=0.01) == 250_000


def test_device_reported_discontinuity_drops_the_interval_though_the_counter_rose():
    """Case 51: 1.9e9 B/s would pass a check against 40 Gb/s."""
    feed = Feed(40e9, tick=10)
    feed(0, {"rx_bytes": 10**9}, mark=7)
    feed(10, {"rx_bytes": 2 * 10**9}, mark=7)
    feed(20, {"rx_bytes": 21 * 10**9}, mark=8)
    feed(30, {"rx_bytes": 21 * 10**9 + 500_000_000}, mark=8)

    rates = feed.rate("rx_bytes")
    assert pytest.approx(rates[1]) == 1e8
    assert np.isnan(rates[2])
    assert pytest.approx(rates[3]) == 5e7


def test_somebody_else_clears_the_counters(shared):
    """Case 95: frequent falls are noticed, nothing negative or huge leaves, errors stay counted."""
    feed = Feed(200e9, tick=5)
    for number in range(12):
        feed(5 * number, {"tx_bytes": 25_000_000_000 + (600_000_000 if number % 2 else 0)})
    assert feed.rates.events["cleared_elsewhere"] > 0
    assert np.nanmin(feed.rate("tx_bytes")) >= 0
    assert np.isnan(feed.rate("tx_bytes")[-1])

    symbols = Feed(200e9, tick=5)
    case = shared / "cases/95-fault-another-tool-clears-counters/symbol.json"
    for sample in json.loads(case.read_text()):
        symbols(sample["t"], {"symbol_errors": sample["symbol_error"]})
    assert symbols.total("symbol_errors") == 3


def test_backlog_after_a_gap_counts_but_is_no_rate():
    feed = Feed(200e9)
    for number in range(10):
        feed(number, {"rx_bytes": number * 10**9})
    feed(260, {"rx_bytes": 260 * 10**9})
    feed(261, {"rx_bytes": 261 * 10**9})

    assert np.isnan(feed.rate("rx_bytes")[10])
    assert pytest.approx(feed.rate("rx_bytes")[11]) == 1e9
    assert feed.total("rx_bytes") == 261 * 10**9
    assert feed.rates.events["gap"] == 1


def test_backlog_behind_a_stale_row_is_no_spike():
    """The row after the gap may still show the old value; the backlog then comes 0.5 s later."""
    feed = Feed(200e9, tick=0.5)
    for number in range(20):
        feed(number / 2, {"rx_bytes": number * 5 * 10**8})
    feed(260, {"rx_bytes": 19 * 5 * 10**8})
    feed(260.5, {"rx_bytes": 12 * 10**9})

    assert np.isnan(feed.rate("rx_bytes")[21])
    assert feed.total("rx_bytes") == 12 * 10**9


def test_one_missed_scrape_is_an_average_not_a_gap():
    feed = Feed(200e9, tick=10)
    for number in (0, 1, 2, 3, 5):
        feed(10 * number, {"rx_bytes": number * 10**10})

    assert pytest.approx(feed.rate("rx_bytes")[4]) == 1e9


def test_slow_refresh_does_not_alternate():
    """A switch that refreshes every 1.06 s, polled every 0.5 s, at a steady 10 GB/s."""
    feed = Feed(200e9)
    for number in range(400):
        now = number / 2
        feed(now, {"rx_bytes": int(now / 1.06) * 10_600_000_000})

    tail = np.array(feed.rate("rx_bytes")[100:])
    assert pytest.approx(tail.mean(), rel=0.05) == 10e9
    assert tail.min() > 6e9
    assert tail.max() < 12.6e9


def test_true_silence_between_bursts_stays_silent():
    """On for 2 s, off for 3 s, read twice a second: the zeros are real."""
    feed = Feed(200e9)
    value = 0
    for number in range(400):
        value += 5 * 10**9 if (number // 2) % 5 < 2 else 0
        feed(number / 2, {"rx_bytes": value})

    rates = np.array(feed.rate("rx_bytes")[101:])
    assert set(np.round(rates / 1e9, 3)) == {0.0, 10.0}


def test_bytes_that_stand_still_while_packets_pass_are_withheld():
    feed = Feed(10e9)
    for number in range(8):
        feed(number, {"rx_bytes": 77, "rx_packets": 1000 * number})

    assert np.isnan(feed.rate("rx_bytes")[-1])
    assert feed.rates.events["frozen"] > 0


def test_zero_speed_is_unknown_speed():
    feed = Feed()
    feed(0, {"rx_bytes": 0}, gauges={"speed_bps": 0.0})
    feed(1, {"rx_bytes": 1_000_000}, gauges={"speed_bps": 0.0})

    assert pytest.approx(feed.rate("rx_bytes")[1]) == 1_000_000


def test_port_goes_stale_and_comes_back():
    feed = Feed(10e9)
    for number in range(5):
        feed(number, {"rx_bytes": number * 1000})
    silent = feed.rates.update([], EPOCH + 60 * NS, 1.0, feed.speed)
    back = feed(61, {"rx_bytes": 61_000})

    assert not silent.live[0]
    assert np.isnan(silent.rate("rx_bytes")[0])
    assert back.live[0]


def test_tick_without_a_sample_keeps_the_last_rate():
    """A source slower than the tick."""
    feed = Feed(10e9)
    for number in range(4):
        feed(10 * number, {"rx_bytes": number * 10_000})
    between = feed.rates.update([], EPOCH + 33 * NS, 1.0, feed.speed)

    assert not between.fresh[0]
    assert pytest.approx(between.rate("rx_bytes")[0]) == 1000


def rows(columns, port, time, **kwargs):
    return Batch(
        "test",
        np.asarray(time, np.int64),
        np.asarray(port, np.int32),
        {name: np.asarray(column, np.uint64) for name, column in columns.items()},
        **kwargs,
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(2, 12),
    st.randoms(use_true_random=False),
    st.floats(0, 0.2),
)
def test_folding_many_samples_equals_taking_them_one_by_one(ports, samples, random, odd):
    """The telescoped path and the row-by-row path agree, whatever happens to the counters."""
    table = PortTable()
    for number in range(ports):
        table.intern("host", f"p{number}")
    folded, single = Rates(), Rates()
    value = [[1000, 10] for _ in range(ports)]
    speed = np.full(ports, 1e9)
    time = EPOCH
    for tick in range(6):
        port, stamp, octets, packets = [], [], [], []
        for _ in range(samples):
            time += 10_000_000
            for number in range(ports):
                pair = value[number]
                if random.random() < odd:
                    pair[0] = random.choice([0, pair[0] // 2, pair[0]])
                pair[0] += random.randrange(0, 1_000_000)
                pair[1] += random.randrange(0, 700)
                port.append(number)
                stamp.append(time)
                octets.append(pair[0])
                packets.append(pair[1])
        whole = rows({"rx_bytes": octets, "rx_packets": packets}, port, stamp)
        parts = [whole.select(whole.time == moment) for moment in sorted(set(stamp))]
        a = folded.update([whole], time, samples * 0.01, speed)
        b = single.update(parts, time, samples * 0.01, speed)
        np.testing.assert_array_equal(a.totals, b.totals)
        if tick and not odd:
            np.testing.assert_allclose(a.rates, b.rates)
        assert not (a.rate("rx_bytes") < 0).any()


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=12), st.booleans(), st.booleans())
def test_no_sequence_of_values_gives_a_negative_or_impossible_rate(values, narrow, marked):
    feed = Feed(1e9)
    for number, value in enumerate(values):
        feed(
            number,
            {"rx_bytes": value, "tx_discards": value},
            narrow=["rx_bytes"] if narrow else [],
            mark=number // 3 if marked else None,
        )
    rates = np.array(feed.rate("rx_bytes"))
    known = rates[~np.isnan(rates)]

    assert (known >= 0).all()
    assert (known <= 1e9 / 8 * 3).all()
    totals = [int(measured.total("rx_bytes")[0]) for measured in feed.measured]
    assert totals == sorted(totals)


def test_growing_port_table_keeps_what_was_known():
    table = PortTable()
    table.intern("a", "1")
    rates = Rates()
    rates.update([batch(0, 0, {"rx_bytes": 0})], EPOCH, 1.0, np.array([1e9]))
    table.intern("b", "1")
    both = rows({"rx_bytes": [500, 7]}, [0, 1], [EPOCH + NS, EPOCH + NS])
    measured = rates.update([both], EPOCH + NS, 1.0, np.array([1e9]))

    assert pytest.approx(measured.rate("rx_bytes")[0]) == 500
    assert np.isnan(measured.rate("rx_bytes")[1])


def test_two_sources_know_different_counters_of_one_instant():
    rates = Rates()
    speed = np.array([1e9])
    for second in range(3):
        pair = [
            batch(0, second, {"rx_bytes": 1000 * second}),
            batch(0, second, {"rx_discards": 10 * second}),
        ]
        measured = rates.update(pair, EPOCH + second * NS, 1.0, speed)

    assert pytest.approx(measured.rate("rx_bytes")[0]) == 1000
    assert pytest.approx(measured.rate("rx_discards")[0]) == 10
    assert not rates.events


def test_a_source_that_lags_behind_another_is_late_for_none_of_its_own_counters():
    rates = Rates()
    speed = np.array([1e9])
    for second in range(1, 12):
        ahead = batch(0, second, {"rx_bytes": 1000 * second}, received=second)
        behind = batch(0, second - 0.1, {"rx_discards": 10 * second}, received=second + 0.05)
        measured = rates.update([ahead], EPOCH + second * NS, 1.0, speed)
        measured = rates.update([behind], EPOCH + second * NS, 1.0, speed)

    assert pytest.approx(measured.rate("rx_bytes")[0]) == 1000
    assert pytest.approx(measured.rate("rx_discards")[0]) == 10


def test_a_counter_in_every_tenth_row_is_judged_by_its_own_interval():
    feed = Feed(400e9)
    for number in range(41):
        sparse = {"tx_bytes": number * 40_000_000_000} if number % 10 == 0 else {}
        feed(number, {"rx_bytes": number * 1000} | sparse)

    assert pytest.approx(feed.rate("tx_bytes")[40]) == 40e9
    assert feed.rates.events["impossible"] == 0


def test_backlog_belongs_to_the_counter_that_moves_late():
    feed = Feed(200e9)
    for number in range(10):
        feed(number, {"rx_bytes": number * 2000, "rx_packets": number * 10})
    feed(260, {"rx_bytes": 18_000, "rx_packets": 2600})
    feed(261, {"rx_bytes": 522_000, "rx_packets": 2610})
    feed(262, {"rx_bytes": 524_000, "rx_packets": 2620})

    assert np.isnan(feed.rate("rx_bytes")[11])
    assert pytest.approx(feed.rate("rx_bytes")[12]) == 2000


def test_garbage_once_loses_no_bytes():
    feed = Feed(400e9, tick=10)
    for number, value in enumerate([0, 400, 10**9, 1200, 1600]):
        feed(10 * number, {"rx_bytes": value * 10**9})

    assert feed.total("rx_bytes") == 1600 * 10**9


def test_a_trifling_fall_is_no_restart():
    feed = Feed(1e9)
    for number, value in enumerate([100_000_000, 99_999_990, 100_001_000]):
        feed(number, {"rx_packets": value})

    assert feed.rates.events["reset"] == 0
    assert feed.rates.events["jitter"] == 1
    assert feed.total("rx_packets") == 1000


def test_first_mark_that_is_older_than_the_sample_before_breaks_nothing():
    feed = Feed(1e9)
    feed(0, {"rx_bytes": 0})
    feed(1, {"rx_bytes": 1000}, mark=EPOCH - 3600 * NS)

    assert pytest.approx(feed.rate("rx_bytes")[1]) == 1000


@pytest.mark.parametrize("chunk", [7, 24, 1000])
def test_result_does_not_depend_on_chunks(chunk):
    """Every array of every tick is the same, bit for bit."""
    random = np.random.default_rng(3)
    ports, moments = 6, 90
    time = np.repeat(EPOCH + np.arange(moments) * 10_000_000, ports)
    port = np.tile(np.arange(ports), moments)
    octets = random.integers(0, 200_000, (moments, ports)).cumsum(axis=0).ravel()
    queue = random.integers(0, 5000, moments * ports).astype(float)
    whole = rows({"rx_bytes": octets}, port, time, gauges={"queue_bytes": queue})

    def frames(size):
        cutter, rates, found = TickCutter(0.1), Rates(), []
        for start in range(0, len(whole), size):
            part = whole.select(slice(start, start + size))
            cutter.push(part)
            found += [
                rates.update(window.batches, window.end, 0.1, np.full(ports, 1e9))
                for window in cutter.advance(int(part.time[-1]) - 1)
            ]
        return found

    whole_frames, chunked = frames(len(whole)), frames(chunk)
    assert len(whole_frames) >= 8
    for one, other in zip(whole_frames, chunked, strict=True):
        for name in ("rates", "totals", "gauges", "interval", "age", "fresh"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


def test_a_speed_that_the_counters_keep_breaking_is_not_believed():
    """A shaper gives the speed of one direction; the other one is faster, and real."""
    feed = Feed(10e6)
    for number in range(12):
        feed(number, {"rx_bytes": number * 100_000_000, "tx_bytes": number * 1000})

    assert pytest.approx(feed.rate("rx_bytes")[-1]) == 1e8
    assert feed.rates.events["speed_doubted"] == 1


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.floats(0, 0.05))
def test_the_ordinary_path_equals_the_thorough_one(random, odd):
    """Where nothing is odd, verdicts are skipped; never judging must give what judging gives."""
    quick, thorough = Rates(), Rates()
    ports, value = 5, [0] * 5
    for second in range(1, 40):
        for port in range(ports):
            value[port] = 0 if random.random() < odd else value[port] + random.randrange(10**8)
        present = np.array([random.random() < 0.9 for _ in range(ports)])
        sample = rows(
            {"rx_bytes": value, "tx_discards": [number // 7 for number in value]},
            range(ports),
            [EPOCH + second * NS] * ports,
            valid={"tx_discards": present},
        )
        thorough._odd = True
        one, other = (
            rates.update([sample], EPOCH + second * NS, 1.0, np.full(ports, 1e9))
            for rates in (quick, thorough)
        )
        for name in ("rates", "totals", "present", "interval"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


@pytest.mark.parametrize(
    ("reading", "tick", "load"),
    [(0.1, 1.0, 0.8), (0.2, 0.2, 0.8), (0.05, 0.1, 0.3), (0.01, 0.1, 0.3), (0.5, 0.5, 0.8),
     (0.1, 0.1, 0.3), (0.05, 0.1, 0.05)],
)  # fmt: skip
def test_a_refresh_of_a_second_loses_nothing_however_fast_it_is_read(reading, tick, load):
    """100 Gb/s, refreshed once a second: no byte is lost, and no rate is beyond the line's."""
    rates, cutter = Rates(), TickCutter(tick)
    moments = np.arange(round(60 / reading))
    time = EPOCH + 7_000_000 + np.round(moments * reading * NS).astype(np.int64)
    true = np.floor(moments * reading + 1e-9) * load * 12.5e9
    cutter.push(rows({"rx_bytes": true.astype(np.uint64)}, np.zeros(len(time)), time))
    speed = np.array([100e9])
    found = [rates.update(window.batches, window.end, tick, speed) for window in cutter.flush()]
    seen = np.array([measured.rate("rx_bytes")[0] for measured in found])

    assert found[-1].total("rx_bytes")[0] == int(true[-1])
    assert np.nanmax(seen) <= 12.5e9 * 1.3
    settled = seen[len(seen) // 2 :]
    assert np.nanmean(settled) == pytest.approx(load * 12.5e9, rel=0.1)
    assert np.nanmax(settled) <= load * 12.5e9 * 1.3


def test_two_sources_that_interleave_do_not_borrow_each_others_time():
    """Bytes from one source at x.01, packets from another at x.09, and one of them missing once."""
    rates = Rates()
    worst = 0.0
    for tick in range(1, 80):
        start = EPOCH + (tick - 1) * NS // 10
        parts = [rows({"tx_bytes": [tick * 10**8]}, [0], [start + 10_000_000])]
        if tick != 42:
            parts.append(rows({"tx_packets": [tick * 10**5]}, [0], [start + 90_000_000]))
        measured = rates.update(parts, start + NS // 10, 0.1, np.array([400e9]))
        for name, true in (("tx_bytes", 1e9), ("tx_packets", 1e6)):
            rate = measured.rate(name)[0]
            worst = max(worst, 0.0 if np.isnan(rate) else abs(rate / true - 1))

    assert worst < 1e-6


def test_narrow_bytes_read_fast_wrap_many_times_in_a_tick():
    """Ten wraps a second are fine when each reading sees at most one."""
    feed_ports, cutter = Rates(), TickCutter(1.0)
    moments = np.arange(1000)
    total = moments * 37_500_000
    time = EPOCH + 5_000_000 + moments * 10_000_000
    wrapped = (total % 2**32).astype(np.uint64)
    narrow = frozenset({"rx_bytes"})
    cutter.push(rows({"rx_bytes": wrapped}, np.zeros(1000), time, narrow=narrow))
    for window in cutter.flush():
        measured = feed_ports.update(window.batches, window.end, 1.0, np.array([100e9]))

    assert measured.total("rx_bytes")[0] == int(total[-1])


def test_two_narrow_counters_that_wrap_together_while_others_rise():
    feed = Feed(100e9)
    names = ["rx_bytes", "tx_bytes"]
    near = 2**32 - 5_000_000
    feed(0, {"rx_bytes": near, "tx_bytes": near, "rx_packets": 10}, narrow=names)
    feed(0.1, {"rx_bytes": 5_000_000, "tx_bytes": 5_000_000, "rx_packets": 20}, narrow=names)

    assert feed.total("rx_bytes") == 10_000_000
    assert feed.rates.events["reset"] == 0


@pytest.mark.parametrize(
    "times",
    [
        [0, 0.1, *range(1, 20)],
        [*np.arange(0, 2, 0.1), *range(2, 25)],
        [0, 1, 2, *range(10, 400, 10)],
    ],
)
def test_a_source_that_slows_down_is_rated_again_soon(times):
    feed = Feed(10e9)
    for time in times:
        feed(time, {"rx_bytes": int(time * 1e6)})

    assert pytest.approx(feed.rate("rx_bytes")[-8:]) == [1e6] * 8


def test_two_sources_close_together_do_not_look_like_gaps():
    rates = Rates()
    speed = np.array([1e9])
    for second in range(1, 20):
        pair = [
            batch(0, second, {"rx_bytes": 1000 * second}),
            batch(0, second + 0.05, {"rx_discards": 10 * second}),
        ]
        measured = rates.update(pair, EPOCH + (second + 1) * NS, 1.0, speed)

    assert pytest.approx(measured.rate("rx_bytes")[0]) == 1000
    assert pytest.approx(measured.rate("rx_discards")[0]) == 10


def test_a_late_gauge_does_not_replace_a_newer_one():
    rates = Rates()
    pair = [
        batch(0, 2, {}, gauges={"oper_up": 0.0}),
        batch(0, 1, {}, gauges={"oper_up": 1.0}),
    ]
    measured = rates.update(pair, EPOCH + 2 * NS, 2.0, np.array([1e9]))

    assert measured.gauge("oper_up")[0] == 0


def test_bursts_behind_a_slow_refresh_keep_their_bytes_in_the_rates():
    """Five seconds on, five off, refreshed every second, read ten times a second."""
    rates, tick = Rates(), 0.1
    moments = np.arange(1200)
    seconds = np.floor(moments * tick + 1e-9)
    on = np.array([sum(1 for s in range(int(until)) if s % 10 < 5) for until in seconds])
    cutter = TickCutter(tick)
    time = EPOCH + 7_000_000 + moments * 100_000_000
    cutter.push(rows({"rx_bytes": (on * 6_000_000_000).astype(np.uint64)}, moments * 0, time))
    seen = [
        rates.update(window.batches, window.end, tick, np.array([100e9])).rate("rx_bytes")[0]
        for window in cutter.flush()
    ]
    settled = np.array(seen[len(seen) // 2 :])

    assert np.nanmax(settled) <= 6e9 * 1.1
    assert np.nansum(settled) * tick == pytest.approx(on[-1] * 6e9 / 2, rel=0.25)
