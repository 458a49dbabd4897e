"""Bursts: where a port's activity starts and stops, how much each burst carried, and the gaps."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.record import Bools, Floats

FIELDS: Final[tuple[str, ...]] = (
    "silence",  # seconds since the port was last active
    "length",  # seconds since the burst began
    "volume",  # line-rate seconds carried by the burst so far, mean of both directions
    "lean",  # the same, out minus in
    "gap",  # silence before the burst
    "last_length",
    "last_volume",
    "last_lean",
    "last_gap",
    "volume_mean",  # over past bursts
    "volume_square",
    "gap_mean",
    "count",  # bursts that began since the enclosing block began (finer level only)
    "last_count",
    "bursts",  # how many began at all
)
ROW: Final = {name: row for row, name in enumerate(FIELDS)}


def fields(*names: str) -> list[int]:
    """Rows of `Bursts.state` by name."""
    return [ROW[name] for name in names]


MEMORY: Final = 0.2
"""Weight of the newest burst in the means over past bursts."""


class Bursts:
    """Two levels of bursts for C columns: level 0 ends at any gap, level 1 (a block) at a long one.

    `state` is (fields, 2, C), rows in the order of FIELDS.
    """

    def __init__(self, columns: int) -> None:
        self.state = np.zeros((len(FIELDS), 2, columns))
        self.state[ROW["silence"]] = 1e3

    def grow(self, columns: int) -> None:
        """Make room for further columns; they start silent."""
        extra = columns - self.state.shape[2]
        self.state = np.pad(self.state, ((0, 0), (0, 0), (0, extra)))
        self.state[ROW["silence"], :, columns - extra :] = 1e3

    def update(
        self, active: Bools, volume: Floats, lean: Floats, elapsed: Floats, ends: Floats
    ) -> None:
        """Take in one tick.

        active: (C,). volume, lean: (C,) utilisation times seconds. elapsed: (C,) seconds, 0 where
        nothing new is known. ends: (2, C) silence in seconds that ends a burst of each level.
        """
        state = self.state
        known = elapsed > 0
        moving = active & known
        begins = moving & (state[ROW["silence"]] >= ends)
        if begins.any():
            self._begin(begins)
        state[ROW["length"]] += np.where(moving, elapsed + state[ROW["silence"]] * ~begins, 0.0)
        state[ROW["volume"]] += np.where(moving, volume, 0.0)
        state[ROW["lean"]] += np.where(moving, lean, 0.0)
        quiet = np.where(moving, 0.0, state[ROW["silence"]] + elapsed)
        state[ROW["silence"]] = np.minimum(quiet, 1e3)

    def _begin(self, begins: Bools) -> None:
        """Close the burst before and open a new one where `begins` (2, C) says so."""
        level, column = np.nonzero(begins)
        old = self.state[:, level, column]
        new = old.copy()
        for name in ("length", "volume", "lean", "gap"):
            new[ROW["last_" + name]] = old[ROW[name]]
        weight = np.where(old[ROW["bursts"]] < 2, 1.0, MEMORY)
        carried = old[ROW["volume"]]
        for name, value in (
            ("volume_mean", carried),
            ("volume_square", carried**2),
            ("gap_mean", old[ROW["silence"]]),
        ):
            new[ROW[name]] += weight * (value - new[ROW[name]])
        new[ROW["gap"]] = old[ROW["silence"]]
        new[[ROW["length"], ROW["volume"], ROW["lean"]]] = 0.0
        new[ROW["bursts"]] += 1
        new[ROW["count"]] += 1
        self.state[:, level, column] = new
        blocks = column[level == 1]
        counts = self.state[:, 0, blocks]
        counts[ROW["last_count"]] = counts[ROW["count"]] - begins[0, blocks]
        counts[ROW["count"]] = 1
        self.state[:, 0, blocks] = counts

    def field(self, name: str, level: int) -> NDArray[np.float64]:
        """(C,) one field of one level."""
        row: Floats = self.state[ROW[name], level]
        return row
