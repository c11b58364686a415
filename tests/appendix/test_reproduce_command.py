"""`warpladder reproduce`: several reports and the page of all of them, stops, full disks, and what is typed wrong."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path

import pytest

from warpladder.appendix.reproduce import definition as real
from warpladder.appendix.reproduce.definition import parse
from warpladder.appendix.reproduce.kinds.trained import Trainings
from warpladder.appendix.reproduce.results import Reproduction
from warpladder.cli import main
from warpladder.machine import facts as machine
from warpladder.train import train

pytestmark = pytest.mark.usefixtures("small_climbs")

TEXT = """
title = "Report NAME"
about = "A report that is none."
headline = ["Scores", "NumPy", "accuracy"]

[trainings.seeds]
net = "softmax"
data = "DATA"
rungs = ["numpy"]
settings = { epochs = 1, batch_size = 64 }
seeds = [0, 1]

[trainings.other]
net = "softmax"
data = "DATA"
rungs = ["numpy"]
settings = { epochs = 1, batch_size = 32 }

[[sections]]
title = "Scores"

[[sections.tables]]
title = "Scores"
heads = ["program"]
columns = [{ head = "epoch", unit = "ms", measure = "epoch_seconds" }, { head = "accuracy", unit = "%", measure = "test_accuracy" }]
rows = [
  { label = ["smaller batches"], reported = [7, 95], here = "other/numpy" },
  { label = ["NumPy"], reported = [12.5, 91.25], here = "seeds/numpy" },
]
"""


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Three reports that take a second: s3 wants a data set that has to be downloaded. In a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("warpladder.appendix.reproduce.NAMES", ("s1", "s2"))

    def definition(name, *, quick=False):
        if name not in ("s1", "s2", "s3"):
            return real(name, quick=quick)
        return parse(
            TEXT.replace("NAME", name).replace("DATA", "mnist" if name == "s3" else "digits"), name, quick=quick
        )

    monkeypatch.setattr("warpladder.appendix.reproduce.definition", definition)


@pytest.fixture(autouse=True)
def is_undisturbed(monkeypatch):
    """Nothing is measured twice because another process runs meanwhile."""
    monkeypatch.setattr("warpladder.appendix.reproduce.reproducer.DISTURBED", math.inf)


def typed(capsys, *words):
    """The exit code, and what was said; without the new line that click begins where Ctrl-C was typed."""
    code = main(["reproduce", *words])
    out, err = capsys.readouterr()
    return code, out, err.removeprefix("\n")


def stopping(monkeypatch, at, stop):
    """Let training number `at`, counted from 1, be stopped."""
    made: list[None] = []

    def counted(*arguments, **settings):
        made.append(None)
        if len(made) == at:
            stop()
        return train(*arguments, **settings)

    monkeypatch.setattr("warpladder.appendix.reproduce.kinds.trainings.train", counted)
    return made


def interrupt():
    raise KeyboardInterrupt


def test_all_reports_and_the_page_of_them(capsys, monkeypatch):
    code, out, err = typed(capsys, "all", "--out", "o")
    assert (code, err) == (0, "") and "All reports: o/report.html" in out
    page = Path("o/report.html").read_text()
    for name in ("s1", "s2"):
        assert (
            f'href="{name}/report.html"' in page
            and Path("o", name, "report.html").exists()
            and f"Report {name}" in page
        )
        found = Reproduction.load(f"o/{name}/results.json")
        accuracy = found.sections[0].tables[0].rows[1].values[1].here
        assert accuracy is not None and f"<b>{100 * accuracy:.2f}</b> %" in page and "91.25 %" in page
    assert page.count("accuracy: NumPy") == 2 and page.count("2 of 2 experiments") == 2
    trained = stopping(monkeypatch, 0, interrupt)
    code, out, err = typed(capsys, "all", "--out", "o")
    assert (code, err, trained) == (0, "", []), "what is measured is not measured again"
    assert "Report s2" in out, "but it is shown"


def test_one_report_stands_on_the_page_beside_those_of_before(capsys):
    assert typed(capsys, "S2", "--out", "o", "--only", "other")[0] == 0
    page = Path("o/report.html").read_text()
    assert "s2/report.html" in page and "1 of 2 experiments" in page and "s1/report.html" not in page
    assert "epoch: smaller batches" in page, (
        "where the headline is not measured, the first figure beside the report's stands for it"
    )
    assert typed(capsys, "s1", "--out", "o", "--only", "other")[0] == 0
    page = Path("o/report.html").read_text()
    assert page.index("s1/report.html") < page.index("s2/report.html")


def test_the_list_measures_nothing(capsys):
    for words in (("--list",), ("all", "--list"), ("s1", "s2", "--list", "--quick")):
        code, out, err = typed(capsys, *words)
        assert (code, err) == (0, "") and "s1: Report s1" in out and "seeds" in out and "s2: Report s2" in out
    assert "s2" not in typed(capsys, "s1", "--list")[1]
    assert not list(Path().iterdir())


@pytest.mark.parametrize("at", [1, 2, 3, 4, 6], ids=lambda at: f"training {at}")
def test_ctrl_c_keeps_what_was_measured_and_the_same_command_goes_on(capsys, monkeypatch, at):
    """Six trainings in all: the second seed of s1 is the second, s2 begins with the fourth."""
    with monkeypatch.context() as patched:
        stopping(patched, at, interrupt)
        code, out, err = typed(capsys, "all", "--out", "o")
    assert code == 130 and err == "warpladder: stopped: the same command goes on: warpladder reproduce all --out o\n"
    assert f"Open this: o/{'s1' if at < 4 else 's2'}/report.html" in out, "what there is is shown"
    assert (
        "s2/report.html" in Path("o/report.html").read_text()
        if at > 3
        else "not begun yet" in Path("o/report.html").read_text()
    )
    kept = {path: path.read_text() for path in Path("o").glob("*/measured/*.json")}
    runs = sum(len(Trainings.load(path).runs) for path in kept)
    assert runs == at - 1
    trained = stopping(monkeypatch, 0, interrupt)
    assert typed(capsys, "all", "--out", "o")[0] == 0 and len(trained) == 6 - runs
    for path, text in kept.items():
        before, after = json.loads(text)["runs"], json.loads(path.read_text())["runs"]
        assert after[: len(before)] == before, "what was measured before is kept to the digit"
    assert all(not Reproduction.load(f"o/{name}/results.json").missing for name in ("s1", "s2"))


def test_sigterm_is_a_stop_too(capsys, monkeypatch):
    stopping(monkeypatch, 2, lambda: os.kill(os.getpid(), signal.SIGTERM))
    code, _, err = typed(capsys, "s1", "--out", "o", "--only", "seeds")
    assert (
        code == 143
        and err == "warpladder: stopped: the same command goes on: warpladder reproduce s1 --out o --only seeds\n"
    )


def test_ctrl_c_between_reports_and_before_the_first_experiment(capsys, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("warpladder.appendix.reproduce.report.terminal.show", lambda found, out: interrupt())
        code, _, err = typed(capsys, "all", "--out", "o")
    assert code == 130 and err.count("\n") == 1 and "goes on" in err
    assert not Reproduction.load("o/s1/results.json").missing and not Path("o/s2").exists()
    with monkeypatch.context() as patched:
        patched.setattr(machine, "facts", lambda *_: interrupt())
        code, _, err = typed(capsys, "all", "--out", "o")
    assert code == 130 and err.count("\n") == 1 and "goes on" in err
    assert typed(capsys, "all", "--out", "o")[0] == 0 and not Reproduction.load("o/s2/results.json").missing


@pytest.mark.parametrize("most", [100, 1500, 4000], ids=lambda most: f"{most} bytes")
def test_a_full_disk_is_one_line_and_loses_nothing(capsys, monkeypatch, most):
    """The operating system refuses in the middle of a file: of what is measured, of the results, or of a page."""
    resource = pytest.importorskip("resource")
    assert typed(capsys, "s1", "--out", "o", "--only", "other")[0] == 0
    before = {path: path.read_bytes() for path in Path("o").rglob("*.json")}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        code, _, err = typed(capsys, "all", "--out", "o")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert code == 2 and err.count("\n") == 1, err
    assert (
        "o/" in err
        and "File too large: what was measured before is stored" in err
        and err.endswith("goes on: warpladder reproduce all --out o\n")
    )
    assert not list(Path("o").rglob("*.tmp"))
    assert all(path.read_bytes() == content for path, content in before.items() if path.parent.name == "measured")
    for path in Path("o").rglob("measured/*.json"):
        Trainings.load(path)
    Reproduction.load("o/s1/results.json")
    trained = stopping(monkeypatch, 0, interrupt)
    assert typed(capsys, "all", "--out", "o")[0] == 0 and len(trained) < 6
    assert not Reproduction.load("o/s1/results.json").missing


def test_a_place_that_cannot_be_written_is_one_line(capsys):
    Path("file").write_text("mine")
    code, _, err = typed(capsys, "all", "--out", "file")
    assert code == 2 and err.count("\n") == 1 and "file/s1" in err and Path("file").read_text() == "mine"
    code, _, err = typed(capsys, "s1", "--out", "/proc/nowhere")
    assert code == 2 and err.count("\n") == 1 and "/proc/nowhere" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a report, s1 to s5, or all"),
        (("s7",), "there is no report 's7'; there are s1, s2, s3, s4, s5"),
        (("all", "s7"), None),
        (("s1", "--only", "rows"), "s1 has no experiment 'rows'; it has seeds, other"),
        (("s1", "--only", "seeds,rows"), "s1 has no experiment 'rows'"),
        (("s1", "--only", " , "), "--only names no experiment"),
        (("all", "--only", "seeds"), "--only wants one report"),
        (("s1", "s2", "--only", "seeds"), "--only wants one report"),
        (("s3", "--data-dir", "empty"), "empty"),
        (("s3", "--data-dir", "nowhere"), "nowhere"),
    ],
)
def test_what_is_typed_wrong_is_one_line(capsys, words, said):
    Path("empty").mkdir()
    code, _, err = typed(capsys, *words, "--out", "o")
    if said is None:
        assert code == 0, "all is all, whatever stands beside it"
        return
    assert code == 2 and err.count("\n") == 1 and said in err and err.startswith("warpladder: "), err


def test_a_report_without_its_data_stops_no_other(capsys, monkeypatch):
    monkeypatch.setattr("warpladder.appendix.reproduce.NAMES", ("s3", "s1"))
    Path("empty").mkdir()
    code, _, err = typed(capsys, "all", "--out", "o", "--data-dir", "empty")
    assert code == 2 and err.splitlines()[0].startswith("warpladder: s3: ") and "empty" in err.splitlines()[0]
    assert err.splitlines()[1:] == ["warpladder: 1 of 2 reports could not be reproduced, for the reasons above: s3"]
    assert not Reproduction.load("o/s1/results.json").missing
    assert "s1/report.html" in Path("o/report.html").read_text()


def test_a_wrong_name_overwrites_nothing_and_only_overwrites_its_own(capsys, monkeypatch):
    assert typed(capsys, "s1", "--out", "o")[0] == 0
    every = {path: path.read_bytes() for path in Path("o").rglob("*") if path.is_file()}
    assert typed(capsys, "s1", "--out", "o", "--overwrite", "--only", "typo")[0] == 2
    assert {path: path.read_bytes() for path in Path("o").rglob("*") if path.is_file()} == every
    trained = stopping(monkeypatch, 0, interrupt)
    assert typed(capsys, "s1", "--out", "o", "--overwrite", "--only", "seeds")[0] == 0 and len(trained) == 2
    assert Path("o/s1/measured/other.json").read_bytes() == every[Path("o/s1/measured/other.json")]
    assert typed(capsys, "s1", "--out", "o", "--overwrite")[0] == 0 and len(trained) == 5


def test_a_damaged_report_is_said_on_the_page_and_left_alone(capsys):
    Path("o/s2").mkdir(parents=True)
    Path("o/s2/results.json").write_text("{")
    code, _, err = typed(capsys, "s2", "--out", "o")
    assert code == 2 and err.count("\n") == 1 and "o/s2/results.json" in err and "remove it, and the same" in err
    assert typed(capsys, "s1", "--out", "o")[0] == 0
    page = Path("o/report.html").read_text()
    assert "is not a results file" in page and "s1/report.html" in page and Path("o/s2/results.json").read_text() == "{"


def test_nobody_reads_the_tables_any_more(capsys, monkeypatch):
    def show(found, out):
        raise BrokenPipeError

    monkeypatch.setattr("warpladder.appendix.reproduce.report.terminal.show", show)
    assert typed(capsys, "s1", "--out", "o", "--only", "other")[::2] == (0, "")
    assert Path("o/s1/report.html").exists() and Reproduction.load("o/s1/results.json").measured == ("other",)
