"""How congested every egress is, from its counters and those of its neighbours.

A full link is not a congested one: a well-scheduled collective runs every uplink at line rate and
nobody waits. So utilisation never raises the score. What does is the largest of these signals, each
a ramp from 0 (clear) to 1; a port counts as congested from 0.5:

stalled      The share of the time in use, and a little more, that the port was held: 0.05 to 0.35.
             A clean fabric at full load reads up to 0.16 in ticks as short as two pauses.
queue        Lossless: the egress has a large part of its device's longest wait while somebody who
             feeds the device is held by it (a root of back-pressure). Lossy: a queue that stands
             for two ticks, as a share of the largest one that this fabric has shown.
discards     lost / sent from 1e-5 to 1e-1, logarithmic: 0.5 at one in a thousand.
ecn          marked / sent from 1e-2 to 1, logarithmic: 0.5 at one in ten.
cnp          congestion notifications received / sent from 1e-4 to 1e-2, logarithmic.
retransmits  repeated / sent from 1e-3 to 1e-1, logarithmic: 0.5 at one in a hundred.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from analyzer.frame import Congestion
from collector.counters import CUMULATIVE_INDEX, GAUGE_INDEX
from collector.measured import Measured
from collector.record import Bools, Floats, Int32s
from collector.topology import HOST, Fabric, speed_in_force

HELD: Final = (0.05, 0.35)
HELD_PRIOR: Final = 0.25
"""Share of a tick added as if it had passed freely: a ratio of two tiny numbers says nothing."""
ROOT_QUEUE: Final = (0.3, 0.9)
STANDING_QUEUE: Final = (0.1, 0.6)
SMALLEST_SCALE: Final = 65536.0
SMALLEST_DRAIN_SECONDS: Final = 10e-6
"""A queue scale is never below 64 KiB or what the link drains in 10 us."""
SCALE_HALF_LIFE_SECONDS: Final = 6 * 3600.0
LOSS: Final = (1e-5, 1e-1)
MARKS: Final = (1e-2, 1.0)
NOTIFICATIONS: Final = (1e-4, 1e-2)
REPEATS: Final = (1e-3, 1e-1)
FEWEST_PACKETS: Final = 300.0
"""Packets in a tick below which a share of them is noise."""
TYPICAL_PACKET: Final = 4096.0
"""Bytes a packet where packets are not counted."""

_RATE = CUMULATIVE_INDEX
_GAUGE = GAUGE_INDEX


def ramp(value: Floats, low: float, high: float) -> Floats:
    """0 at `low` and below, 1 at `high` and above, straight between; NaN stays NaN."""
    risen: Floats = np.minimum(np.maximum((value - low) / (high - low), 0.0), 1.0)
    return risen


def log_ramp(share: Floats, low: float, high: float) -> Floats:
    """As `ramp` on the logarithm of the share, for signals whose decades matter."""
    return ramp(np.log10(np.maximum(share, low * 1e-3)), np.log10(low), np.log10(high))


@dataclass(frozen=True, slots=True)
class _Wiring:
    """A fabric cut or padded to the ports of one tick.

    device: (P,) dense index, ports of unknown devices each on their own. peer: (P,) port at the
    other end, itself where unknown; cabled: (P,) whether it is known. switch: (P,) not a host's.
    """

    fabric: Fabric
    device: Int32s
    devices: int
    peer: Int32s
    cabled: Bools
    switch: Bools
    nominal_bps: Floats

    @classmethod
    def of(cls, fabric: Fabric, ports: int) -> "_Wiring":
        known = min(len(fabric), ports)
        own = np.arange(ports, dtype=np.int32)
        device = own + np.int32(len(fabric.names))
        device[:known] = fabric.device[:known]
        peer = own.copy()
        given = fabric.peer[:known]
        cabled = np.zeros(ports, np.bool_)
        cabled[:known] = (given >= 0) & (given < ports)
        peer[:known] = np.where(cabled[:known], given, own[:known])
        nominal = np.full(ports, np.nan)
        nominal[:known] = fabric.nominal_bps[:known]
        switch = np.ones(ports, np.bool_)
        switch[:known] = fabric.port_role()[:known] != HOST
        return cls(fabric, device, len(fabric.names) + ports, peer, cabled, switch, nominal)

    def of_peer(self, column: Floats) -> Floats:
        """(P,) the column as seen at the other end of each cable, NaN where there is none."""
        return np.where(self.cabled, column[self.peer], np.nan)


class CongestionScorer:
    """Scores every port, tick by tick; a few column operations, no loop over ports.

    The score is that of the tick alone. What is remembered: the queues of the tick before, the
    largest queue that the fabric has shown, which is the scale for standing queues, and which
    ports have ever paused, because there a standing queue is judged by who waits behind it.
    """

    def __init__(self) -> None:
        self._wiring: _Wiring | None = None
        self._queue: Floats = np.empty(0)
        self._paused: Bools = np.empty(0, np.bool_)
        self._scale = SMALLEST_SCALE

    def update(self, measured: Measured, fabric: Fabric) -> Congestion:
        """One tick's congestion; no signal of a kind leaves it out, no signal at all is NaN."""
        wiring = self._wiring
        if wiring is None or wiring.fabric is not fabric or len(wiring.device) != len(measured):
            wiring = self._wiring = _Wiring.of(fabric, len(measured))
        with np.errstate(all="ignore"):
            return self._score(measured, wiring)

    def _score(self, measured: Measured, wiring: _Wiring) -> Congestion:
        speed = _speed(measured, wiring)
        tx = np.minimum(measured.rates[_RATE["tx_bytes"]] * 8 / speed, 1.0)
        rx = np.minimum(measured.rates[_RATE["rx_bytes"]] * 8 / speed, 1.0)
        held, ratio, stalled = _stalled(measured, wiring, tx, rx)
        signals = np.stack(
            (
                stalled,
                np.fmax(
                    _root_queue(measured, wiring, stalled, speed),
                    self._standing_queue(measured, wiring, held, speed),
                ),
                *_per_packet(measured, wiring),
            )
        )
        score = np.fmax.reduce(signals, axis=0)
        strongest = np.where(np.isnan(signals), -1.0, signals).argmax(axis=0) + 1
        return Congestion(
            speed_bps=speed,
            tx_utilization=tx,
            rx_utilization=rx,
            held=held,
            held_ratio=ratio,
            busy=np.minimum(tx + np.nan_to_num(held), 1.0),
            score=score,
            cause=np.zeros(len(measured), np.int8),
            evidence=np.where(score > 0, strongest, 0).astype(np.int8),
        )

    def _standing_queue(
        self, measured: Measured, wiring: _Wiring, held: Floats, speed: Floats
    ) -> Floats:
        """(P,) ramp of a switch's lossy queue that is there in two ticks running.

        A host's own queue is its sender waiting for itself. On a device that pauses or is paused,
        waiting shows as such, and a standing queue alone is a link well used.
        """
        queue = np.where(wiring.switch, measured.gauges[_GAUGE["queue_bytes"]], np.nan)
        ports = len(queue)
        before = _resized(self._queue, ports, np.nan)
        self._queue = queue
        self._scale *= 0.5 ** (measured.seconds / SCALE_HALF_LIFE_SECONDS)
        largest = np.fmax.reduce(queue, initial=SMALLEST_SCALE)
        self._scale = max(self._scale, float(largest))
        drained = np.fmax(speed / 8 * SMALLEST_DRAIN_SECONDS, self._scale)
        standing = ramp(np.minimum(queue, before) / drained, *STANDING_QUEUE)
        pausing = (held > 0) | (measured.rates[_RATE["rx_stalled_ns"]] > 0)
        self._paused = _resized(self._paused, ports, 0) | pausing
        lossless = np.zeros(wiring.devices, np.bool_)
        lossless[wiring.device[self._paused]] = True
        return np.where(lossless[wiring.device], np.nan, standing)


