"""S1's reproduction, and reproductions of one report beside each other: a page of several files, and one clear line for
files that do not fit.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from climbs import MACHINE, example
from reproduced_reports import SMALL, reproduced

from warpladder.appendix.reproduce import definition
from warpladder.appendix.reproduce.definition import parse
from warpladder.appendix.reproduce.experiments import Bench, Watcher
from warpladder.appendix.reproduce.report.figures import stated
from warpladder.appendix.reproduce.report.page import page
from warpladder.appendix.reproduce.report.tables import rung_in_a_row
from warpladder.appendix.reproduce.results import (
    Bars,
    Column,
    Lines,
    ReportRow,
    ReportTable,
    Reproduction,
    Section,
    Series,
    Value,
)
from warpladder.cli import main
from warpladder.errors import ConfigError, ResultsError
from warpladder.nets import cnn
from warpladder.nets.file import load_net, net_of
from warpladder.results import Gpu

pytestmark = (
    pytest.mark.slow
)  # climbs and trainings; tests/appendix/test_reproduce.py shows the same of a smaller report

PROFILE = Path(__file__).parents[2] / "benchmarks" / "h200" / "profiles" / "mlp-gemm.json"


def gpu(name: str) -> Gpu:
    return Gpu(name, "9.0", 132, 80 << 30, "13.0", "13.0", "580", 1980.0, 1980.0, 2619.0, 700.0)


def made(here: float | None, *, report: str = "s1", unit: str = "s", reason: str = "", **changes: Any) -> Reproduction:
    """A reproduction of one table and two pictures, in which one figure was measured."""
    value = Value(reported=23.47, here=here)
    table = ReportTable(
        "Table 3",
        ("GPU",),
        (Column("training", unit),),
        (ReportRow(("the one here",), (value,), "naive", "" if here else reason or "no GPU"),),
    )
    lines = Lines(
        "Figure 1",
        Column("epoch"),
        Column("time", "s"),
        (Series("naive", (1.0, 2.0), (here or 1.0, 2 * (here or 1.0))),),
    )
    bars = Bars("Times", Column("training", "s"), ("naive",), (value,))
    section = Section("CUDA", findings=("Because.",), tables=(table,), lines=(lines,), bars=(bars,))
    found = Reproduction(
        Reproduction.SCHEMA, report, "A net", "About it.", "2026-11-22T10:00:00Z", False, f"warpladder reproduce {report}", MACHINE,
        (section,), ("rows",), (), 12.0,
    )  # fmt: skip
    return replace(found, **changes)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    for name, seconds in (("h100", 5.25), ("h200", 4.75)):
        Path(name, "s1").mkdir(parents=True)
        found = made(
            seconds, command=f"warpladder reproduce s1 --out {name}", machine=replace(MACHINE, gpu=gpu(f"GPU {name}"))
        )
        found.save(Path(name, "s1", "results.json"))

    def command(*words: str) -> tuple[int, str, str]:
        code = main(["report", *words])
        out = capsys.readouterr()
        return code, out.out, out.err

    return command


ONE, TWO = "h100/s1/results.json", "h200/s1/results.json"


def test_a_single_reproduction_makes_its_page_again(run: Any) -> None:
    from warpladder.appendix.reproduce.report.page import write_page
    from warpladder.appendix.reproduce.results import Reproduction

    assert run(ONE) == (0, "Open this: h100/s1/report.html\n", "")
    write_page(Reproduction.load(ONE), "again.html")
    assert Path("again.html").read_text() == Path("h100/s1/report.html").read_text()


def test_two_reproductions_stand_beside_each_other(run: Any) -> None:
    """Each figure stands in a column of its own under the name of its folder, each picture follows under that name, and
    so does each machine.
    """
    assert run(ONE, TWO, "-o", "page.html")[0] == 0
    text = Path("page.html").read_text()
    row = text[text.index("<tbody>") : text.index("</tbody>")]
    assert row.index(">23.47<") < row.index("<b>5.25</b>") < row.index("<b>4.75</b>")
    head = text[text.index("<thead>") : text.index("</thead>")]
    assert [name for name in ("reported", "h100", "h200") if f'<span class="options">{name}</span>' in head] == [
        "reported",
        "h100",
        "h200",
    ]
    for told in (
        "h100: Figure 1",
        "h200: Figure 1",
        "h100: Times",
        "h200: Times",
        "GPU h100",
        "GPU h200",
        "--out h100",
        "--out h200",
    ):
        assert told in text
    assert text.count("Because.") == 1 and text.count("h100: 1 figures were measured") == 1
    ids = [part.split('"')[0] for part in text.split(' id="')[1:]]
    assert len(ids) == len(set(ids)), "an anchor or a clip path is there twice"


def test_what_one_of_them_lacks_is_said_of_that_one(run: Any) -> None:
    made(None, quick=True, missing=("blocks",), notes=("Disturbed.",), reason="there is no GPU").save(ONE)
    assert run(ONE, TWO, "-o", "page.html")[0] == 0
    text = Path("page.html").read_text()
    for told in ("h100: A first look", "h100: Not measured yet: blocks.", "h100: Disturbed.", "h100: there is no GPU"):
        assert told in text
    assert "h200: A first look" not in text and "h200: there is no GPU" not in text


def test_reproductions_without_names_are_numbered() -> None:
    text = page([made(1.0), made(2.0), made(None)])
    assert all(f'<span class="options">{at}</span>' in text for at in (1, 2, 3)) and "3: no GPU" in text


@pytest.mark.parametrize(
    ("other", "told"),
    [(made(1.0, report="s2"), "reproduces s2, and h100/s1/results.json reproduces s1: only those of one report")],
)
def test_reproductions_that_do_not_go_together_are_one_line(other: Reproduction, told: str, run: Any) -> None:
    other.save(TWO)
    Path("page.html").write_text("the old page")
    code, out, err = run(ONE, TWO, "-o", "page.html", "--overwrite")
    assert (code, out) == (2, "") and err.startswith(f"warpladder: {TWO}: ") and told in err and err.count("\n") == 1
    assert Path("page.html").read_text() == "the old page"
    with pytest.raises(ResultsError, match=r"^2: "):
        page([made(1.0), other])


def test_a_page_is_of_one_kind_of_files(run: Any) -> None:
    example().save("climb.json")
    for words, told in (
        ((ONE, "climb.json"), f"climb.json: is a climb, and {ONE} is a reproduced report"),
        (("climb.json", ONE), f"climb.json: is a climb, and {ONE} is a reproduced report"),
        ((str(PROFILE), ONE), f"{PROFILE}: is a profile, and {ONE} is a reproduced report"),
        ((ONE, ONE), f"{ONE}: is named twice"),
        ((ONE, TWO, "-o", TWO, "--overwrite"), f"{TWO}: is what the command works with"),
    ):
        code, out, err = run(*words)
        assert (code, out) == (2, "") and told in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda tree: tree.update(schema=0), "has schema 0, this warpladder reads 1: reproduce the report again"),
        (lambda tree: tree.update(schema=2), "has schema 2, this warpladder reads 1"),
        (lambda tree: tree.update(schema=True), "has schema True"),
        (lambda tree: tree.pop("schema"), "has schema None"),
        (lambda tree: tree.pop("machine"), "machine is missing"),
        (lambda tree: tree.update(author="me"), "'author' is not a field"),
        (lambda tree: tree.update(sections="none"), "sections wants a list, got 'none'"),
        (lambda tree: tree["sections"][0]["tables"][0]["rows"][0].update(values=[]), "wants 1 figures, got 0"),
        (
            lambda tree: tree["sections"][0]["tables"][0]["rows"][0]["values"][0].update(here="fast"),
            "wants a number, got 'fast'",
        ),
        (lambda tree: tree["sections"][0]["tables"][0]["columns"][0].update(unit="weeks"), "there is no unit 'weeks'"),
        (lambda tree: tree["sections"][0]["lines"][0]["series"][0].update(x=[1.0]), "wants as many finite x as y"),
        (lambda tree: tree["sections"][0]["bars"][0].update(labels=[]), "want a label for each figure"),
    ],
)
def test_a_reproduction_that_is_none_is_one_line(change: Any, told: str, run: Any) -> None:
    tree = json.loads(Path(TWO).read_text())
    change(tree)
    Path(TWO).write_text(json.dumps(tree))
    code, out, err = run(ONE, TWO, "-o", "page.html")
    assert (code, out) == (2, "") and err.startswith(f"warpladder: {TWO}: ") and told in err and err.count("\n") == 1
    assert not Path("page.html").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"report": "s1", "sections": [', "is not a results file: "),
        (b'{"report": "s1", "sections": NaN}', "NaN is not a number that JSON knows"),
        (b'["report", "sections"]', "is not a results file of a climb"),
        (b'{"report": "annual", "sections": 4}', "has schema None"),
        (b'{"\x80": "report", "sections": 4}', "is not a results file"),
    ],
)
def test_a_damaged_or_foreign_file_is_one_line(content: bytes, told: str, run: Any) -> None:
    Path(TWO).write_bytes(content)
    code, out, err = run(TWO, "-o", "page.html")
    assert (code, out) == (2, "") and err.startswith(f"warpladder: {TWO}: ") and told in err and err.count("\n") == 1


def test_the_network_of_its_pytorch_program_is_that_of_the_findings() -> None:
    own = net_of(definition("s1").nets["s1-pytorch"], "s1-pytorch", (1, 28, 28))
    shown = load_net(Path(__file__).parents[2] / "examples" / "findings" / "s1_pytorch.toml", (1, 28, 28))
    assert own == shown and (own.param_count, cnn().param_count) == (67_530, 50_890)


def test_ratios_are_worked_out_of_a_report_s_own_times(tmp_path: Path) -> None:
    """Where it states one that stands; where it states none, and a column asks for it, its own times give it."""
    column = 'measure = "speedup:epoch_seconds:first" }'
    text = SMALL.replace(column, column.replace(" }", ", worked_out = true }"), 1)
    found = reproduced(tmp_path, text, only=("rows",))
    loops, numpy, cuda, _ = (row.values[1] for row in found.sections[0].tables[0].rows)
    assert loops.reported is None and numpy.reported == 3.5 and cuda.reported == 0.735, "12.5 / 17 in three digits"
    assert cuda.here is None
    with pytest.raises(ConfigError, match="'over the first' is worked out from epoch_seconds, which no column has"):
        parse(
            text.replace(
                'measure = "epoch_seconds" },\n  { head = "over', 'measure = "test_loss" },\n  { head = "over', 1
            ),
            "s9",
        )


def test_a_first_look_says_what_it_left_out(tmp_path: Path) -> None:
    from warpladder.appendix.reproduce import Reproducer

    text = SMALL.replace("[trainings.seeds]", "[trainings.seeds.quick]\nskip = true\n\n[trainings.seeds]", 1)
    found = Reproducer(parse(text, "s9", quick=True), tmp_path, True, None, Watcher()).run(("parts",))
    loops, *_, seeds = found.sections[0].tables[0].rows
    assert loops.reason == "not measured yet" and seeds.reason == "not measured in a first look"


def test_a_first_look_at_some_rungs_says_which_it_left_out(tmp_path: Path) -> None:
    from warpladder.appendix.reproduce import Reproducer

    text = SMALL.replace(
        "[climbs.rows]", '[climbs.rows.quick]\nrungs = ["numpy", "naive"]\nlimit = 100\n\n[climbs.rows]', 1
    )
    found = Reproducer(parse(text, "s9", quick=True), tmp_path, True, None, Watcher()).run(("rows",))
    loops, numpy, cuda, seeds = found.sections[0].tables[0].rows
    assert (
        loops.reason == "not measured in a first look" and loops.rung == "loops" and seeds.reason == "not measured yet"
    )
    assert numpy.reason == "" and cuda.reason not in ("", "not measured in a first look")


def test_times_of_a_first_look_at_trainings_are_scaled_up(tmp_path: Path) -> None:
    """Half of the samples and one epoch of two: a quarter of the work, and half an epoch; curves of seconds reach as
    high, accuracies stay.
    """
    table = "[trainings.seeds]"
    text = SMALL.replace(table, f"[trainings.seeds.quick]\nlimit = 718\nsettings = {{ epochs = 1 }}\n\n{table}", 1)
    report = parse(text, "s9", quick=True)
    report.experiments["seeds"].measure("seeds", Bench(tmp_path, None, report.nets, Watcher()))
    found: Any = report.experiments["seeds"].found("seeds", tmp_path)
    runs = found.trainings.find("numpy")
    seconds = sum(run.seconds for run in runs) / 2
    whole, epoch, accuracy = (
        found.value("numpy", name) for name in ("train_seconds", "epoch_seconds", "test_accuracy")
    )
    assert (
        whole.here == pytest.approx(2 * 1437 / 718 * seconds)
        and whole.scaled
        and whole.least <= whole.here <= whole.most
    )
    assert epoch.here == pytest.approx(1437 / 718 * seconds) and not accuracy.scaled
    assert found.curve("numpy", "seconds")[1] == pytest.approx([1437 / 718 * runs[0].seconds])
    assert found.curve("numpy", "loss")[1] == pytest.approx([runs[0].history.loss[0]])


def test_a_row_names_the_rung_that_gave_its_figures(tmp_path: Path) -> None:
    text = SMALL.replace('here = ["seeds/numpy"]', 'here = ["rows/naive", "seeds/numpy"]')
    assert reproduced(tmp_path, text, only=("seeds",)).sections[0].tables[0].rows[3].rung == "numpy"


def test_figures_of_a_report_keep_their_digits() -> None:
    """Three digits are enough for what is measured anew each time; what a report states stands as it stands there."""
    assert [stated(value, unit) for value, unit in ((159.26, "s"), (2.303, ""), (0.2248, "ms"), (0.9534, "%"), (251.36, "ms"), (None, "s"))] == [
        "159.26", "2.303", "224.8", "95.34", "251,360", "",
    ]  # fmt: skip
    text = page(made(159.2678))
    assert "<b>159</b>" in text and ">23.47<" in text


def test_any_of_several_rungs_trains(tmp_path: Path) -> None:
    """The first that can train here does, for every seed, and no other."""
    text = SMALL.replace(
        'net = "tiny"\ndata = "digits"\nrungs = ["numpy"]',
        'net = "tiny"\ndata = "digits"\nfirst = true\nrungs = ["torch:threads=4096", "numpy", "loops"]',
    )
    report = parse(text, "s9")
    experiment = report.experiments["seeds"]
    experiment.measure("seeds", Bench(tmp_path, None, report.nets, Watcher()))
    found: Any = experiment.found("seeds", tmp_path)
    assert found.whole and {(run.rung, run.seed) for run in found.trainings.runs} == {("numpy", 0), ("numpy", 1)}
    assert found.value("torch:threads=4096", "test_accuracy") is None and found.value("loops", "test_accuracy") is None


def test_a_name_of_a_rung_breaks_between_its_options() -> None:
    parts = "torch", ":device=cuda", ":loader=yes"
    assert rung_in_a_row("".join(parts)) == "".join(f'<span class="option">{part}</span>' for part in parts)
