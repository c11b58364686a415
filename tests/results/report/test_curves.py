"""Curves that lie on each other are all visible, also where one ends before the other."""

from __future__ import annotations

import math

from warpladder.results.report.figures.curves import covered, line_width


def curve(values, first=1):
    return [(float(at), value) for at, value in enumerate(values, first)]


def test_a_curve_under_others_is_wider():
    long, short, other = curve([0.8, 0.4, 0.3, 0.2]), curve([0.801, 0.4]), curve([0.8, 0.5, 0.3, 0.2])
    assert covered([long, short, other], False) == [1, 0, 0]
    assert covered([short, long, long], False) == [2, 1, 0]
    assert covered([long, curve([0.8, 0.4, 0.3, 0.2], 2), curve([])], False) == [0, 0, 0]
    assert covered([], False) == []
    assert line_width(0) < line_width(1) < line_width(2) <= line_width(30) <= 12


def test_on_a_logarithmic_axis_ratios_count():
    curves = [curve([1.0, 1e-4]), curve([1.0, 1.04e-4]), curve([1.0, 1.5e-4])]
    assert covered(curves, False) == [2, 1, 0]
    assert covered(curves, True) == [1, 0, 0]
    assert covered([curve([math.nan]), curve([math.nan])], False) == [0, 0]
