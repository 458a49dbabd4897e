"""The paths of a two-tier fabric: leaf, spine, leaf; and weights that follow their capacities."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.record import Bools, Floats, Int32s
from collector.topology import LEAF, SPINE, Fabric

Ints = NDArray[np.int64]

MOST_ENTRIES: Final = 64
"""Table entries that one next-hop group may take; a wide group may take four for each next hop."""
ENTRIES_PER_HOP: Final = 4
WEIGHT_ERROR: Final = 1.02
"""Integers are fine enough when no link is asked to carry over 2 % more than its share."""
_SPEEDS: Final = ("nominal_bps",)
MANY_CELLS: Final = 4_000
"""Above this many (row, next hop) cells only some scales are tried."""


@dataclass(frozen=True, slots=True)
class Tiers:
    """Every direction of every leaf-spine cable, as columns over egress ports (E).

    port, peer: (E,) port ids of the sending and the receiving end. leaf, spine: (E,) device
    indices into the fabric's names. up: (E,) the sender is the leaf. nominal_bps: (E,) design
    speed, NaN where unknown. Rows are ordered by port id.
    """

    port: Int32s
    peer: Int32s
    leaf: Int32s
    spine: Int32s
    up: Bools
    nominal_bps: Floats

    @classmethod
    def of(cls, fabric: Fabric) -> "Tiers":
        """The fabric's leaf-spine cables; none for a fabric of another shape."""
        role = fabric.port_role()
        peer_role = np.where(fabric.peer >= 0, role[fabric.peer], -1)
        up = (role == LEAF) & (peer_role == SPINE)
        down = (role == SPINE) & (peer_role == LEAF)
        port = np.flatnonzero(up | down).astype(np.int32)
        peer = fabric.peer[port]
        own, other = fabric.device[port], fabric.device[peer]
        return cls(
            port=port,
            peer=peer,
            leaf=np.where(up[port], own, other).astype(np.int32),
            spine=np.where(up[port], other, own).astype(np.int32),
            up=up[port],
            nominal_bps=fabric.nominal_bps[port],
        )

    def __len__(self) -> int:
        return len(self.port)

    @property
    def ends(self) -> int:
        """One more than the largest port id in use."""
        return int(max(self.port.max(initial=-1), self.peer.max(initial=-1))) + 1

    def same(self, other: "Tiers") -> bool:
        """Whether both describe the same cables between the same devices at the same speeds."""
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=name in _SPEEDS)
            for name in ("port", "peer", "leaf", "spine", "up", "nominal_bps")
        )


@dataclass(frozen=True, slots=True)
class NextHops:
    """How one leaf reaches all others.

    leaf: device index. rows: (H,) rows of `Tiers`, its uplinks in order. destinations: (B,) leaf
    device indices. capacity: (H, B) usable bit/s of the path through each uplink, 0 where it
    exists and is dead, NaN where it does not exist. limit: (H, B) row of `Tiers` that limits it.
    """

    leaf: int
    rows: Ints
    destinations: Ints
    capacity: Floats
    limit: Ints


def next_hops(tiers: Tiers, capacity_bps: Floats) -> Iterator[NextHops]:
    """The next hops of every leaf in turn, given the (E,) usable capacity of each egress.

    A path is as wide as its narrower half; parallel cables share a spine's downward capacity in
    proportion to their own.
    """
    leaves, leaf = np.unique(tiers.leaf, return_inverse=True)
    spines, spine = np.unique(tiers.spine, return_inverse=True)
    shape = (len(spines), len(leaves))
    down = ~tiers.up
    below = np.zeros(shape)
    np.add.at(below, (spine[down], leaf[down]), capacity_bps[down])
    cabled = np.zeros(shape, np.bool_)
    cabled[spine[down], leaf[down]] = True
    narrowest = np.zeros(shape, np.int64)
    order = np.flatnonzero(down)[np.argsort(-capacity_bps[down], kind="stable")]
    narrowest[spine[order], leaf[order]] = order
    rows_up = np.flatnonzero(tiers.up)
    rows_up = rows_up[np.argsort(leaf[rows_up], kind="stable")]
    bounds = np.searchsorted(leaf[rows_up], np.arange(len(leaves) + 1))
    for own in range(len(leaves)):
        rows = rows_up[bounds[own] : bounds[own + 1]]
        via = spine[rows]
        others = np.flatnonzero(cabled[via].any(axis=0) & (np.arange(len(leaves)) != own))
        above = np.bincount(via, capacity_bps[rows], len(spines))[via]
        share = np.divide(capacity_bps[rows], above, out=np.zeros(len(rows)), where=above > 0)
        beyond = below[np.ix_(via, others)]
        path = np.minimum(above[:, None], beyond) * share[:, None]
        limit = np.where(beyond < above[:, None], narrowest[np.ix_(via, others)], rows[:, None])
        yield NextHops(
            leaf=int(leaves[own]),
            rows=rows,
            destinations=leaves[others].astype(np.int64),
            capacity=np.where(cabled[np.ix_(via, others)], path, np.nan),
            limit=limit,
        )


