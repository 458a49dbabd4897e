"""What one sweep of a local reader found, before its ports have numbers.

Sweeps run in a worker thread, and only the event loop may number ports; so it hands over names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.record import Batch, Bools, Floats, Int32s, Int64s, UInt64s


@dataclass(frozen=True, slots=True)
class Reading:
    """Columns over rows, as in `Batch`; `names` (rows,) are the ports of `device`.

    A reader hands out the very same tuple of names for as long as they do not change.
    """

    device: str
    names: tuple[str, ...]
    time: Int64s
    received: int
    counters: Mapping[str, UInt64s]
    gauges: Mapping[str, Floats]
    valid: Mapping[str, Bools] = field(default_factory=dict)
    narrow: frozenset[str] = frozenset()
    discontinuity: Int64s | None = None

    def batch(self, source: str, port: Int32s) -> Batch:
        """The same as a batch of `source`; port: (rows,) ids of the names."""
        return Batch(
            source=source,
            time=self.time,
            port=port,
            counters=self.counters,
            gauges=self.gauges,
            valid=self.valid,
            narrow=self.narrow,
            received=self.received,
            discontinuity=self.discontinuity,
        )
