"""The metric catalogue: the one table behind text, documentation, dashboards, rules and tests.

`python -m exporters.catalogue` prints the page `docs/metrics.md`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge"]
Scope = Literal["port", "route", "fabric", "self"]

CONGESTED: Final = 0.5
"""A port with this congestion score or more is called congested wherever one word is needed."""

PREFIX: Final = "fabriclens_"
PORT: Final = ("device", "port")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family.

    name: in full, counters with `_total`. unit: base unit that the name carries, or empty.
    labels: names in order; port metrics start with `device, port`.
    signal: canonical counter or gauge that the metric passes on, empty where it is computed.
    """

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...]
    scope: Scope
    signal: str = ""


def _counters(*rows: tuple[str, str, str, str]) -> Iterator[Metric]:
    """Port counters from rows of canonical counter, name, unit, help."""
    for signal, name, unit, text in rows:
        yield Metric(f"{PREFIX}port_{name}_total", "counter", unit, text, PORT, "port", signal)


def _gauges(
    scope: Scope, prefix: str, *rows: tuple[str, str, tuple[str, ...], str]
) -> Iterator[Metric]:
    """Gauges from rows of name, unit, labels, help."""
    for name, unit, labels, text in rows:
        yield Metric(f"{prefix}{name}", "gauge", unit, text, labels, scope)


def _totals(
    scope: Scope, prefix: str, *rows: tuple[str, str, tuple[str, ...], str]
) -> Iterator[Metric]:
    """Counters from rows of name without `_total`, unit, labels, help."""
    for name, unit, labels, text in rows:
        yield Metric(f"{prefix}{name}_total", "counter", unit, text, labels, scope)


PORT_COUNTERS: Final = tuple(
    _counters(
        ("rx_bytes", "receive_bytes", "bytes", "Bytes received."),
        ("tx_bytes", "transmit_bytes", "bytes", "Bytes sent."),
        ("rx_packets", "receive_packets", "", "Packets received."),
        ("tx_packets", "transmit_packets", "", "Packets sent."),
        ("rx_discards", "receive_discards", "", "Received packets discarded."),
        ("tx_discards", "transmit_discards", "", "Packets discarded instead of sent."),
        ("rx_errors", "receive_errors", "", "Packets received in error."),
        ("tx_errors", "transmit_errors", "", "Packets that failed to be sent."),
        ("rx_pause_frames", "receive_pause_frames", "", "Pause frames received (PFC or global)."),
        ("tx_pause_frames", "transmit_pause_frames", "", "Pause frames sent (PFC or global)."),
        (
            "tx_stalled_ns",
            "transmit_stalled_seconds",
            "seconds",
            "Time in which the port had data and was not allowed to send.",
        ),
        (
            "rx_stalled_ns",
            "receive_stalled_seconds",
            "seconds",
            "Time in which the port kept its peer from sending.",
        ),
        ("ecn_marked_packets", "ecn_marked_packets", "", "Packets marked with ECN."),
        ("cnp_sent", "cnp_sent", "", "Congestion notification packets sent."),
        ("cnp_handled", "cnp_handled", "", "Congestion notification packets acted upon."),
        ("retransmits", "retransmits", "", "Packets or requests sent again."),
        ("out_of_sequence", "out_of_sequence", "", "Packets that arrived out of sequence."),
        ("rnr_naks", "rnr_naks", "", "Receiver-not-ready refusals."),
        ("timeouts", "timeouts", "", "Transport timeouts."),
        ("trimmed_packets", "trimmed_packets", "", "Packets trimmed to their header."),
        ("link_retries", "link_retries", "", "Link-level retries."),
        ("fec_corrected", "fec_corrected", "", "Code words corrected by FEC."),
        ("fec_uncorrected", "fec_uncorrected", "", "Code words that FEC could not correct."),
        ("symbol_errors", "symbol_errors", "", "Symbol errors."),
        ("link_downs", "link_downs", "", "Times the link went down."),
        ("rdma_writes", "rdma_writes", "", "RDMA write requests."),
        ("rdma_reads", "rdma_reads", "", "RDMA read requests."),
    )
)

