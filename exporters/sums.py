"""Running sums over the fabric, exact and monotone."""

import numpy as np

from analyzer.frame import Frame
from classifier.labels import LABELS, SHARES, UNKNOWN
from collector.record import Bools, Floats, Int32s, UInt64s


class LabelBytes:
    """(labels,) bytes that all ports sent so far, by class, in `sums`.

    Bytes are increases of the ports' totals, so they add up whatever the sampling interval and the
    tick are; in the first frame, before there is an increase, they are the rate's. A port with a
    label gives its bytes to the classes by its shares; those of a port labelled `unknown` stay
    unknown, whatever its shares guess.
    """

    def __init__(self) -> None:
        self.sums: Floats = np.zeros(len(LABELS))
        self._before: UInt64s | None = None

    def add(self, frame: Frame) -> None:
        """Take in one tick."""
        labels, sent = frame.labels, self._sent(frame)
        counted = sent > 0
        known = counted & (labels.label != UNKNOWN) & ~np.isnan(labels.share[:, 0])
        self.sums[: len(SHARES)] += sent[known] @ labels.share[known].astype(np.float64)
        self.sums[UNKNOWN] += sent[counted & ~known].sum()

    def _sent(self, frame: Frame) -> Floats:
        totals, before = frame.measured.total("tx_bytes"), self._before
        self._before = totals.copy()
        if before is None:
            sent: Floats = frame.measured.rate("tx_bytes") * frame.seconds
            return np.where(frame.measured.live & (sent > 0), sent, 0.0)
        known = np.zeros_like(totals)
        known[: len(before)] = before
        return np.where(totals > known, totals - known, 0).astype(np.float64)


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