def gain(capacity: Floats, weights: Floats | Ints) -> Floats:
    """(B,) largest bytes over capacity with equal weights, divided by that with `weights`.

    capacity: (H, B), NaN where there is no path. weights: (H, B). Demand from leaf to leaf is taken
    as evenly hashed. Bytes that equal weights send into a dead path do not arrive, so the figure
    for the live ones is multiplied by next hops / live next hops.
    """
    live = capacity > 0
    hops = np.sum(~np.isnan(capacity), axis=0)
    living = live.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        narrowest = np.min(np.where(live, capacity, np.inf), axis=0, initial=np.inf)
        share = weights / weights.sum(axis=0)
        after = np.max(np.where(live, share / capacity, 0.0), axis=0, initial=0.0)
        found = (1 / living / narrowest / after) * (hops / living)
    ok: Floats = np.where((living > 0) & (after > 0), found, 1.0)
    return ok


def integer_weights(capacity: Floats) -> Ints:
    """(B, H) small integers in proportion to the (B, H) capacities; 0 or NaN gets 0.

    Each row is scaled by the smallest number that keeps every link within `WEIGHT_ERROR` of its
    share and the sum within the table, else by the one with the least error. A link's weight
    depends on its own capacity and the largest alone: equal links stay equal, whatever their order.
    """
    wide = np.nan_to_num(capacity)
    rows, back = np.unique(wide, axis=0, return_inverse=True)
    most = np.max(rows, axis=1, keepdims=True, initial=0.0)
    relative = np.divide(rows, most, out=np.zeros_like(rows), where=most > 0)
    table = max(MOST_ENTRIES, ENTRIES_PER_HOP * rows.shape[1])
    best = np.where(relative > 0, 1, 0).astype(np.int64)
    least = _overload(best, relative)
    open_rows = np.flatnonzero(least > WEIGHT_ERROR)
    for scale in _scales(open_rows.size * rows.shape[1]):
        if not open_rows.size:
            break
        wanted = relative[open_rows]
        weights = np.rint(wanted * scale).astype(np.int64)
        # Rounding a live link to nothing may not cost the group its last alternative.
        few = (weights > 0).sum(axis=1, keepdims=True) < 2
        weights = np.where(few & (wanted > 0), np.maximum(weights, 1), weights)
        error = _overload(weights, wanted)
        better = (error < least[open_rows] - 1e-9) & (weights.sum(axis=1) <= table)
        best[open_rows[better]] = weights[better]
        least[open_rows[better]] = error[better]
        open_rows = open_rows[least[open_rows] > WEIGHT_ERROR]
    return best[back.reshape(-1)]


def _scales(cells: int) -> range | tuple[int, ...]:
    return range(2, MOST_ENTRIES + 1) if cells < MANY_CELLS else (2, 3, 4, 5, 6, 8, 10, 16, 32, 64)


def _overload(weights: Ints, relative: Floats) -> Floats:
    """(rows,) the largest ratio of a link's share of the bytes to its share of the capacity."""
    share = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    fair = relative / np.maximum(relative.sum(axis=1, keepdims=True), 1e-300)
    ratio = np.divide(share, fair, out=np.zeros_like(share), where=fair > 0)
    largest: Floats = ratio.max(axis=1, initial=0.0)
    return largest
