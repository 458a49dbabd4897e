"""The scheme of each port's job, averaged over time, and the byte shares that follow from it."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.record import Floats

SECONDS: Final = 30.0
"""Time constant, counted in seconds of activity of the port."""
POWER: Final = 4.0
FLOOR: Final = 0.01
WINDOW: Final = 0.5
"""Power of the single window's own opinion of the scheme, beside that of the average."""


class Posterior:
    """Keeps the (ports, schemes) average and reads the joint distribution in its light."""

    def __init__(self, schemes: int) -> None:
        self._sum = np.zeros((0, schemes))
        self._weight = np.zeros(0)

    def update(
        self, joint: NDArray[np.float32], port: NDArray[np.integer], seconds: Floats
    ) -> NDArray[np.float64]:
        """(rows, 4) byte shares of one tick's active windows.

        joint: (rows, schemes, 4). port: (rows,) ids, each at most once. seconds: (rows,) that each
        window stands for; 0 says nothing new.
        """
        self._grow(int(port.max(initial=-1)) + 1)
        scheme = joint.sum(axis=2, dtype=np.float64)
        step = -np.expm1(-seconds / SECONDS)
        self._sum[port] += step[:, None] * (scheme - self._sum[port])
        self._weight[port] += step * (1.0 - self._weight[port])
        weight = np.maximum(self._weight[port], 1e-9)[:, None]
        # Long agreement weighs more than one window does: errors of windows that follow each
        # other are alike, so the plain product of their opinions would be far too sure.
        belief = (self._sum[port] / weight + FLOOR) ** POWER
        belief *= (scheme + 1e-4) ** WINDOW
        belief /= belief.sum(axis=1, keepdims=True)
        given = joint / np.maximum(scheme, 1e-9)[:, :, None]
        shares = (belief[:, :, None] * given).sum(axis=1)
        result: Floats = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
        return result

    def scheme(self, port: NDArray[np.integer]) -> NDArray[np.float64]:
        """(rows, schemes) averaged distribution over schemes."""
        weight = np.maximum(self._weight[port], 1e-9)[:, None]
        result: Floats = self._sum[port] / weight
        return result

    def _grow(self, size: int) -> None:
        if size > len(self._weight):
            more = max(size, 2 * len(self._weight)) - len(self._weight)
            self._sum = np.pad(self._sum, ((0, more), (0, 0)))
            self._weight = np.pad(self._weight, (0, more))
