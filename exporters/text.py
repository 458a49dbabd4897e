"""Exposition text from pre-rendered labels.

A line is `name{labels} value`. The labels of a port never change, so they are escaped once and kept
as an Arrow string column; a tick only casts its values and joins columns. Every line here *begins*
with a newline instead of ending with one, which saves a column per join: a document closes with
one final newline. A null value makes a null line, which takes no bytes at all, so that leaving a
series out costs nothing.

Formats: Prometheus text 0.0.4 and OpenMetrics 1.0. They differ in the header lines only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from collector.record import Bools
from exporters.catalogue import Metric

Value = int | float
_STRING = pa.string()
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Lines:
    """Rendered lines of one family, in as many pieces as it took, and their number."""

    pieces: tuple[Any, ...]
    series: int


def escape(value: str) -> str:
    """A label value as it stands between quotes; lone surrogates, which have no UTF-8, become ?."""
    if not value.isascii():
        value = value.encode("utf-8", "replace").decode()
    return value.translate(_ESCAPES)


def pairs(names: Iterable[str], values: Iterable[str]) -> str:
    """`name="value"` pairs, comma between, without braces."""
    return ",".join(f'{name}="{escape(value)}"' for name, value in zip(names, values, strict=True))


def number(value: Value) -> str:
    """One value; integers keep all their digits."""
    if isinstance(value, int | np.integer):
        return str(int(value))
    if value != value:  # noqa: PLR0124 - NaN is the one value unequal to itself
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0.0:
        return str(value)  # the sign of a negative zero survives only with its decimal point
    return repr(float(value)).removesuffix(".0")


class PortLabels:
    """The label pairs of every port, as one Arrow column that grows with the port table."""

    def __init__(self) -> None:
        self._devices: Sequence[str] = ()
        self._ports: Sequence[str] = ()
        self._column = pa.array([], _STRING)
        self.rendered = 0

    def of(self, devices: Sequence[str], ports: Sequence[str]) -> Any:
        """(P,) string column; only ports not seen before are rendered."""
        if devices is self._devices and ports is self._ports:
            return self._column
        known = len(self._devices)
        if devices[:known] != self._devices or ports[:known] != self._ports:
            known, self._column = 0, pa.array([], _STRING)
        if len(devices) > known:
            fresh = [
                f'device="{escape(device)}",port="{escape(port)}"'
                for device, port in zip(devices[known:], ports[known:], strict=True)
            ]
            self.rendered += len(fresh)
            self._column = pa.concat_arrays([self._column, pa.array(fresh, _STRING)])
        self._devices, self._ports = devices, ports
        return self._column


def numbers(values: NDArray[Any], present: Bools | None = None) -> Any:
    """Values as a string column, null where not present. Integers are exact, floats shortest."""
    column = pa.array(values, mask=None if present is None else ~present)
    text = pc.cast(column, _STRING)
    if values.dtype.kind != "f":
        return text
    specials = (~np.isfinite(values) | (np.signbit(values) & (values == 0.0))).nonzero()[0]
    if present is not None:
        specials = specials[present[specials]]
    if len(specials):
        spelt = pa.array([number(value) for value in values[specials].tolist()], _STRING)
        mask = np.zeros(len(values), dtype=np.bool_)
        mask[specials] = True
        text = pc.replace_with_mask(text, pa.array(mask), spelt)
    return text


def lines(
    name: str, labels: Any, values: NDArray[Any], present: Bools | None = None, more: str = ""
) -> Lines:
    """One line per row: (rows,) label column, (rows,) values; `more` is a further rendered pair."""
    head, middle = _scalar(f"\n{name}{{"), _scalar(f",{more}}} " if more else "} ")
    joined = pc.binary_join_element_wise(
        head, labels, middle, numbers(values, present), _scalar(""), null_handling="emit_null"
    )
    return Lines((_text_of(joined),), len(joined) - joined.null_count)


def choices(
    name: str,
    labels: Any,
    label: str,
    options: Sequence[str],
    codes: NDArray[Any],
    present: Bools | None = None,
) -> Lines:
    """One line of value 1 per row, its `label` being the option that the row's code names."""
    tails = pa.array([f",{pairs((label,), (option,))}}} 1" for option in options], _STRING)
    index = pa.array(codes, mask=None if present is None else ~present)
    joined = pc.binary_join_element_wise(
        _scalar(f"\n{name}{{"), labels, tails.take(index), _scalar(""), null_handling="emit_null"
    )
    return Lines((_text_of(joined),), len(joined) - joined.null_count)


def samples(metric: Metric, rows: Iterable[tuple[Mapping[str, str], Value]]) -> Lines:
    """The few lines of a family that is not per port; KeyError where a label is missing."""
    written: dict[str, str] = {}
    for given, value in rows:
        if len(given) != len(metric.labels):
            raise KeyError(f"{metric.name} has the labels {metric.labels}, not {tuple(given)}")
        body = pairs(metric.labels, [given[label] for label in metric.labels])
        # The last of equal label sets wins: a series twice in one exposition fails the scrape.
        written[f"{{{body}}}" if body else ""] = number(value)
    text = "".join(f"\n{metric.name}{labels} {value}" for labels, value in written.items())
    return Lines((text.encode(),), len(written))


def header(metric: Metric, *, openmetrics: bool) -> bytes:
    """The lines that open a family: `# HELP`, `# TYPE` and, in OpenMetrics, `# UNIT`."""
    text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
    if not openmetrics:
        return f"\n# HELP {metric.name} {text}\n# TYPE {metric.name} {metric.kind}".encode()
    family = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
    text = text.replace('"', r"\"")
    unit = f"\n# UNIT {family} {metric.unit}" if metric.unit else ""
    return f"\n# HELP {family} {text}\n# TYPE {family} {metric.kind}{unit}".encode()


def pieces(families: Sequence[tuple[Metric, Lines]], *, openmetrics: bool) -> list[Any]:
    """A whole exposition as buffers, in order; families without a series are left out."""
    parts: list[Any] = []
    for metric, body in families:
        if body.series:
            parts.append(header(metric, openmetrics=openmetrics))
            parts.extend(body.pieces)
    if openmetrics:
        parts.append(b"\n# EOF")
    if parts:
        parts[0] = bytes(parts[0]).removeprefix(b"\n")
        parts.append(b"\n")
    return parts


def document(families: Sequence[tuple[Metric, Lines]], *, openmetrics: bool) -> bytes:
    """A whole exposition."""
    return b"".join(pieces(families, openmetrics=openmetrics))


def merged(parts: Sequence[Lines]) -> Lines:
    """Several renderings of one family as one."""
    return Lines(
        tuple(piece for part in parts for piece in part.pieces), sum(part.series for part in parts)
    )


def _scalar(text: str) -> Any:
    """An Arrow string. With its type told, pyarrow does not look for pandas on every call."""
    return pa.scalar(text, _STRING)


def _text_of(column: Any) -> Any:
    """The bytes of all strings of a column, one after the other, without copying.

    A null slot is empty in the data that a join writes, so the buffer is the text.
    """
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return b""
    return data.slice(0, int(np.frombuffer(offsets, np.int32, len(column) + 1)[-1]))
