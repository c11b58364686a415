"""Texts and verdicts of a report follow from measured figures; short forms stand for what they say; nothing that fails
costs the rest.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from reproduced_reports import SMALL, reproduced

from warpladder.appendix.reproduce import Reproducer, Watcher
from warpladder.appendix.reproduce.claims import Claim, Finding
from warpladder.appendix.reproduce.definition import definition, parse, template
from warpladder.appendix.reproduce.experiments import Found
from warpladder.appendix.reproduce.expressions import Expression, Unmeasured
from warpladder.appendix.reproduce.kinds.climbed import is_disturbed
from warpladder.appendix.reproduce.kinds.climbs import calmer
from warpladder.appendix.reproduce.provenance import Provenance, checksum
from warpladder.appendix.reproduce.report.page import page
from warpladder.appendix.reproduce.report.pictures import lines, under
from warpladder.appendix.reproduce.report.prose import claims
from warpladder.appendix.reproduce.report.side_by_side import aligned
from warpladder.appendix.reproduce.report.terminal import Once
from warpladder.appendix.reproduce.resolve import Measured, table
from warpladder.appendix.reproduce.results import Column, Lines, ReportRow, ReportTable, Reproduction, Series, Value
from warpladder.appendix.reproduce.texts import Figures, counted
from warpladder.data import load
from warpladder.errors import ConfigError
from warpladder.machine.facts import busy_seconds, own_seconds
from warpladder.results import RungResult
from warpladder.results.report.figures.svg import picture as picture_of
from warpladder.results.sweep import Sweep

KNOWN = {"slow": "rows/numpy epoch_seconds", "fast": "rows/native epoch_seconds", "gone": "rows/naive epoch_seconds"}
VALUES = {"rows/numpy": Value(here=0.01, least=0.009, most=0.012), "rows/native": Value(here=0.004)}


def figures(values: dict[str, Value] | None = None, quick: bool = False) -> Figures:
    return Figures(KNOWN, lambda place, measure: {**VALUES, **(values or {})}.get(place), {}, "s9", quick)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("slow / fast", 2.5),
        ("least(slow) > fast", True),
        ("max(slow, fast) - 1", -0.99),
        ("not slow < fast and 1", True),
    ],
)
def test_arithmetic_on_figures(text: str, value: float) -> None:
    found = Expression(text, KNOWN).value(figures().lookup)
    assert found == pytest.approx(value) and isinstance(found, (bool, int, float))


@pytest.mark.parametrize(
    "text", ["slow /", "unknown", "__import__('os')", "slow.here", "slow if fast else 1", "'a'", "f(slow)"]
)
def test_what_is_no_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Expression(text, KNOWN)


def test_a_text_has_the_measured_figures_or_is_left_out() -> None:
    own = figures()
    assert own.text_of("It takes {slow|ms}, {slow / fast|x} times as long.") == "It takes 10 ms, 2.5 times as long."
    assert own.text_of("It takes {gone|ms}.") is None
    assert (
        own.text_of(Finding("Faster.", "fast < slow")) == "Faster."
        and own.text_of(Finding("Slower.", "fast > slow")) is None
    )
    disturbed = figures({"rows/numpy": Value(here=0.01, disturbed=True)})
    assert disturbed.text_of("{slow|ms}") == "10\N{DAGGER} ms"
    with pytest.raises(Unmeasured):
        Expression("gone", KNOWN).value(own.lookup)


CLAIM = Claim("It is twice as fast.", "x", 2.0, 1.5, 3.0, figure="slow / fast")


@pytest.mark.parametrize(
    ("claim", "values", "verdict"),
    [
        (CLAIM, {}, "holds"),
        (replace(CLAIM, own=1.2), {}, "holds here only"),
        (replace(CLAIM, own=2.0), {}, "holds"),
        (CLAIM, {"rows/native": Value(here=0.001)}, "does not hold"),
        (CLAIM, {"rows/native": Value(here=float("nan"))}, "does not hold"),
        (CLAIM, {"rows/native": Value(here=0.004, disturbed=True)}, "cannot be judged"),
        (replace(CLAIM, figure="slow / gone"), {}, "cannot be judged"),
        (Claim("On an A40.", because="no A40 is here"), {}, "cannot be judged"),
    ],
)
def test_a_claim_is_judged_by_its_tolerance(claim: Claim, values: dict[str, Value], verdict: str) -> None:
    judged = figures(values).judged(claim)
    assert judged.verdict == verdict and (judged.reason or verdict in ("holds", "does not hold"))
    assert judged.command == ("warpladder reproduce s9 --only rows" if claim.figure else "")


def test_a_first_look_judges_no_accuracy() -> None:
    own = replace(figures(quick=True), known={"right": "seeds/numpy test_accuracy"})
    own.value_of = lambda place, measure: Value(here=0.95)
    judged = own.judged(Claim("It learns.", "%", least=90, figure="right"))
    assert (judged.verdict, judged.value and judged.value.here) == ("cannot be judged", 0.95)


def test_a_gain_within_the_ranges_cannot_be_judged() -> None:
    """By the median it is 1.25 times as fast; but a slow repetition of one is slower than a fast one of the other."""
    gain = Claim("It is faster.", "x", least=1.1, figure="slow / fast", because="of tiles")
    wide = figures({"rows/native": Value(here=0.008, least=0.007, most=0.0125)}).judged(gain)
    assert (wide.verdict, wide.reason) == ("cannot be judged", "the ranges of what is compared overlap")
    assert wide.value is not None and wide.value.least == pytest.approx(0.72)
    assert wide.value.most == pytest.approx(0.012 / 0.007) and "0.72 to 1.71" in claims([[wide]], [""])
    narrow = figures({"rows/native": Value(here=0.008, least=0.0079, most=0.0081)}).judged(gain)
    assert narrow.verdict == "holds"
    for unsettled in (replace(gain, most=4.0), replace(gain, least=2.0)):  # a window, and a gain that no repetition has
        judged = figures({"rows/native": Value(here=0.008, least=0.007, most=0.0125)}).judged(unsettled)
        assert judged.verdict in ("holds", "does not hold")
    assert Expression("abs(slow - fast)", KNOWN).ends(figures().lookup) == (None, None)


def test_reasons_are_joined_to_a_sentence() -> None:
    judged = figures().judged(replace(CLAIM, own=1.2, because="work is left out"))
    assert judged.reason == "the report's own figures or program give 1.2; work is left out"


def test_verdicts_are_counted() -> None:
    every = [figures().judged(each) for each in (CLAIM, CLAIM, replace(CLAIM, own=1.2), Claim("A.", because="b"))]
    assert counted(every) == "4 claims of the report: 2 hold, 1 holds here only, 1 cannot be judged."
    assert counted(every[:1], "the reports") == "1 claim of the reports: 1 holds."


def test_short_forms_stand_for_what_they_say() -> None:
    made = parse(template(), "mine")
    assert made.experiments["rows"].rungs == ("numpy:threads=1", "numpy", "native")  # type: ignore[attr-defined]
    (section,) = made.sections
    assert section.tables[0].rows[0].here == "rows/numpy:threads=1"
    assert [row.label for row in section.bars[0].rows] == [("NumPy, one core",), ("NumPy",), ("native",)]
    assert section.bars[0].rows[0].reported == (2.5,)
    with pytest.raises(ConfigError, match="no table 'Tymes'"):
        parse(template().replace('table = "Times"', 'table = "Tymes"'), "mine")
    with pytest.raises(ConfigError, match="no figure 'speed'"):
        parse(template().replace("{slow|ms}", "{speed|ms}"), "mine")


def test_unknown_names_are_found_before_anything_is_measured() -> None:
    for key, wrong, words in (
        ("net", '"perceptron"', "there is no net 'perceptron'"),
        ("rungs", '["numpi"]', "there is no rung 'numpi': did you mean 'numpy'"),
        ("settings", '{ epochs = "two" }', "epochs wants a whole number"),
    ):
        with pytest.raises(ConfigError, match=words):
            parse(re.sub(rf"(?m)^{key} = .*", f"{key} = {wrong}", template(), count=1), "mine")
    with pytest.raises(ConfigError, match="program 'gpu' names no rung"):
        parse(TURNS.replace('gpu = { rung = "naive" }', "gpu = { log_every = 1 }"), "s9")


def test_a_report_of_ones_own_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(template())
    made = definition(str(path))
    assert (made.name, made.source) == ("mine", str(path))
    for name, told in (
        ("none.toml", "No such file"),
        ("mine", "FILE.toml"),
        (str(tmp_path / "s1.toml"), "another name"),
    ):
        with pytest.raises(ConfigError, match=told):
            definition(name)


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory, small_climbs_in_module: None) -> Path:
    """Folder of what a small sweep measured."""
    folder = tmp_path_factory.mktemp("sized")
    reproduced(folder, BROKEN, only=("sizes",))
    return folder


BROKEN = (
    SMALL.replace('findings = ["Because."]', 'findings = ["{1 / (one - one)|x} times.", "Because.", "{one|ms}."]')
    + '\n[figures]\none = "sizes/numpy@limit=100 epoch_seconds"\n'
)


def test_what_fails_costs_nothing_else(sized: Path, tmp_path: Path) -> None:
    """A text that divides by zero, and a file that was cut off: the page has all the rest, and says so."""
    shutil.copytree(sized, tmp_path, dirs_exist_ok=True)
    cheap = ("sizes", "parts", "seeds")
    found = reproduced(tmp_path, BROKEN, only=cheap)
    (section,) = found.sections
    assert section.findings[0] == "Because." and str(section.findings[1]).endswith(" ms.") and section.tables[0].rows
    assert any("ZeroDivisionError" in note for note in found.notes)
    measured = tmp_path / "measured"
    (measured / "parts.json").write_text("null")
    (measured / "seeds.json").write_text('{"schema": 1, "runs": [')
    said: list[str] = []
    again = reproduced(tmp_path, BROKEN, Watcher(news=lambda item: said.append(str(item))), cheap)
    assert again.missing == ("rows",) and any("measured anew" in line for line in said)


def test_experiments_say_how_they_were_made(tmp_path: Path) -> None:
    found = reproduced(tmp_path, only=("parts",))
    made = found.experiments["parts"]
    assert made.seconds > 0 and made.times in (1, 2) and made.created.endswith("Z")
    digits = load("digits")
    assert digits.test_y is not None
    assert found.data == {"digits": checksum(digits)}
    assert checksum(digits.but(test_x=digits.test_x[:-1], test_y=digits.test_y[:-1])) != checksum(digits)
    assert Provenance(tmp_path, None).experiments["parts"] == made
    assert "SHA-256" in page(found) and found.data["digits"] in page(found)


def test_a_disturbed_rung_is_measured_again_and_the_calmer_one_stays(sized: Path, tmp_path: Path) -> None:
    shutil.copytree(sized, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "measured/sizes.json"
    stored = Sweep.load(path)
    task = stored.tasks[0]
    rung = next(each for each in task.rungs if each.name == "numpy")
    assert rung.timing is not None

    timing = rung.timing

    def with_others(share: float) -> RungResult:
        busy = tuple(share * seconds * task.machine.cores for seconds in timing.seconds)
        return replace(rung, timing=replace(timing, other_seconds=busy))

    calm, loud = with_others(0.01), with_others(0.9)
    assert not is_disturbed(task, calm) and is_disturbed(task, loud)
    before, after = replace(task, rungs=(loud,)), replace(task, rungs=(calm,))
    assert calmer(before, after).rungs == (calm,) and calmer(after, before).rungs == (calm,)
    replace(stored, tasks=(before, *stored.tasks[1:])).save(path)
    found = parse(SMALL, "s9").experiments["sizes"].found("sizes", tmp_path / "measured")
    assert found is not None
    time, accuracy = (found.value("numpy@limit=100", name) for name in ("epoch_seconds", "test_accuracy"))
    assert time is not None and time.disturbed and accuracy is not None and not accuracy.disturbed


def test_a_childs_processor_time_is_our_own() -> None:
    if busy_seconds() is None:
        pytest.skip("the system does not report it")
    before = own_seconds()
    with subprocess.Popen([sys.executable, "-c", "sum(range(10**7)); print(); input()"], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert own_seconds() - before > 0.02
        child.communicate(b"\n")
    assert own_seconds() - before > 0.02


def test_runs_of_a_cpu_and_a_gpu_stand_side_by_side(tmp_path: Path) -> None:
    """One lacks a table, the other has further rows in another one: each has an empty place for what it lacks."""
    found = reproduced(tmp_path, only=("parts",))
    (section,) = found.sections
    step = section.tables[1]
    more = replace(step, rows=(*step.rows, replace(step.rows[0], label=("on the GPU",))))
    other = replace(found, sections=(replace(section, tables=(more,)),))
    left, right = aligned([found, other])
    assert [[len(each.rows) for each in one.sections[0].tables] for one in (left, right)] == [[4, 3], [4, 3]]
    assert left.sections[0].tables[1].rows[2].reason and right.sections[0].tables[0].rows[0].values[0].here is None
    assert "on the GPU" in page([found, other], ["cpu", "gpu"])


def test_curves_and_marks_on_each_other_are_seen() -> None:
    """Two curves that lie on each other have other widths; marks of points at one place are at several places."""
    pytest.importorskip("matplotlib")
    x = (1.0, 2.0, 3.0)
    same, other = Series("a", x, (1.0, 0.5, 0.2), marks=("1", "2", "3")), Series("c", x, (3.0, 2.0, 1.0))
    picture = Lines("Loss", Column("epoch"), Column("loss"), (same, replace(same, label="b"), other))
    assert under(picture) == [1, 0, 0]
    drawing = picture_of("t", "alt", lines(picture))
    widths = re.findall(r"stroke-width: ([\d.]+); stroke-linecap: square", drawing)
    assert {"4.2", "1.6"} <= {f"{float(width):.1f}" for width in widths}
    placed = re.findall(r'<text [^>]*x="([-\d.]+)" y="([-\d.]+)">1</text>', drawing)
    assert len(placed) == len(set(placed)) >= 2, "of a tick and two marks, one without a free place left out"


def test_a_row_states_why_one_of_its_figures_is_missing() -> None:
    class Timed(Found):
        def value(self, rung: str, measure: str) -> Value | None:
            return Value(here=2.0) if measure == "epoch_seconds" else None

        def reason(self, rung: str) -> str:
            return "not trained for its accuracy"

    columns = (Column("epoch", "s", measure="epoch_seconds"), Column("right", "%", measure="test_accuracy"))
    row = ReportRow(("loops",), here="rows/loops")
    (made,) = table(ReportTable("Times", ("rung",), columns, (row,)), Measured(rows=Timed())).rows
    assert (made.reason, made.remark) == ("", "not trained for its accuracy")
    (whole,) = table(ReportTable("Times", ("rung",), columns[:1], (row,)), Measured(rows=Timed())).rows
    assert whole.remark == ""


TURNS = """
title = "Turns"
about = "Two programs."

