"""Thirty climbs on one page: ranked, sortable by every column without a script, small, and as CSV."""

import csv
import io
import re
from dataclasses import replace

from climbs import example, timed

from warpladder.results.report.page import page
from warpladder.results.report.ranking import CSV, as_csv


def classroom(number=30):
    """Climbs of a class: everybody has another time of native and another accuracy."""
    climbs = []
    for at in range(number):
        seconds, accuracy = 0.4 + 0.01 * (at * 7 % number), 0.9 + 0.003 * (at * 11 % number)
        own = [timed("numpy", "BLAS", (1.0 + 0.01 * at,)), timed("native", "fused", (seconds,), test_accuracy=accuracy)]
        own.append(timed("torch", "eager", (0.1,), peer=True))
        climbs.append(example(rungs=tuple(own)))
    return climbs, [f"student-{at:02}" for at in range(number)]


def orders(text):
    """The labels of each table's rows, by the name of the order."""
    tables = re.findall(r'<div class="by">.*?aria-label="Climbs ([^"]*)">(.*?)</table>', text, re.DOTALL)
    return {name: re.findall(r"student-\d\d", rows) for name, rows in tables}


def test_many_climbs_are_ranked_by_their_fastest_rung_and_sorted_by_every_column():
    climbs, labels = classroom()
    text = page(climbs, labels)
    assert len(text.encode()) < 1e6 and "<script" not in text and "<svg" not in text
    found = orders(text)
    assert list(found) == ["time per epoch", "climb", "test accuracy", "numpy", "native", "torch"]
    assert all(sorted(rows) == labels for rows in found.values())
    assert found["climb"] == found["numpy"] == labels
    by_native = sorted(labels, key=lambda label: climbs[labels.index(label)].rungs[1].timing.seconds_per_epoch)
    assert found["time per epoch"] == found["native"] == by_native, "a peer is not ranked"
    assert found["test accuracy"] == sorted(
        labels, key=lambda label: -climbs[labels.index(label)].rungs[1].test_accuracy
    )
    buttons = re.findall(r'<input type="radio" name="sort" id="(sort-\d)"[^>]*>', text)
    assert len(buttons) == len(found) and all(text.count(f'<label for="{button}">') == len(found) for button in buttons)


def test_what_cannot_be_ranked_stands_last_and_says_why():
    climbs, labels = classroom(6)
    slow = timed("native", "fused", (0.2,))
    busy = replace(slow, timing=replace(slow.timing, other_seconds=(1.8,)))
    climbs[0] = example(rungs=(busy,))
    climbs[1] = example(rungs=(slow,), config=climbs[1].config | {"batch_size": 128})
    climbs[2] = example(rungs=climbs[2].rungs[2:], stopped="stopped")
    climbs[3] = example(rungs=(timed("naive:device=emulated", "threads", (0.1,)),))
    text = page(climbs, labels)
    first, *last = orders(text)["time per epoch"][1:]
    assert first == "student-05" and last == ["student-02", "student-03", "student-00", "student-01"]
    flags = ("disturbed", "another task", "stopped", "emulated")
    for label, flag in zip(labels, flags, strict=False):
        assert re.search(f'{label} <i class="bad">{flag}</i></th><td[^>]*></td>', text), "and it has no rank"
    row = text.partition('student-03 <i class="bad">emulated')[2].partition("</tr>")[0]
    assert "naive:device=emulated" not in row, "none is the fastest on the emulator"


def test_csv_has_a_row_for_each_rung_of_each_climb():
    climbs, labels = classroom(3)
    climbs[1] = example()
    labels[2] = "=cmd()"
    rows = list(csv.DictReader(io.StringIO(as_csv(climbs, labels))))
    assert list(rows[0]) == list(CSV) and len(rows) == 3 + len(example().rungs) + 3
    native = next(row for row in rows if row["climb"] == "student-00" and row["rung"] == "native")
    assert float(native["seconds_per_epoch"]) == climbs[0].rungs[1].timing.seconds_per_epoch
    assert (native["peer"], native["scaled"], native["status"], native["precision"]) == ("no", "no", "timed", "fp32")
    broken = next(row for row in rows if row["rung"] == "broken")
    assert (broken["status"], broken["seconds_per_epoch"], broken["test_accuracy"]) == ("failed", "", "")
    assert rows[-1]["climb"] == "'=cmd()", "no spreadsheet runs it"
