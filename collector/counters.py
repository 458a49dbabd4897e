"""The canonical counters: every dialect of the field is translated into these names and units.

Directions are the port's own: tx leaves the port, rx enters it. Bytes and packets are plain
bytes and packets (never InfiniBand words), times are nanoseconds.
"""

from typing import Final

CUMULATIVE: Final[tuple[str, ...]] = (
    "rx_bytes",
    "tx_bytes",
    "rx_packets",
    "tx_packets",
    "rx_discards",
    "tx_discards",
    "rx_errors",
    "tx_errors",
    "rx_pause_frames",
    "tx_pause_frames",
    "tx_stalled_ns",
    "rx_stalled_ns",
    "ecn_marked_packets",
    "cnp_sent",
    "cnp_handled",
    "retransmits",
    "out_of_sequence",
    "rnr_naks",
    "timeouts",
    "trimmed_packets",
    "link_retries",
    "fec_corrected",
    "fec_uncorrected",
    "symbol_errors",
    "link_downs",
    "rdma_writes",
    "rdma_reads",
)
"""uint64, only ever growing except for wraps and resets."""

GAUGES: Final[tuple[str, ...]] = (
    "speed_bps",
    "oper_up",
    "queue_bytes",
    "queue_peak_bytes",
    "credits_used_ratio",
    "power_watts",
    "temperature_celsius",
)
"""float64 at the sample's time; `queue_peak_bytes` is the maximum since the sample before."""

CUMULATIVE_INDEX: Final[dict[str, int]] = {name: row for row, name in enumerate(CUMULATIVE)}
GAUGE_INDEX: Final[dict[str, int]] = {name: row for row, name in enumerate(GAUGES)}
CANONICAL: Final[frozenset[str]] = frozenset(CUMULATIVE) | frozenset(GAUGES)
