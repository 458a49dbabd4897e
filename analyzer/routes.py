"""Suggested routes of level L1: from counters and topology alone, no traffic matrix.

For every leaf and every destination leaf the uplinks get weights in proportion to the usable
capacity of the path through them, `min(capacity(leaf, spine), capacity(spine, destination))`. So a
slow cable from spine to leaf lowers that spine at all other leaves, for that destination only.
Nothing is suggested where equal weights are as good, and nothing for a fabric of another shape.
"""

from collections.abc import Iterable
from itertools import compress
from typing import Final

import numpy as np

from analyzer.capacity import ASYMMETRIC, REASONS, Capacities
from analyzer.frame import Congestion, Suggestion
from analyzer.paths import Ints, NextHops, Tiers, gain, integer_weights, next_hops
from collector.measured import Measured
from collector.ports import PortTable
from collector.topology import Fabric

ACT_GAIN: Final = 1.10
KEEP_GAIN: Final = 1.03
"""Suggest when the predicted gain reaches the first, withdraw when it falls below the second."""
AVOID_BELOW: Final = 0.5
"""An egress with at most this share of its design speed is worth naming on its own."""
FEWEST_HOPS: Final = 2
"""Next hops that must stay in use; avoiding a link is not suggested if it leaves fewer."""
MOST_SUGGESTIONS: Final = 4096
"""The best are kept; how many were left out is counted in `Router.left_out`."""


class Router:
    """Keeps the suggestions in force; they are worked out anew only when a capacity changes.

    recomputed, left_out: how often the routes were worked out, and how many suggestions the last
    time had to leave out.
    """

    def __init__(self) -> None:
        self._fabric: Fabric | None = None
        self._capacities: Capacities | None = None
        self._stale = True
        self._current: tuple[Suggestion, ...] = ()
        self.recomputed = 0
        self.left_out = 0

    def update(
        self, measured: Measured, congestion: Congestion, fabric: Fabric, ports: PortTable
    ) -> tuple[Suggestion, ...]:
        """The suggestions in force after this tick; the same tuple as long as nothing changes."""
        capacities = self._capacities
        if capacities is None or fabric is not self._fabric:
            capacities = self._bind(fabric, capacities)
        # A fabric may name ports that this tick, begun before, does not know yet.
        if len(capacities.tiers) and capacities.tiers.ends <= len(measured):
            changed = capacities.update(measured, congestion, fabric)
            if changed or self._stale:
                self._current = self._work_out(capacities, measured.time, fabric, ports)
                self._stale = False
        return self._current

    def _bind(self, fabric: Fabric, before: Capacities | None) -> Capacities:
        """Take a new fabric; what was learned is kept where only other ports were added."""
        self._fabric = fabric
        tiers = Tiers.of(fabric)
        if before is not None and tiers.same(before.tiers):
            return before
        self._stale = True
        self._current = ()
        self._capacities = Capacities(tiers)
        return self._capacities

    def _work_out(
        self, capacities: Capacities, time: int, fabric: Fabric, ports: PortTable
    ) -> tuple[Suggestion, ...]:
        """All suggestions for the settled capacities."""
        self.recomputed += 1
        draft = _Draft(capacities, fabric, ports, self._current, time)
        found: list[Suggestion] = []
        for hops in next_hops(capacities.tiers, capacities.settled):
            found.extend(draft.weights(hops))
        found.extend(draft.avoided())
        found.sort(key=lambda suggestion: (-suggestion.expected_gain, suggestion.id))
        self.left_out = max(len(found) - MOST_SUGGESTIONS, 0)
        return tuple(sorted(found[:MOST_SUGGESTIONS], key=lambda suggestion: suggestion.id))


