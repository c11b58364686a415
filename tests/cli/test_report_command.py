"""`warpladder report`: pages of stored results, one line for each kind of file that is none, and nothing lost."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from climbs import example

from warpladder.cli import main
from warpladder.errors import ResultsError
from warpladder.results.profiled import Profile

PROFILE = Path(__file__).parents[2] / "benchmarks" / "h200" / "profiles" / "mlp-gemm.json"


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("before", "after"):
        Path(name).mkdir()
        example().save(Path(name, "results.json"))

    def command(*words):
        code = main(["report", *words])
        out = capsys.readouterr()
        return code, out.out, out.err

    return command


def test_a_page_stands_beside_its_results_or_where_it_is_asked_for(run):
    assert run("before/results.json") == (0, "Open this: before/report.html\n", "")
    assert run("before/results.json", "-o", "page.html")[0] == 0
    assert Path("page.html").read_text() == Path("before/report.html").read_text()
    code, _, err = run("before/results.json")
    assert code == 2 and err.startswith("warpladder: before/report.html: is there already")
    assert run("before/results.json", "--overwrite")[0] == 0


def test_several_are_compared_under_the_names_that_tell_them_apart(run):
    assert run("before/results.json", "after/results.json", str(PROFILE), "-o", "page.html")[0] == 0
    text = Path("page.html").read_text()
    assert (
        "<h2>Comparison</h2>" in text
        and "<h2>before: mlp on mnist</h2>" in text
        and "<h2>after: mlp on mnist</h2>" in text
    )
    assert "gemm: " in text and "thin_forward" in text


def test_the_folder_of_a_climb_is_answered_with_its_file(run):
    code, out, err = run("before", "-o", "page.html")
    assert (code, out) == (2, "")
    assert err == "warpladder: before: Is a directory: name the results in it, before/results.json\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.json", None, "No such file or directory"),
        ("folder.json", b"/", "Is a directory"),
        ("page.html", b"<!doctype html>", "is not a results file: it is a page (HTML or XML): name the results.json"),
        ("empty.json", b" \n", "is not a results file: it is empty"),
        ("words.txt", b"rung,seconds\n", "is not a results file: it is other text, for JSON begins with {"),
        ("bytes.bin", b"\x80\x81", "is not a results file: its bytes are not UTF-8 text"),
        ("newer.json", b'{"schema": 99}', "has schema 99, this warpladder reads 1: run the climb again"),
        ("other.json", b'{"cells": []}', "is not a results file of a climb: it has no schema"),
        ("profile.json", b'{"schema": 1, "step_seconds": -1}', "net is missing"),
        ("cut.json", b'{"schema": 1, "created": "2026', "is not a results file: "),
    ],
)
def test_what_is_no_results_file_is_one_line_and_costs_no_page(name, content, message, run):
    Path("page.html").write_text("the old page")
    if content == b"/":
        Path(name).mkdir()
    elif content is not None and name != "page.html":
        Path(name).write_bytes(content)
    elif content is not None:
        name = "foreign.html"
        Path(name).write_bytes(content)
    code, out, err = run("before/results.json", name, "-o", "page.html", "--overwrite")
    assert (
        (code, out) == (2, "") and err.startswith(f"warpladder: {name}: ") and message in err and err.count("\n") == 1
    )
    assert Path("page.html").read_text() == "the old page"


def test_a_page_never_takes_the_place_of_what_it_is_made_from(run):
    whole = Path("before/results.json").read_bytes()
    code, _, err = run("before/results.json", "-o", "before/results.json", "--overwrite")
    assert code == 2 and "is what the command works with" in err and Path("before/results.json").read_bytes() == whole
    assert "is named twice" in run("before/results.json", "before/results.json")[2]
    assert "a page wants a results file too" in run(str(PROFILE))[2]


def test_profiles_come_back_with_peaks_that_are_not_known(tmp_path):
    found = Profile.load(PROFILE)
    found.save(tmp_path / "profile.json")
    assert Profile.load(tmp_path / "profile.json") == found
    unknown = replace(found, bytes_per_second=float("nan"))
    unknown.save(tmp_path / "profile.json")
    text = (tmp_path / "profile.json").read_text()
    assert '"bytes_per_second": null' in text
    back = Profile.parse(text.encode())
    assert (
        back.bytes_per_second != back.bytes_per_second
        and replace(back, bytes_per_second=found.bytes_per_second) == found
    )
    with pytest.raises(ResultsError, match="NaN is not a number that JSON knows"):
        Profile.parse(text.replace("null", "NaN", 1).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"step_seconds": 0},
        {"samples": 0},
        {"flops_per_second": 1e300},
        {"memory": {"a": -1}},
        {"parts": [1]},
        {"more": 1},
    ],
)
def test_a_damaged_profile_is_one_typed_line(change, run):
    tree = {"schema": 1, **json.loads(json.dumps(asdict(Profile.load(PROFILE))))} | change
    Path("p.json").write_text(json.dumps(tree))
    code, _, err = run("before/results.json", "p.json", "-o", "page.html")
    assert (
        code == 2 and err.startswith("warpladder: p.json: ") and err.count("\n") == 1 and not Path("page.html").exists()
    )