PORT_GAUGES: Final = tuple(
    Metric(f"{PREFIX}port_{name}", "gauge", unit, text, PORT, "port", signal)
    for signal, name, unit, text in (
        ("oper_up", "up", "", "1 where the port is operationally up, else 0."),
        ("queue_bytes", "queue_bytes", "bytes", "Bytes waiting to be sent, mean of the tick."),
        ("queue_peak_bytes", "queue_peak_bytes", "bytes", "Largest queue of the tick."),
        ("credits_used_ratio", "credits_used_ratio", "ratio", "Share of link credits in use."),
        ("power_watts", "power_watts", "watts", "Power drawn by the port."),
        ("temperature_celsius", "temperature_celsius", "celsius", "Temperature of the port."),
    )
)

PORT_FINDINGS: Final = tuple(
    _gauges(
        "port",
        f"{PREFIX}port_",
        (
            "speed_bytes_per_second",
            "bytes_per_second",
            PORT,
            "Line rate in force (eight times this in bits).",
        ),
        (
            "utilization_ratio",
            "ratio",
            (*PORT, "direction"),
            "Share of the line rate in use, direction transmit or receive.",
        ),
        (
            "stalled_ratio",
            "ratio",
            PORT,
            "Share of time with data to send and no leave to send it.",
        ),
        ("busy_ratio", "ratio", PORT, "Transmit utilization plus stalled share, at most 1."),
        ("congestion_score", "", PORT, "0 (clear) to 1 (congested), for traffic leaving the port."),
        (
            "congestion_cause",
            "",
            (*PORT, "cause"),
            "1 for the cause in force; `none` where none is inferred.",
        ),
        (
            "traffic_probability",
            "",
            (*PORT, "label"),
            "Estimated share of the port's bytes per class of traffic.",
        ),
        ("traffic_label", "", (*PORT, "label"), "1 for the label in force."),
        (
            "traffic_unknown",
            "",
            (*PORT, "reason"),
            "1 where the label is unknown, with the reason.",
        ),
        (
            "sample_age_seconds",
            "seconds",
            PORT,
            "Time since the port's last sample; kept for an hour after a port falls silent.",
        ),
    )
)

ROUTES: Final = tuple(
    _gauges(
        "route",
        PREFIX,
        ("link_avoid", "", ("device", "port", "reason"), "1 for a link better avoided or drained."),
        (
            "route_suggested_weight",
            "",
            ("device", "destination", "via"),
            "Suggested weight of a next hop; 0 takes it out.",
        ),
        (
            "route_expected_gain_ratio",
            "ratio",
            ("device", "port", "destination", "kind"),
            "Largest bytes over capacity before a suggestion, divided by after.",
        ),
    )
)

FABRIC: Final = (
    *_gauges(
        "fabric",
        PREFIX,
        ("ports", "", ("state",), "Ports known, by state: live or silent."),
        ("congested_ports", "", (), f"Live ports with a congestion score of {CONGESTED} or more."),
        ("labelled_ports", "", ("label",), "Live ports per label in force."),
        ("device_ports", "", ("device",), "Live ports of a device."),
        ("device_congested_ports", "", ("device",), "Congested ports of a device."),
        ("device_congestion_score", "", ("device",), "Highest congestion score of a device."),
        (
            "signal_coverage_ratio",
            "ratio",
            ("signal",),
            "Share of live ports that deliver a counter or gauge.",
        ),
    ),
    *_totals(
        "fabric",
        PREFIX,
        (
            "traffic_bytes",
            "bytes",
            ("label",),
            "Bytes sent by all ports per class; counted once for each port they leave.",
        ),
        ("device_receive_bytes", "bytes", ("device",), "Bytes received by all ports of a device."),
        ("device_transmit_bytes", "bytes", ("device",), "Bytes sent by all ports of a device."),
    ),
)

