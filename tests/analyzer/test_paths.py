import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from analyzer.paths import MOST_ENTRIES, Tiers, gain, integer_weights, next_hops


def hops_of(net, tiers, capacity):
    return {net.fabric.names[hops.leaf]: hops for hops in next_hops(tiers, capacity)}


def row_of(net, tiers, name):
    return int(np.flatnonzero(tiers.port == net.find(name))[0])


def capacity_with(net, tiers, **changes):
    capacity = tiers.nominal_bps.copy()
    for name, value in changes.items():
        capacity[row_of(net, tiers, name.replace("__", ":").replace("_", "."))] = value
    return capacity


def test_tiers_hold_both_directions_of_leaf_spine_cables_only(site):
    net = site(leaves=3, spines=2, hosts=4)
    tiers = Tiers.of(net.fabric)
    assert len(tiers) == 12
    assert tiers.up.sum() == 6
    up = row_of(net, tiers, "leaf1:up0.0")
    assert net.fabric.names[tiers.leaf[up]] == "leaf1"
    assert net.fabric.names[tiers.spine[up]] == "spine0"
    assert tiers.peer[up] == net.find("spine0:down1.0")


def test_a_path_is_as_wide_as_its_narrower_half(site):
    net = site(leaves=3, spines=2)
    tiers = Tiers.of(net.fabric)
    capacity = capacity_with(net, tiers, spine0__down2_0=25e9, leaf0__up1_0=60e9)
    hops = hops_of(net, tiers, capacity)
    # Columns are the other leaves, in order.
    np.testing.assert_allclose(hops["leaf0"].capacity, [[100e9, 25e9], [60e9, 60e9]])
    np.testing.assert_allclose(hops["leaf1"].capacity, [[100e9, 25e9], [100e9, 100e9]])
    np.testing.assert_allclose(hops["leaf2"].capacity, 100e9)
    assert hops["leaf0"].limit[0, 1] == row_of(net, tiers, "spine0:down2.0")
    assert hops["leaf0"].limit[1, 0] == row_of(net, tiers, "leaf0:up1.0")


def test_parallel_cables_share_what_the_spine_can_pass_on(site):
    net = site(leaves=2, spines=1, cables=2)
    tiers = Tiers.of(net.fabric)
    capacity = capacity_with(
        net, tiers, spine0__down1_0=60e9, spine0__down1_1=30e9, leaf0__up0_1=50e9
    )
    hops = hops_of(net, tiers, capacity)["leaf0"]
    # 150 up, 90 down: 90 shared 100:50.
    np.testing.assert_allclose(hops.capacity[:, 0], [60e9, 30e9])
    assert (hops.limit[:, 0] == row_of(net, tiers, "spine0:down1.1")).all()


def test_a_spine_that_does_not_reach_the_leaf_is_no_next_hop(site):
    net = site(leaves=3, spines=2)
    tiers = Tiers.of(net.fabric)
    keep = ~np.isin(tiers.port, [net.find("spine1:down2.0"), net.find("leaf2:up1.0")])
    part = Tiers(*(getattr(tiers, name)[keep] for name in Tiers.__slots__))
    hops = hops_of(net, part, part.nominal_bps)
    np.testing.assert_allclose(hops["leaf0"].capacity, [[100e9, 100e9], [100e9, np.nan]])
    assert hops["leaf2"].capacity.shape == (1, 2)


def test_gain_by_hand():
    capacity = np.array([[25.0, 100.0, 0.0, 0.0], [100.0, 100.0, 100.0, 0.0]])
    found = gain(capacity, capacity)
    # Half of the bytes over 25 takes 2/100, all over 125 takes 0.8/100; a dead path loses half.
    np.testing.assert_allclose(found, [2.5, 1.0, 2.0, 1.0])
    thirds = gain(np.array([[50.0], [100.0], [np.nan]]), np.array([[1], [2], [0]]))
    assert thirds[0] == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("capacity", "weights"),
    [
        ([100, 100, 100, 100], [1, 1, 1, 1]),
        ([25, 100, 100, 100], [1, 4, 4, 4]),
        ([60, 300], [1, 5]),
        ([90, 300], [3, 10]),
        ([200, 100, 100], [2, 1, 1]),
        ([0, 100, 100], [0, 1, 1]),
        ([np.nan, 100, 50], [0, 2, 1]),
        ([0, 0], [0, 0]),
        ([1, 1000], [1, 64]),
    ],
)
def test_weights_by_hand(capacity, weights):
    found = integer_weights(np.array([capacity], float))[0]
    exact = np.array(weights) / max(sum(weights), 1)
    share = found / max(found.sum(), 1)
    np.testing.assert_allclose(share, exact, atol=0.02)
    assert ((found > 0) == (np.array(weights) > 0)).all()


CAPACITIES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 12)),
    elements=st.one_of(st.just(0.0), st.just(np.nan), st.floats(1e6, 1e12), st.just(1e11)),
)


@given(CAPACITIES)
def test_weights_keep_order_fit_the_table_and_leave_alternatives(capacity):
    weights = integer_weights(capacity)
    known = np.nan_to_num(capacity)
    live = (known > 0).sum(axis=1)
    assert (weights >= 0).all()
    assert (weights <= 64).all()
    assert (weights.sum(axis=1) <= MOST_ENTRIES).all()
    assert (weights[known == 0] == 0).all()
    assert ((weights > 0).sum(axis=1) >= np.minimum(live, 2)).all()
    for row, widths in zip(weights, known, strict=True):
        order = np.argsort(widths, kind="stable")
        assert (np.diff(row[order]) >= 0).all()
        for width in set(widths):
            assert len(set(row[widths == width])) == 1


@given(CAPACITIES, st.randoms(use_true_random=False))
def test_weights_do_not_depend_on_the_order_of_links(capacity, random):
    order = list(range(capacity.shape[1]))
    random.shuffle(order)
    np.testing.assert_array_equal(
        integer_weights(capacity)[:, order], integer_weights(capacity[:, order])
    )


@given(CAPACITIES)
def test_exact_weights_are_never_worse_than_equal_ones(capacity):
    found = gain(capacity.T, np.nan_to_num(capacity.T))
    assert np.isfinite(found).all()
    assert (found >= 1 - 1e-9).all()


@given(data=st.data())
def test_a_faster_link_never_narrows_a_path(site, data):
    net = site(leaves=3, spines=3)
    tiers = Tiers.of(net.fabric)
    size = len(tiers)
    widths = st.lists(st.floats(0, 1e11), min_size=size, max_size=size)
    capacity = np.array(data.draw(widths))
    faster = capacity.copy()
    faster[data.draw(st.integers(0, size - 1))] += data.draw(st.floats(0, 1e11))
    before, after = hops_of(net, tiers, capacity), hops_of(net, tiers, faster)
    for leaf, hops in before.items():
        assert (after[leaf].capacity >= hops.capacity * (1 - 1e-12)).all()
