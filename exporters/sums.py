"""Running sums over the fabric, exact and monotone."""

import numpy as np

from analyzer.frame import Frame
from classifier.labels import LABELS, SHARES, UNKNOWN
from collector.record import Bools, Floats, Int32s, UInt64s


def bytes_by_label(frame: Frame) -> Floats:
    """(labels,) bytes that all ports sent in this tick, by class.

    A port with a label gives its bytes to the classes by its shares; those of a port labelled
    `unknown` stay unknown, whatever its shares guess.
    """
    labels = frame.labels
    sent = frame.measured.rate("tx_bytes") * frame.seconds
    counted = frame.measured.live & (sent > 0)
    known = counted & (labels.label != UNKNOWN) & ~np.isnan(labels.share[:, 0])
    result = np.zeros(len(LABELS))
    result[: len(SHARES)] = sent[known] @ labels.share[known].astype(np.float64)
    result[UNKNOWN] = sent[counted & ~known].sum()
    return result


class DeviceSums:
    """Per device sums of a counter over all its ports, in uint64.

    Silent ports keep their last total, so that a sum never falls when a port does.
    """

    def __init__(self) -> None:
        self._device: Int32s | None = None
        self._order = np.empty(0, dtype=np.intp)
        self._starts = np.empty(0, dtype=np.intp)
        self._owners = np.empty(0, dtype=np.int32)

    def of(self, device: Int32s, totals: UInt64s, present: Bools) -> tuple[Int32s, UInt64s]:
        """Devices that have the counter and their sums, from (P,) owner, total and presence."""
        if not len(device):
            return self._owners[:0], totals[:0]
        if self._device is None or not np.array_equal(device, self._device):
            self._device = device.copy()
            self._order = np.argsort(device, kind="stable")
            self._owners, self._starts = np.unique(device[self._order], return_index=True)
        counted = np.where(present, totals, np.uint64(0))[self._order]
        have = np.logical_or.reduceat(present[self._order], self._starts)
        return self._owners[have], np.add.reduceat(counted, self._starts)[have]
