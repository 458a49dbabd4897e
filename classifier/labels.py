"""The taxonomy: what a port's bytes are for, and why a label may be withheld."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

LABELS: Final[tuple[str, ...]] = (
    "parameter_sync",
    "gradient_update",
    "all_to_all",
    "other",
    "idle",
    "unknown",
)
PARAMETER_SYNC, GRADIENT_UPDATE, ALL_TO_ALL, OTHER, IDLE, UNKNOWN = range(6)

SHARES: Final[tuple[str, ...]] = LABELS[:5]
"""The classes that byte shares are given for, in column order."""

REASONS: Final[tuple[str, ...]] = (
    "",
    "no_data",
    "speed_unknown",
    "too_little_history",
    "interval_outside_trained_band",
    "unlike_training",
    "too_close_to_call",
)
"""Why a label is `unknown`; the empty reason belongs to every other label."""

IDLE_UTILIZATION: Final = 0.01
"""A port whose busier direction is below this share of its line rate is idle."""


@dataclass(frozen=True, slots=True)
class Labels:
    """One tick's labels, columns over ports (P).

    label: (P,) index into LABELS. reason: (P,) index into REASONS.
    share: (P, 5) estimated share of the port's bytes per class of SHARES; rows sum to 1, NaN on
        ports that are not live. confidence: (P,) calibrated probability that the label holds.
    """

    label: NDArray[np.int8]
    reason: NDArray[np.int8]
    share: NDArray[np.float32]
    confidence: NDArray[np.float32]
