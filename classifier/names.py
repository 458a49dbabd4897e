"""The names of the features, in the order of their columns (`classifier.features`)."""

from itertools import pairwise
from typing import Final

from classifier.averages import SECONDS

LOOK_AHEAD: Final = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75)
LOOK_BACK: Final = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75)
"""Parts of the step period before now, and after the same place one step ago."""
_TAU: Final = tuple(f"{seconds:g}s" for seconds in SECONDS)


def _names() -> list[str]:
    names = ["level", "lean", "peak"]
    for signal in ("level", "lean", "skew", "active", "spread"):
        names += [f"{signal}_{tau}" for tau in _TAU]
    names += [f"{signal}_{tau}" for signal in ("change", "starts") for tau in _TAU[2:]]
    names += [f"level_{fast}_over_{slow}" for fast, slow in pairwise(_TAU)]
    for level in ("burst", "block"):
        names += [
            f"{level}_{name}"
            for name in (
                "volume_over_last", "volume_over_mean", "last_over_mean", "volume_of_step",
                "last_of_step", "lean", "last_lean", "gap_over_last", "gap_over_mean",
                "gap_of_step", "length", "length_of_step", "length_over_last", "volume_spread",
                "gap_mean_of_step", "mean_of_step",
            )
        ]  # fmt: skip
    names += ["burst_number", "burst_number_over_last", "bursts_in_last_block"]
    names += ["step_period", "step_strength"]
    names += [f"step_back_{part:g}" for part in LOOK_BACK]
    names += [f"step_ahead_{part:g}" for part in LOOK_AHEAD]
    names += [f"step_shift_{part:g}" for part in LOOK_AHEAD]
    names.append("step_block")
    return names


_OWN: Final = tuple(_names())
_POOL_NAMES: Final = (
    "level", "level_0.25s", "level_1s", "level_10s", "active_10s", "spread_3s", "spread_10s",
    "skew_10s", "step_period", "step_strength", "step_back_0.2", "step_ahead_0.2", "step_ahead_0.5",
    "block_volume_of_step", "block_gap_of_step", "block_volume_over_last", "starts_10s",
)  # fmt: skip
POOLED: Final = tuple(_OWN.index(name) for name in _POOL_NAMES)
NAMES: Final[tuple[str, ...]] = (
    *_OWN,
    *(f"pool_{name}" for name in _POOL_NAMES),
    "share_1s", "share_3s", "share_10s", "share_of_busiest", "busiest_over_pool", "role_lean",
    "role_lean_1s",
)  # fmt: skip
