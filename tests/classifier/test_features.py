"""Features mean the same at any tick length, link speed, chunking and number of ports."""

import numpy as np
import pytest
from traffic import START, play, tick

from classifier.features import Features
from classifier.names import NAMES
from classifier.period import CELLS, RESOLUTION, periods

SPEED = 100e9


def observe(seconds, *, until=41.0, speed=SPEED):
    features = Features()
    return play(
        lambda measured: features.update(measured, np.full(3, speed)),
        seconds=seconds,
        until=until,
        speed=speed,
    )


def test_one_name_per_column():
    assert observe(0.1, until=1.0).rows.shape == (3, len(NAMES))
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.5, 1.0])
def test_the_tick_length_does_not_matter(seconds):
    reference, other = observe(0.1), observe(seconds)
    np.testing.assert_allclose(other.period, reference.period, atol=0.02)
    np.testing.assert_allclose(other.history, reference.history, atol=1e-6)
    np.testing.assert_allclose(other.rows, reference.rows, rtol=0.18, atol=0.02)


def test_a_thousand_times_the_speed_gives_the_very_same_features():
    np.testing.assert_allclose(
        observe(0.1, speed=SPEED / 1000).rows, observe(0.1).rows, rtol=1e-5, atol=1e-6
    )


def test_the_period_is_found_in_seconds():
    np.testing.assert_allclose(observe(0.1).period, 5.0, rtol=0.01)


def test_swapping_directions_undoes_the_view_from_the_switch():
    host, switch = Features(), Features()
    for number in range(1, 100):
        end = number * 0.1
        a = host.update(tick(end, 0.1, [0.5, 0.1], [0.2, 0.3]), np.full(2, SPEED))
        b = switch.update(
            tick(end, 0.1, [0.2, 0.3], [0.5, 0.1]), np.full(2, SPEED), np.array([True, True])
        )
    np.testing.assert_array_equal(a.rows, b.rows)


def test_ports_that_come_later_do_not_disturb_those_that_were_there():
    alone, joined = Features(), Features()
    for number in range(1, 200):
        end = number * 0.1
        level = 0.5 * (number % 20 < 8)
        a = alone.update(tick(end, 0.1, [level], [level]), np.full(1, SPEED))
        size = 1 if number < 100 else 5
        levels = np.r_[level, np.zeros(size - 1)]
        b = joined.update(tick(end, 0.1, levels, levels), np.full(size, SPEED))
    np.testing.assert_allclose(a.rows[0], b.rows[0], atol=1e-6)
    assert b.rows.shape[0] == 5


def test_a_port_without_a_new_sample_does_not_move():
    features = Features()
    for number in range(1, 60):
        before = features.update(tick(number * 0.1, 0.1, [0.5], [0.5]), np.full(1, SPEED))
    rows = before.rows
    after = features.update(tick(6.0, 0.1, [0.5], [0.5], fresh=False), np.full(1, SPEED))
    own = [place for place, name in enumerate(NAMES) if "pool" not in name and "share" not in name]
    np.testing.assert_array_equal(rows[:, own], after.rows[:, own])
    np.testing.assert_array_equal(before.history, after.history)


def test_sparse_samples_count_for_their_whole_interval():
    """A port sampled once a second under 100 ms ticks looks like one under 1 s ticks."""
    sparse, coarse = Features(), Features()
    for second in range(1, 40):
        # As live, the first sample has no rate yet.
        level = np.nan if second == 1 else 0.6 * (second % 5 < 2)
        for part in range(1, 11):
            end = second - 1 + part / 10
            seen = sparse.update(
                tick(end, 0.1, [level], [level], fresh=part == 10, interval=1.0), np.full(1, SPEED)
            )
        wanted = coarse.update(tick(second, 1.0, [level], [level]), np.full(1, SPEED))
    own = [
        place
        for place, name in enumerate(NAMES)
        if not name.startswith(("pool", "share", "busiest"))
    ]
    np.testing.assert_allclose(seen.rows[:, own], wanted.rows[:, own], atol=0.05)


def test_nothing_is_known_of_a_port_without_data_or_speed():
    features = Features()
    seen = features.update(tick(0.1, 0.1, [np.nan, 0.5], [np.nan, 0.5]), np.array([SPEED, np.nan]))
    assert np.isnan(seen.busier).all()
    assert np.isfinite(seen.rows).all()
    assert (seen.history == 0).all()


def test_features_are_finite_on_noise():
    rng = np.random.default_rng(5)
    features = Features()
    for number in range(1, 300):
        out, inn = rng.choice([0.0, 0.3, 1.0], (2, 6)) * rng.random((2, 6))
        out[rng.random(6) < 0.1] = np.nan
        seen = features.update(
            tick(number * 0.1, 0.1, out, inn, fresh=rng.random(6) < 0.8), np.full(6, SPEED)
        )
        assert np.isfinite(seen.rows).all()
        assert np.abs(seen.rows).max() <= 100


def test_noise_has_no_period():
    rng = np.random.default_rng(1)
    period, strength = periods(rng.random((50, CELLS - 2)))
    assert np.isnan(period).mean() > 0.9
    assert (strength[np.isnan(period)] == 0).all()


@pytest.mark.parametrize("length", [0.8, 1.3, 3.7, 8.0])
def test_the_step_is_found_and_not_the_layers_in_it(length):
    time = np.arange(CELLS - 2) * RESOLUTION
    phase = time % length / length
    layers = np.where(phase < 0.5, 0.6 + 0.4 * (phase * 8 % 1 < 0.5), 0.0)
    rng = np.random.default_rng(2)
    period, strength = periods((layers + 0.05 * rng.random(len(time)))[None])
    assert abs(period[0] / length - 1) < 0.05
    assert strength[0] > 0.5


def test_the_start_of_the_made_up_traffic_is_on_the_grid():
    assert START % round(RESOLUTION * 1e9) == 0


def test_features_do_not_depend_on_the_ports_asked_for_beside_them():
    rng = np.random.default_rng(7)
    features, ports = Features(), 37
    for number in range(1, 120):
        out, inn = rng.choice([0.0, 0.3, 1.0], (2, ports)) * (np.arange(ports) % 5 > 0)
        seen = features.update(tick(number * 0.1, 0.1, out, inn), np.full(ports, SPEED))
    for size in (1, 2, 5, 36):
        parts = [np.arange(start, min(start + size, ports)) for start in range(0, ports, size)]
        together = np.concatenate([seen.rows_of(part) for part in parts])
        np.testing.assert_array_equal(together, seen.rows)