def _resized(column: NDArray[Any], ports: int, fill: float) -> NDArray[Any]:
    """The column with room for new ports; a shorter tick (an older port table) gets its part."""
    if len(column) >= ports:
        return column[:ports]
    return np.concatenate((column, np.full(ports - len(column), fill, column.dtype)))


def _speed(measured: Measured, wiring: _Wiring) -> Floats:
    """(P,) line rate in force: the port's word, else the topology's."""
    return speed_in_force(measured.gauges[_GAUGE["speed_bps"]], wiring.nominal_bps)


def _stalled(
    measured: Measured, wiring: _Wiring, tx: Floats, rx: Floats
) -> tuple[Floats, Floats, Floats]:
    """(P,) held, held_ratio and the signal made of them; either end of a cable will do."""
    own = measured.rates[_RATE["tx_stalled_ns"]] * 1e-9
    told = wiring.of_peer(measured.rates[_RATE["rx_stalled_ns"]]) * 1e-9
    held = np.minimum(np.where(np.isnan(own), told, own), 1.0)
    moved = np.fmax(tx, np.where(np.isnan(tx), wiring.of_peer(rx), tx))
    ratio = np.where(held > 0, held / (held + np.nan_to_num(moved)), held)
    careful = held / (held + np.nan_to_num(moved) + HELD_PRIOR)
    return held, ratio, ramp(careful, *HELD)


