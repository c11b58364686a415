"""Pages of the reports are read on phones: names break between their parts, units stand next to figures, commands look
like commands and exist.
"""

from __future__ import annotations

import re
import shlex

import click
import pytest

from warpladder.appendix.reproduce import NAMES, definition
from warpladder.appendix.reproduce.claims import Claim
from warpladder.appendix.reproduce.report.figures import shown, stated
from warpladder.appendix.reproduce.report.pictures import bars
from warpladder.appendix.reproduce.report.prose import claims
from warpladder.appendix.reproduce.report.tables import table
from warpladder.appendix.reproduce.results import Bars, Column, ReportRow, ReportTable, Value
from warpladder.cli import group
from warpladder.ladder import find
from warpladder.results.report.figures.svg import picture
from warpladder.results.report.html import inline


def texts(tree: object) -> list[str]:
    """Every text of a definition, of whatever depth."""
    if isinstance(tree, str):
        return [tree]
    parts = (
        tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else vars(tree).values()
    )
    return [
        text for part in parts if part is not None and not isinstance(part, (bool, int, float)) for text in texts(part)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_commands_of_texts_are_marked_and_exist(name: str) -> None:
    """A command outside of `marks` would break within an option, and one of a rung that was renamed would fail."""
    marked = []
    for text in texts(definition(name).sections):
        assert not re.search(r"\bwarpladder [a-z]+ |(?<![\w-])--[a-z]", re.sub(r"`[^`]*`", "", text)), text
        marked += re.findall(r"`warpladder ([^`]+)`", text)
    assert marked
    for line in marked:
        command, *arguments = shlex.split(line)
        try:
            context = group.commands[command].make_context(command, arguments) if arguments else None
        except click.ClickException as error:
            raise AssertionError(f"{line}: {error.message}") from None
        rungs = [] if context is None else [context.params.get("rung"), context.params.get("rungs")]
        for rung in ",".join(str(each) for each in rungs if each).split(","):
            assert not rung or rung.endswith(".py") or find(rung)


def test_measured_figures_have_three_digits_and_reported_ones_their_own() -> None:
    assert [shown(value, "s") for value in (11.0043, 1.1043, 99.97, 64.0, 2.5, 0.0905071)] == [
        "11.0", "1.10", "100", "64", "2.5", "0.0905",
    ]  # fmt: skip
    assert [stated(value, "s") for value in (11.0, 1.4, 298.61753, 0.842)] == ["11", "1.4", "298.61753", "0.842"]


def test_a_unit_is_on_no_line_alone() -> None:
    value = Value(here=0.9769, least=0.974, most=0.9795)
    claim = Claim("Accuracy.", unit="%", reported=0.9726, least=0.9676, most=0.9776, value=value, verdict="holds")
    text = claims([[claim]], [""])
    assert "97.26\u00a0%" in text and "97.76\u00a0%" in text and "97.69\u00a0%" in text and not re.search(r"\d %", text)
    times = Claim("Faster.", unit="x", reported=2.0, least=1.3, most=3.0, value=Value(here=2.1043), verdict="holds")
    assert re.findall(r"[\d.]+.times", claims([[times]], [""])) == ["2\u00a0times", "3\u00a0times", "2.10\u00a0times"]


def test_names_break_between_their_parts() -> None:
    row = ReportRow(("naive_conv_backward_weights", "its_kernel"), values=(Value(here=1.0),), rung="library:a=x_y")
    columns = (Column("achieved", "GFLOP/s"),)
    text = table([ReportTable("Kernels", ("kernel", "here"), columns, (row,))], [""])
    for name in ("naive_<wbr>conv_<wbr>backward_<wbr>weights", "its_<wbr>kernel", "x_<wbr>y"):
        assert name in text
    assert "achieved, GFLOP/s" in text, "a long unit may stand on a line of its own: the next column is seen"
    assert "library<wbr>:operations=linear+<wbr>cross_<wbr>entropy" in inline(
        "`library:operations=linear+cross_entropy`"
    )


def test_bars_begin_below_their_label() -> None:
    """A row without a reported figure has its bar where the reported one would be."""
    pytest.importorskip("matplotlib")
    values = (Value(reported=2.0, here=1.0), Value(here=1.0))
    drawing = picture("t", "alt", bars(Bars("Times", Column("time", "s"), ("a", "b"), values)))
    heights = [float(y) for y in re.findall(r'<text [^>]*y="([-\d.]+)"[^>]*>(?:a|b|1|2)</text>', drawing)]
    labels = {text: float(y) for y, text in re.findall(r'<text [^>]*y="([-\d.]+)"[^>]*>(a|b)</text>', drawing)}
    assert heights and min(y - labels["b"] for y in heights if y > labels["b"]) < 30
