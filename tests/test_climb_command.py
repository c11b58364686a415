"""`warpladder climb` as a user meets it: rows early, a table however it ends, files that say what they are."""

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from climbs import example
from warpladder.bench import kept
from warpladder.cli import group, main
from warpladder.cli.record import folder
from warpladder.results import load

SMALL = ["--data", "digits", "--limit", "200", "--epochs", "1", "--batch-size", "32"]
CLIMB = ["climb", "mlp10", *SMALL, "--rungs", "numpy", "--repeats", "1", "--budget", "0.1"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WARPLADDER_DATA", raising=False)
    monkeypatch.setattr(kept, "folder", lambda: tmp_path / "proofs")


def test_a_row_is_there_before_the_table_and_the_table_before_the_files(run):
    code, out, err = run(*CLIMB, "--out", "found", "--progress")
    assert code == 0
    lines = out.splitlines()
    row = next(at for at, line in enumerate(lines) if line.startswith("numpy  ") and "timed once so far" in line)
    title = next(at for at, line in enumerate(lines) if line.startswith("mlp10 on digits"))
    files = next(at for at, line in enumerate(lines) if line.startswith("All of it: "))
    assert row < title < files
    told = err.splitlines()
    assert told[0].startswith("measuring the machine (0 of 4, about ") and told[-1] == "done (4 of 4)"
    assert any(line.startswith("proving numpy (0 of 4, about 5 s left)") for line in told)


def test_another_climb_is_not_overwritten_unless_that_is_asked(run):
    assert run(*CLIMB, "--out", "found")[0] == 0
    before = Path("found/results.json").read_bytes()
    code, out, err = run(*CLIMB, "--out", "found")
    assert (code, out) == (2, "")
    assert err == "warpladder: found holds another climb (results.json): name another folder with --out, or replace it with --overwrite\n"
    assert Path("found/results.json").read_bytes() == before
    assert run(*CLIMB, "--out", "found", "--overwrite")[0] == 0
    assert load("found/results.json").command == load("found/results.json").command.replace(" --overwrite", "")


def test_climbs_that_begin_in_one_second_have_folders_of_their_own():
    with folder(None, "mlp-digits", False) as first, folder(None, "mlp-digits", False) as second:
        assert first != second and first.is_dir() and second.is_dir()


class Full:
    """A disk that takes nothing from the given write on."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def __call__(self, path: Any, text: str) -> None:
        self.count += 1
        if self.count >= self.at:
            raise OSError(28, "No space left on device", str(path))
        Path(path).write_text(text)


@pytest.mark.parametrize("at", [1, 3])
def test_a_full_disk_costs_the_files_and_not_the_table(at, run, monkeypatch):
    disk = Full(at)
    monkeypatch.setattr("warpladder.results.write_whole", disk)
    monkeypatch.setattr("warpladder.report.page.write_whole", disk)
    code, out, err = run(*CLIMB, "--out", "found")
    assert code == 2
    assert "mlp10 on digits" in out and "an epoch" in out.splitlines()[-1]
    lines = err.splitlines()
    assert len(lines) == 2
    assert lines[0] == "found cannot be written (No space left on device): the climb goes on, and its table comes here"
    assert lines[1] == "warpladder: found/results.json: No space left on device"


def test_a_reader_that_leaves_costs_the_table_and_not_the_files(tmp_path):
    """`warpladder climb ... | head -1`."""
    program = f'"{sys.executable}" -c "import sys; from warpladder.cli import main; sys.exit(main())"'
    climb = shlex.join([*CLIMB, "--repeats", "3", "--out", "found"])
    done = subprocess.run(["bash", "-c", f"{program} {climb} | head -1"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("numpy ") and done.stderr == ""
    assert [rung.name for rung in load(tmp_path / "found" / "results.json").timed()] == ["numpy"]
    assert (tmp_path / "found" / "report.html").exists()


def test_an_error_nobody_foresaw_keeps_its_traceback_and_what_was_found(monkeypatch, capsys):
    def breaks(*arguments: Any, found: Any, **options: Any) -> None:
        found(example(stopped="nobody foresaw this, timing numpy"), None)
        raise KeyError("nobody foresaw this")

    monkeypatch.setattr("warpladder.bench.climb", breaks)
    with pytest.raises(KeyError):
        main([*CLIMB, "--out", "found"])
    assert "This climb did not come to its end: nobody foresaw this" in " ".join(capsys.readouterr().out.split())
    assert load("found/results.json").stopped == "nobody foresaw this, timing numpy"


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)], ids=lambda each: str(each)
)
def test_a_climb_that_is_stopped_leaves_a_file_and_a_page_that_say_so(signum, code, tmp_path):
    program = [sys.executable, "-c", "import sys; from warpladder.cli import main; sys.exit(main())"]
    climb = [*program, "climb", "mlp10", *SMALL, "--rungs", "loops,numpy", "--repeats", "100000", "--out", "found"]
    found, page = tmp_path / "found" / "results.json", tmp_path / "found" / "report.html"
    with subprocess.Popen(climb, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < deadline and not (found.exists() and load(found).timed() and page.exists()):
                time.sleep(0.05)
            process.send_signal(signum)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code, err
    results, html, stopped = load(found), page.read_text(), load(found).stopped
    assert results.timed() and stopped
    assert stopped.startswith("still under way when this was written, " if signum == signal.SIGKILL else "stopped, ")
    told = stopped if signum != signal.SIGKILL else "still under way when this was written, "  # the page is written after the file
    assert f"This climb did not come to its end: {told}" in html
    assert sorted(path.name for path in found.parent.iterdir() if path.name[0] != ".") == ["report.html", "results.json"]
    if signum != signal.SIGKILL:
        assert "This climb did not come to its end" in " ".join(out.split()) and "All of it: found/results.json" in out
        assert err.strip() == f"warpladder: the climb was stopped: {len(results.timed())} of 2 rungs have a time"


# The command that repeats it.


@pytest.mark.parametrize(
    "typed",
    [
        "mlp10 --data digits --rungs numpy --lr 0.3 --no-shuffle --drop-last",
        "mlp10 --data csv --data-dir mine --shape 1x2x2 --batch-size full",
        "--net ./own.toml --data digits --rungs numpy,./mine.py --lr 0.2",
        "cnn --data mnist --data-dir ../files --limit 100 --no-peers --quick --no-kept",
    ],
)
def test_do_it_again_repeats_what_was_typed(typed):
    aside = ["--out", "x", "--progress", "--overwrite"]
    context = group.commands["climb"].make_context("climb", [*shlex.split(typed), *aside])
    again = shlex.split(command_of(context))
    assert again[:2] == ["warpladder", "climb"]
    repeated = group.commands["climb"].make_context("climb", again[2:])
    assert repeated.params == context.params | {"out": None, "progress": None, "overwrite": False}


def command_of(context: Any) -> str:
    from importlib import import_module

    return import_module("warpladder.cli.climb")._again(context)


def test_a_table_is_named_even_where_the_environment_named_it(monkeypatch):
    monkeypatch.setenv("WARPLADDER_DATA", "tables")
    context = group.commands["climb"].make_context("climb", ["mlp", "--data", "csv"])
    assert command_of(context) == "warpladder climb mlp --data csv --data-dir tables"


def test_quick_is_a_few_short_repetitions(monkeypatch, run):
    asked: list[dict[str, Any]] = []

    def climb(*what: Any, **options: Any) -> Any:
        asked.append(options)
        return example()

    monkeypatch.setattr("warpladder.bench.climb", climb)
    run("climb", "mlp", "--data", "digits", "--quick")
    run("climb", "mlp", "--data", "digits", "--quick", "--repeats", "4", "--budget", "1")
    run("climb", "mlp", "--data", "digits", "--no-kept")
    told = [(each["quick"], each["repeats"], each["budget"], each["kept"]) for each in asked]
    assert told == [(True, 2, 0.5, True), (True, 4, 1.0, True), (False, 5, 2.0, False)]
    assert all(path.is_dir() for path in Path("runs").iterdir())