SELF: Final = (
    *_gauges(
        "self",
        PREFIX,
        ("build_info", "", ("version", "python"), "1; the version that runs."),
        ("model_info", "", ("model", "version"), "1; the classifier model that is loaded."),
        ("frame_timestamp_seconds", "seconds", (), "End of the newest tick, since the epoch."),
        ("frame_age_seconds", "seconds", (), "Time from the end of the tick to its results."),
        ("tick_seconds", "seconds", (), "Length of a tick."),
        ("tick_duration_seconds", "seconds", (), "Time that the last tick took to work out."),
        ("tick_stage_duration_seconds", "seconds", ("stage",), "The same by stage."),
        (
            "clock_skew_seconds",
            "seconds",
            (),
            "How far the wall clock has stepped since the start.",
        ),
        ("bake_duration_seconds", "seconds", (), "Time that the last exposition took to render."),
        ("series", "", (), "Series in this exposition."),
        ("series_limit", "", (), "Largest number of series that the configuration allows."),
        ("series_dropped", "", (), "Series left out of this exposition because of the limit."),
        ("source_up", "", ("source",), "1 if the last read of the source worked."),
        ("source_read_duration_seconds", "seconds", ("source",), "Duration of the last read."),
        ("source_age_seconds", "seconds", ("source",), "Time since the last successful read."),
        ("source_clock_skew_seconds", "seconds", ("source",), "Source's clock minus ours."),
        ("source_breaker_open", "", ("source",), "1 while a failing source is only probed."),
        ("channel_depth", "", ("channel",), "Rows waiting in a channel."),
        ("channel_capacity", "", ("channel",), "Rows that a channel holds at most."),
        ("scrape_duration_seconds", "seconds", (), "Time that the last scrape took to answer."),
        ("scrape_size_bytes", "bytes", (), "Size of the last answer to a scrape."),
        ("scrapes_in_progress", "", (), "Scrapes being answered."),
    ),
    *_totals(
        "self",
        PREFIX,
        ("ticks", "", (), "Ticks worked out."),
        ("tick_overruns", "", (), "Ticks that took longer than a tick lasts."),
        ("events", "", ("reason",), "Counter values repaired or dropped, by reason."),
        ("source_missed_reads", "", ("source",), "Reads skipped because one took too long."),
        ("source_restarts", "", ("source",), "Streams opened again."),
        ("source_rows", "", ("source",), "Rows that a source delivered."),
        ("source_failures", "", ("source", "reason"), "Failed reads, by reason."),
        ("source_dropped_values", "", ("source", "reason"), "Values left out, by reason."),
        ("channel_dropped_rows", "", ("channel",), "Rows dropped by a full channel."),
        ("series_cap_hits", "", (), "Expositions that the limit on series cut short."),
        ("scrapes", "", (), "Scrapes answered."),
        ("scrapes_refused", "", (), "Scrapes refused because too many were in progress."),
        ("scrapes_cut", "", (), "Scrapes cut off because the client read too slowly."),
        ("http_requests", "", ("path", "code"), "Requests answered, by path and status."),
        ("recorder_rows", "", (), "Rows recorded."),
        ("recorder_files", "", (), "Files recorded and closed."),
        ("recorder_failures", "", (), "Files that could not be written."),
        ("recorder_lost_rows", "", (), "Rows that were in those files."),
    ),
    *_gauges(
        "self",
        "process_",
        ("resident_memory_bytes", "bytes", (), "Resident memory."),
        ("virtual_memory_bytes", "bytes", (), "Virtual memory."),
        ("open_fds", "", (), "Open file descriptors."),
        ("max_fds", "", (), "Largest number of open file descriptors."),
        ("threads", "", (), "Threads."),
        ("start_time_seconds", "seconds", (), "Start of the process, since the epoch."),
    ),
    *_totals(
        "self",
        "process_",
        ("cpu_seconds", "seconds", (), "CPU time spent, user and system."),
    ),
)

CATALOGUE: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (*PORT_COUNTERS, *PORT_GAUGES, *PORT_FINDINGS, *ROUTES, *FABRIC, *SELF)
}

SECTIONS: Final[tuple[tuple[Scope, str], ...]] = (
    ("port", "Per port"),
    ("route", "Suggested routes"),
    ("fabric", "Sums over the fabric"),
    ("self", "fabriclens itself"),
)


def markdown() -> str:
    """The page of all metrics, in Markdown."""
    lines = [
        "# Metrics",
        "",
        "Made from `exporters/catalogue.py` by `python -m exporters.catalogue > docs/metrics.md`.",
        "",
        "A series exists only where its signal does: an absent counter is absent, never 0.",
    ]
    for scope, title in SECTIONS:
        lines += [
            "",
            f"## {title}",
            "",
            "| metric | type | labels | meaning |",
            "|---|---|---|---|",
        ]
        for metric in CATALOGUE.values():
            if metric.scope == scope:
                labels = ", ".join(f"`{label}`" for label in metric.labels)
                text = metric.help + (f" From `{metric.signal}`." if metric.signal else "")
                lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")  # noqa: T201 - the page is this command's output
