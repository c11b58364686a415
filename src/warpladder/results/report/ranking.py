"""Many climbs on one page: a row for each, ranked, in a table that a click on a heading sorts, without a script."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from .. import Results, RungResult
from ..text import words
from .compare import task
from .html import note, score_name, table

#: Number of rungs with a column: those that most climbs timed.
COLUMNS = 8

#: Heads of the columns of a CSV file, which has a row for each rung of each climb.
CSV = (
    "climb", "net", "data", "rung", "peer", "precision", "status", "seconds_per_epoch", "spread", "scaled", "disturbed",
    "test_accuracy", "test_loss", "error", "peak_rss_bytes", "processor", "gpu", "commit", "created",
)  # fmt: skip


class _Row(NamedTuple):
    """Row of a climb: its label, its fastest rung, and True if it trained the same task as most climbs. An emulated
    climb has no fastest rung.
    """

    label: str
    climb: Results
    best: RungResult | None
    is_alike: bool


def ranking(climbs: Sequence[Results], labels: Sequence[str]) -> str:
    """HTML of the ranked table, once for each order; only one is visible.

    Climbs are ranked by their fastest rung without peers. Climbs of another task, disturbed or emulated ones and those
    without a time are last.
    """
    usual = Counter(map(str, map(task, climbs))).most_common(1)[0][0]
    rows = [
        _Row(label, climb, None if climb.emulated else climb.fastest(peers=False), str(task(climb)) == usual)
        for label, climb in zip(labels, climbs, strict=True)
    ]
    timed = Counter(rung.name for climb in climbs for rung in climb.timed())
    names = [name for name, _ in timed.most_common(COLUMNS)]
    score = score_name(climbs[0].net.loss)
    orders: list[tuple[str, Callable[[_Row], float | str | tuple[bool, bool, float]]]] = [
        ("time per epoch", _place),
        ("climb", lambda row: row.label),
        (score, lambda row: -_accuracy(row.best)),
        *((name, lambda row, name=name: _seconds(row.climb, name)) for name in names),
    ]
    heads = ["climb", "rank", "time per epoch", "fastest", *(order for order, _ in orders[2:])]
    numbers = {order: at for at, (order, _) in enumerate(orders)}
    labelled = [
        f'<label for="sort-{numbers[head]}">{escape(head)}</label>' if head in numbers else escape(head)
        for head in heads
    ]
    compared = [row for row in rows if row.is_alike and row.best is not None and not row.climb.disturbed]
    ranks = {row.label: str(at) for at, row in enumerate(sorted(compared, key=_place), 1)}
    buttons, tables = "", ""
    for at, (order, key) in enumerate(orders):
        name = escape(f"sorted by {order}")
        buttons += f'<input type="radio" name="sort" id="sort-{at}" aria-label="{name}"{" checked" * (at == 0)}>'
        cells = [("", _cells(row, ranks.get(row.label, ""), names)) for row in sorted(rows, key=key)]
        tables += f'<div class="by">{table(f"Climbs {order}", labelled, cells, (0, 3))}</div>'
    text = (
        "Ranked by the time of the fastest rung, without peers. A heading sorts the table by its column. Climbs of "
        "another task than most, and disturbed or emulated ones, stand last: their times are not compared."
    )
    return f'{note(text)}<div class="sorted">{buttons}{tables}</div>'


def _cells(row: _Row, rank: str, names: Sequence[str]) -> list[str]:
    tags = (
        ["another task"] * (not row.is_alike)
        + ["emulated"] * row.climb.emulated
        + ["disturbed"] * row.climb.disturbed
        + ["stopped"] * bool(row.climb.stopped)
    )
    flags = "".join(f' <i class="bad">{tag}</i>' for tag in tags)
    found = {rung.name: rung for rung in row.climb.rungs}
    best = row.best
    time, fastest, score = ("", "", "") if best is None else (words.epoch_time(best), best.name, words.score(best))
    times = [words.epoch_time(found[name]) if name in found else "" for name in names]
    return [escape(row.label) + flags, rank, *map(escape, (time, fastest, score, *times))]


def _place(row: _Row) -> tuple[bool, bool, float]:
    seconds = math.inf if row.best is None else words.per_epoch(row.best)
    return not row.is_alike, row.climb.disturbed, seconds


def _accuracy(rung: RungResult | None) -> float:
    """Test score, larger for better: accuracy, or the negative loss."""
    if rung is None or (rung.test_accuracy is None and rung.test_loss is None):
        return -math.inf
    return rung.test_accuracy if rung.test_accuracy is not None else -(rung.test_loss or 0.0)


def _seconds(climb: Results, name: str) -> float:
    return next((words.per_epoch(rung) for rung in climb.timed() if rung.name == name), math.inf)


def as_csv(climbs: Sequence[Results], labels: Sequence[str]) -> str:
    """CSV text with the heads `CSV` and a row for each rung of each climb; unknown values are empty."""
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    out.writerow(CSV)
    for climb, label in zip(climbs, labels, strict=True):
        m = climb.machine
        for rung in climb.rungs:
            time = rung.timing
            out.writerow(
                map(
                    _plain,
                    (
                        label, climb.net.name, climb.data.name, rung.name, rung.peer, rung.precision, rung.status,
                        time and time.seconds_per_epoch, time and time.spread, time and time.scaled,
                        time and climb.is_disturbed(rung), rung.test_accuracy, rung.test_loss,
                        rung.check and rung.check.error, rung.peak_rss_bytes, m.cpu, m.gpu and m.gpu.name, m.commit,
                        climb.created,
                    ),
                )
            )  # fmt: skip
    return file.getvalue()


def _plain(value: object) -> object:
    """Value as a cell; a text that a spreadsheet would take for a formula gets a quote in front."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value