[turns.both]
net = "softmax"
data = "digits"
rounds = 2
settings = { epochs = 2, batch_size = 64, learning_rate = 0.1 }

[turns.both.programs]
each = { rung = "numpy", log_every = 1 }
tenth = { rung = "numpy", loss_every = 2 }
gpu = { rung = "naive" }

[[sections]]
title = "Times"

[[sections.tables]]
title = "Epochs"
heads = ["program"]
columns = [{ head = "epoch", unit = "ms", measure = "epoch_seconds" }, { head = "right", unit = "%", measure = "test_accuracy" }]
rows = [
  { label = ["each"], here = "both/each" },
  { label = ["tenth"], here = "both/tenth" },
  { label = ["gpu"], here = "both/gpu" },
]
"""


def test_programs_with_settings_of_their_own_take_turns(tmp_path: Path) -> None:
    found = Reproducer(parse(TURNS, "s9"), tmp_path, False, None, Watcher()).run()
    each, tenth, gpu = found.sections[0].tables[0].rows
    assert each.values[0].least is not None and each.values[1].here == tenth.values[1].here
    assert gpu.reason and gpu.values[0].here is None and found.missing == ()
    taken = json.loads((tmp_path / "measured/both.json").read_text())
    assert [len(taken["seconds"][name]) for name in ("each", "tenth")] == [2, 2], "the first round warms up"
    assert Reproduction.load(tmp_path / "results.json").sections == found.sections


def test_a_long_reason_is_printed_once_and_then_begun() -> None:
    once, long = Once(), "mnist: its files could not be downloaded from either of two servers, " * 3
    assert once(long) == long and once("no GPU") == once("no GPU") == "no GPU"
    assert once(long) == "mnist: its files could not be downloaded from either of two ... (as above)"
