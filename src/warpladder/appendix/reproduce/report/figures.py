"""Figures of a reproduced report as text, in the units of their columns."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..results import UNITS, Column, Value


def shown(value: float | None, unit: str) -> str:
    """Figure in base units as text in the unit of its column, without the unit; empty for None."""
    if value is None:
        return ""
    scaled = value / UNITS[unit]
    if unit == "%":
        return f"{scaled:z.2f}"
    if scaled and abs(scaled) < 0.001:
        return f"{scaled:.2g}"
    if float(scaled).is_integer() and abs(scaled) < 1e15:
        return f"{scaled:,.0f}"
    if abs(scaled) >= 99.95:
        return f"{scaled:,.0f}"
    rounded = f"{scaled:.3g}"
    return rounded if math.isclose(float(rounded), scaled, rel_tol=1e-9) else f"{scaled:#.3g}".rstrip(".")


def stated(value: float | None, unit: str) -> str:
    """Figure stated by a report as text, with as many digits as the report has."""
    if value is None or unit == "%":
        return shown(value, unit)
    digits = f"{value / UNITS[unit]:,.10g}"
    return shown(value, unit) if "e+" in digits else digits


def measured(value: Value, unit: str) -> str:
    """Measured figure as text, with the signs of `SIGNS`."""
    signs = "".join(sign for name, sign, _ in SIGNS if getattr(value, name))
    return shown(value.here, unit) + signs * (value.here is not None)


#: Fields of a figure with a sign in tables, the sign, and its meaning.
SIGNS = (
    ("scaled", "*", "measured on a part of the work, and scaled up"),
    ("disturbed", "\N{DAGGER}", "disturbed: other processes kept more than a tenth of the cores busy meanwhile"),
)


def legend(values: Iterable[Value]) -> list[str]:
    """Meanings of the signs that these figures have, a line for each."""
    shown_here = [value for value in values if value.here is not None]
    return [f"{sign} {text}" for name, sign, text in SIGNS if any(getattr(value, name) for value in shown_here)]


def spread(value: Value, unit: str) -> str:
    """Range of the measured figures as text; empty if its ends look equal."""
    if value.least is None or value.most is None:
        return ""
    low, high = shown(value.least, unit), shown(value.most, unit)
    return f"{low} to {high}" if low != high else ""


def head(column: Column) -> str:
    """Head of a column, with its unit."""
    return f"{column.head}, {column.unit}" if column.unit not in ("", "x") else column.head


def ratio(value: Value) -> float | None:
    """Measured figure divided by the reported one; None if either is missing."""
    return value.here / value.reported if value.here is not None and value.reported else None
