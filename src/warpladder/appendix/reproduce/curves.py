"""Curves of a report's pictures: measured ones, and ones stated by the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .experiments import Found
from .results import UNITS, Lines, Series


def lines(planned: Lines, found: Mapping[str, Found | None]) -> Lines:
    """Picture of curves with the measured points; curves without points are left out."""
    series = [made for each in planned.series if (made := _series(each, planned, found)) is not None]
    return replace(planned, series=tuple(series))


def _series(planned: Series, axes: Lines, found: Mapping[str, Found | None]) -> Series | None:
    if not planned.here:
        x, y = (
            tuple(value * UNITS[axis.unit] for value in values)
            for values, axis in ((planned.x, axes.x), (planned.y, axes.y))
        )
        return replace(planned, x=x, y=y, source="theirs" if planned.source == "theirs" else "reported")
    name, _, rung = planned.here.partition("/")
    experiment = found.get(name)
    points = None if experiment is None else experiment.curve(rung, planned.curve)
    if experiment is None or points is None:
        return None
    return replace(planned, x=tuple(points[0]), y=tuple(points[1]), marks=experiment.marks(rung, planned.curve))


def is_here(series: Series) -> bool:
    """True if this reproduction measured the curve."""
    return series.source == "here"
