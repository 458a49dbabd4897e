"""How fast a frame is baked, beside prometheus_client on the same series, in one run.

    python bench/bake.py [--series 1000000] [--oracle 1000000]

The oracle is `generate_latest` over a collector whose families and samples exist beforehand, so
that only its rendering is timed; ours is timed from the Frame, with selection, sums and casts.
"""

import argparse
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from exporters.bake import Baker, Form
from tests.exporters.frames import large_frame

PLAIN = Form(openmetrics=False, gzip=False)
SERIES_PER_PORT = Baker().bake(large_frame(1)).make(PLAIN).count(b"\nfabriclens_port_")


class Ready:
    """A collector that hands out families made beforehand."""

    def __init__(self, families):
        self.families = families

    def collect(self):
        return self.families


def families_of(text: bytes) -> list[Family]:
    """The same series as prometheus_client's own objects, by its own parser."""
    return list(text_string_to_metric_families(text.decode()))


def oracle(text: bytes) -> tuple[int, float]:
    registry = CollectorRegistry(auto_describe=False)
    families = families_of(text)
    registry.register(Ready(families))
    begin = time.perf_counter()
    generate_latest(registry)
    seconds = time.perf_counter() - begin
    return sum(len(family.samples) for family in families), seconds


def ours(series: int, rounds: int = 5) -> tuple[bytes, int, dict[str, float]]:
    frame = large_frame(round(series / SERIES_PER_PORT))
    begin = time.perf_counter()
    baker = Baker()
    baker.bake(frame)
    first = time.perf_counter() - begin
    timings = {"lines": [], "text": [], "gzip": [], "all": []}
    for number in range(rounds):
        begin = time.perf_counter()
        baked = baker.bake(replace(frame, number=number))
        lines = time.perf_counter()
        text = baked.make(PLAIN)
        joined = time.perf_counter()
        packed = baked.make(Form(openmetrics=False, gzip=True))
        end = time.perf_counter()
        for name, value in zip(
            timings, (lines - begin, joined - lines, end - joined, end - begin), strict=True
        ):
            timings[name].append(value)
    figures = {name: statistics.median(values) for name, values in timings.items()}
    figures |= {"first": first, "megabytes": len(text) / 1e6, "packed": len(packed) / 1e6}
    return text, baked.series, figures


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--series", type=int, default=1_000_000)
    options.add_argument("--oracle", type=int, default=200_000, help="series of the comparison")
    chosen = options.parse_args()
    _, series, seen = ours(chosen.series)
    print(
        f"ours: {series} series, {seen['megabytes']:.0f} MB, gzip {seen['packed']:.0f} MB: "
        f"lines {seen['lines']:.3f} s, text {seen['text']:.3f} s, gzip {seen['gzip']:.3f} s, "
        f"together {seen['all']:.3f} s; first time, labels rendered: {seen['first']:.3f} s"
    )
    text, same, seen = ours(chosen.oracle)
    count, seconds = oracle(text)
    if count != same:
        raise SystemExit(f"not the same series: {same} here, {count} there")
    mine = seen["lines"] + seen["text"]
    print(
        f"on the same {count} series: ours {mine / same * 1e9:.0f} ns a series, "
        f"generate_latest {seconds / count * 1e9:.0f} ns a series: {seconds / mine:.0f} times"
    )


if __name__ == "__main__":
    main()