def _root_queue(measured: Measured, wiring: _Wiring, stalled: Floats, speed: Floats) -> Floats:
    """(P,) share of the device's longest wait, where another port's feeder is held."""
    peak = measured.gauges[_GAUGE["queue_peak_bytes"]]
    peak = np.where(np.isnan(peak), measured.gauges[_GAUGE["queue_bytes"]], peak)
    # Bytes over speed is the time to drain: the same bytes weigh more before a slow link.
    peak = peak / np.where(speed > 0, speed, np.fmax.reduce(speed, initial=1.0))
    largest = np.zeros(wiring.devices)
    np.maximum.at(largest, wiring.device, np.nan_to_num(peak))
    share = peak / largest[wiring.device]
    behind = _others(wiring, np.nan_to_num(wiring.of_peer(stalled)))
    known = wiring.of_peer(stalled)
    any_known = np.zeros(wiring.devices, np.bool_)
    any_known[wiring.device[~np.isnan(known)]] = True
    signal = np.minimum(ramp(share, *ROOT_QUEUE), behind)
    return np.where(any_known[wiring.device], signal, np.nan)


def _others(wiring: _Wiring, column: Floats) -> Floats:
    """(P,) the largest value among the other ports of the same device, 0 if none."""
    most = np.zeros(wiring.devices)
    np.maximum.at(most, wiring.device, column)
    top = column == most[wiring.device]
    shared = np.bincount(wiring.device, top, wiring.devices) > 1
    second = np.zeros(wiring.devices)
    np.maximum.at(second, wiring.device, np.where(top, 0.0, column))
    alone = top & ~shared[wiring.device]
    return np.where(alone, second[wiring.device], most[wiring.device])


def _per_packet(measured: Measured, wiring: _Wiring) -> tuple[Floats, Floats, Floats, Floats]:
    """(P,) the signals that are shares of the packets sent: discards, ecn, cnp, retransmits."""
    rates = measured.rates
    packets = rates[_RATE["tx_packets"]]
    sent = np.where(np.isnan(packets), rates[_RATE["tx_bytes"]] / TYPICAL_PACKET, packets)
    sent = np.maximum(sent, FEWEST_PACKETS / measured.seconds)
    # What arrives and finds no room was sent too fast by the other end.
    refused = rates[_RATE["rx_discards"]]
    refused = np.where(wiring.cabled, refused[wiring.peer], refused)
    lost = rates[_RATE["tx_discards"]]
    lost = np.where(np.isnan(lost), refused, lost + np.nan_to_num(refused))
    return (
        log_ramp(lost / (sent + lost), *LOSS),
        # Without a packet counter a share of marks would be a guess: acknowledgements count too.
        log_ramp(rates[_RATE["ecn_marked_packets"]] / np.where(packets >= 0, sent, np.nan), *MARKS),
        log_ramp(rates[_RATE["cnp_handled"]] / sent, *NOTIFICATIONS),
        log_ramp(rates[_RATE["retransmits"]] / sent, *REPEATS),
    )
