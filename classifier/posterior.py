"""The scheme of each port's job, averaged over time, and the byte shares that follow from it."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.record import Floats

SECONDS: Final = 30.0
"""Time constant, counted in seconds of activity of the port."""
FLOOR: Final = 0.01


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
        joint = joint.astype(np.float64)
        scheme = joint[:, :, 0] + joint[:, :, 1] + joint[:, :, 2] + joint[:, :, 3]
        step = -np.expm1(-seconds / SECONDS)
        total, weight = self._sum[port], self._weight[port]
        total += step[:, None] * (scheme - total)
        weight += step * (1.0 - weight)
        self._sum[port], self._weight[port] = total, weight
        # Long agreement weighs more than one window does: errors of windows that follow each
        # other are alike, so the plain product of their opinions would be far too sure. The powers
        # are 4 for the average and a half for the single window's own opinion.
        belief = np.square(np.square(total / np.maximum(weight, 1e-9)[:, None] + FLOOR))
        belief *= np.sqrt(scheme + 1e-4)
        belief /= belief.sum(axis=1, keepdims=True) * np.maximum(scheme, 1e-9)
        shares = (belief[:, :, None] * joint).sum(axis=1)
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