class _Draft:
    """Writes one set of suggestions; those that were in force already keep their `since`."""

    def __init__(
        self,
        capacities: Capacities,
        fabric: Fabric,
        ports: PortTable,
        current: Iterable[Suggestion],
        time: int,
    ) -> None:
        self._tiers = capacities.tiers
        self._capacities = capacities
        self._fabric = fabric
        self._ports = ports
        self._before = {suggestion.id: suggestion for suggestion in current}
        self._time = time

    def weights(self, hops: NextHops) -> list[Suggestion]:
        """One suggestion for each destination for which equal weights fall short."""
        possible = gain(hops.capacity, np.nan_to_num(hops.capacity))
        dead = (hops.capacity == 0).any(axis=0) & (hops.capacity > 0).any(axis=0)
        columns = np.flatnonzero((possible >= KEEP_GAIN) | dead)
        if not columns.size:
            return []
        capacity = hops.capacity[:, columns]
        weights = integer_weights(capacity.T).T
        reached = gain(capacity, weights)
        narrowest = np.nanargmin(capacity, axis=0)
        ratio = np.nanmin(capacity, axis=0) / np.nanmax(capacity, axis=0)
        limit = hops.limit[narrowest, columns]
        device = self._fabric.names[hops.leaf]
        names = [self._ports.ports[port] for port in self._tiers.port[hops.rows]]
        exists = ~np.isnan(capacity)
        found: list[Suggestion] = []
        for column, destination in enumerate(hops.destinations[columns].tolist()):
            leaf = self._fabric.names[destination]
            name = f"set_weights:{device}:{leaf}"
            needed = KEEP_GAIN if name in self._before else ACT_GAIN
            # A dead next hop loses bytes; one of many is worth naming however small its share.
            if reached[column] < needed and not dead[columns[column]]:
                continue
            pairs = zip(names, weights[:, column].tolist(), strict=True)
            found.append(
                self._suggestion(
                    id=name,
                    kind="set_weights",
                    device=device,
                    destination=leaf,
                    weights=tuple(compress(pairs, exists[:, column])),
                    reason=self._reason(int(limit[column])),
                    evidence=(
                        ("path_capacity_ratio", float(ratio[column]), 1.0),
                        ("expected_gain_ratio", float(reached[column]), needed),
                    ),
                    expected_gain=float(reached[column]),
                )
            )
        return found

    def avoided(self) -> list[Suggestion]:
        """Links to drain (dead) or to avoid (at most half of their design speed)."""
        ratio = self._capacities.settled / self._capacities.nominal
        found: list[Suggestion] = []
        for row in np.flatnonzero(ratio <= AVOID_BELOW).tolist():
            group = self._group(row)
            usable = self._capacities.settled[group]
            left = np.where(group == row, 0.0, usable)
            if ratio[row] > 0 and np.count_nonzero(left) < FEWEST_HOPS:
                continue
            if not left.any() and self._reason(int(row)) != "down":
                continue  # a bad path is better than none
            reached = float(gain(usable[:, None], left[:, None])[0]) if left.any() else 1.0
            if ratio[row] > 0 and reached < KEEP_GAIN:
                continue
            kind = "avoid_link" if ratio[row] > 0 else "drain_link"
            port = int(self._tiers.port[row])
            device, name = self._ports.devices[port], self._ports.ports[port]
            found.append(
                self._suggestion(
                    id=f"{kind}:{device}:{name}",
                    kind=kind,
                    device=device,
                    port=name,
                    reason=self._reason(int(row)),
                    evidence=(("usable_capacity_ratio", float(ratio[row]), AVOID_BELOW),),
                    expected_gain=reached,
                )
            )
        return found

    def _group(self, row: int) -> Ints:
        """Rows that could carry the same bytes: all ways up from the leaf, or down to it."""
        tiers = self._tiers
        group: Ints = np.flatnonzero((tiers.leaf == tiers.leaf[row]) & (tiers.up == tiers.up[row]))
        return group

    def _reason(self, row: int) -> str:
        """Why the narrowest link is narrow; by design, if nothing is wrong with it."""
        return REASONS[int(self._capacities.reason[row]) or ASYMMETRIC]

    def _suggestion(
        self,
        *,
        id: str,  # noqa: A002 - the field's name
        kind: str,
        device: str,
        reason: str,
        evidence: tuple[tuple[str, float, float], ...],
        expected_gain: float,
        port: str = "",
        destination: str = "",
        weights: tuple[tuple[str, int], ...] = (),
    ) -> Suggestion:
        before = self._before.get(id)
        return Suggestion(
            id=id,
            kind=kind,
            device=device,
            port=port,
            destination=destination,
            weights=weights,
            reason=reason,
            evidence=evidence,
            expected_gain=expected_gain,
            since=self._time if before is None else before.since,
        )
