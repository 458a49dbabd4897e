"""What a replay found, for people."""

from typing import Any

from rich.console import Console
from rich.table import Table

_MOST = 10


def print_summary(summary: dict[str, Any]) -> None:
    """Ports, ticks, speed, bytes by label, congested ports, suggestions."""
    console = Console(soft_wrap=True)
    console.print(
        f"{summary['trace']}: {summary['rows']:,} rows in {summary['ticks']:,} ticks of "
        f"{summary['tick_seconds']:g} s, {summary['rows_per_second']:,} rows/s"
    )
    if summary["links"] and summary["links_seen"] < summary["links"]:
        console.print(
            f"only {summary['links_seen']} of the topology's {summary['links']} links have "
            "counters; do the names of devices and ports agree?"
        )
    if summary["ignored_columns"]:
        console.print(f"columns not understood: {', '.join(summary['ignored_columns'])}")
    if summary["events"]:
        events = ", ".join(f"{count} {reason}" for reason, count in summary["events"].items())
        console.print(f"values dropped or repaired: {events}")
    _print_findings(console, summary)


def _print_findings(console: Console, summary: dict[str, Any]) -> None:
    total = sum(summary["bytes_by_label"].values()) or 1
    table = Table("label", "bytes", "share", title=f"{summary['ports']} ports")
    for label, octets in summary["bytes_by_label"].items():
        table.add_row(label, f"{octets:,.0f}", f"{octets / total:.1%}")
    console.print(table)
    congested = summary["congested_ports"]
    console.print(f"congested ports: {len(congested)}")
    for port in congested[:_MOST]:
        console.print(
            f"  {port['device']} {port['port']}: at most {port['max_score']:.2f}, "
            f"{port['ticks_congested']} ticks"
        )
    if len(congested) > _MOST:
        console.print(f"  and {len(congested) - _MOST} more")
    console.print(f"suggestions in force at the end: {len(summary['suggestions'])}")
    for one in summary["suggestions"][:_MOST]:
        weights = ", ".join(f"{port}={weight}" for port, weight in one["weights"].items())
        place = f"{one['device']} {one['port']}".strip()
        towards = f" towards {one['destination']}: {weights}" if one["destination"] else ""
        console.print(f"  {one['kind']} at {place}{towards}")
    if len(summary["suggestions"]) > _MOST:
        console.print(f"  and {len(summary['suggestions']) - _MOST} more; see routes")
