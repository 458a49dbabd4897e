"""What a replay found, for people."""

from typing import Any

from rich.console import Console
from rich.table import Table


def print_summary(summary: dict[str, Any]) -> None:
    """Ports, ticks, speed, bytes by label, congested ports, suggestions."""
    console = Console()
    console.print(
        f"{summary['trace']}: {summary['rows']:,} rows in {summary['ticks']:,} ticks of "
        f"{summary['tick_seconds']:g} s, {summary['rows_per_second']:,} rows/s"
    )
    if summary["ignored_columns"]:
        console.print(f"columns not understood: {', '.join(summary['ignored_columns'])}")
    if summary["events"]:
        events = ", ".join(f"{count} {reason}" for reason, count in summary["events"].items())
        console.print(f"values dropped or repaired: {events}")
    if "bytes_by_label" in summary:
        _print_findings(console, summary)


def _print_findings(console: Console, summary: dict[str, Any]) -> None:
    total = sum(summary["bytes_by_label"].values()) or 1
    table = Table("label", "bytes", "share", title=f"{summary['ports']} ports")
    for label, octets in summary["bytes_by_label"].items():
        table.add_row(label, f"{octets:,.0f}", f"{octets / total:.1%}")
    console.print(table)
    congested = summary["congested_ports"]
    console.print(f"congested ports: {len(congested)}")
    for port in congested[:10]:
        console.print(
            f"  {port['device']} {port['port']}: at most {port['max_score']:.2f}, "
            f"{port['ticks_congested']} ticks"
        )
    console.print(f"suggestions in force at the end: {len(summary['suggestions'])}")
    for one in summary["suggestions"]:
        console.print(f"  {one['kind']} at {one['device']} {one['port']} {one['destination']}")
