"""`warpladder climb` as a user meets it: rows early, a table however it ends, files that say what they are."""

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from climbs import example

from warpladder.cli import group, main
from warpladder.cli.shared.climb_record import folder
from warpladder.errors import ResultsError
from warpladder.results import load
from warpladder.results.sweep import Sweep
from warpladder.timing import proof_cache

pytestmark = pytest.mark.usefixtures("small_climbs")

SMALL = ["--data", "digits", "--limit", "200", "--epochs", "1", "--batch-size", "32"]
CLIMB = ["climb", "mlp10", *SMALL, "--rungs", "numpy", "--repeats", "1", "--budget", "0.1"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WARPLADDER_DATA", raising=False)
    monkeypatch.setattr(proof_cache.PROOFS, "place", lambda: tmp_path / "proofs")


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
    assert (
        err
        == "warpladder: found holds another climb (results.json): name another folder with --out, or replace it with --overwrite\n"
    )
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
    monkeypatch.setattr("warpladder.results.stored.write_atomically", disk)
    monkeypatch.setattr("warpladder.results.report.page.write_atomically", disk)
    code, out, err = run(*CLIMB, "--out", "found")
    assert code == 2
    _, title, table = out.partition("mlp10 on digits")
    assert title and "an epoch" in table  # the sentence below the table, in as many lines as it takes
    lines = err.splitlines()
    assert len(lines) == 2
    assert lines[0] == "found cannot be written (No space left on device): the climb goes on, and its table comes here"
    assert lines[1] == "warpladder: found/results.json: No space left on device"


def test_a_folder_that_is_removed_meanwhile_is_made_again(run, monkeypatch):
    """A rung from outside may remove whatever its user may."""

    def removes(*arguments: Any, found: Any, **options: Any) -> Any:
        shutil.rmtree("found")
        found(example(), None)
        shutil.rmtree("found")
        return example()

    monkeypatch.setattr("warpladder.timing.run_climb", removes)
    code, _, err = run(*CLIMB, "--out", "found")
    assert (code, err) == (1, ""), "the example holds a rung that failed"
    assert load("found/results.json").timed() and Path("found/report.html").exists()


@pytest.mark.slow
def test_a_reader_that_leaves_costs_the_table_and_not_the_files(tmp_path):
    """`warpladder climb ... | head -1`."""
    program = f'"{sys.executable}" -c "import sys; from warpladder.cli import main; sys.exit(main())"'
    climb = shlex.join([*CLIMB, "--repeats", "3", "--out", "found"])
    done = subprocess.run(
        ["bash", "-c", f"{program} {climb} | head -1"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("numpy ") and done.stderr == ""
    assert [rung.name for rung in load(tmp_path / "found" / "results.json").timed()] == ["numpy"]
    assert (tmp_path / "found" / "report.html").exists()


def test_an_error_nobody_foresaw_keeps_its_traceback_and_what_was_found(monkeypatch, capsys):
    def breaks(*arguments: Any, found: Any, **options: Any) -> None:
        found(example(stopped="nobody foresaw this, timing numpy"), None)
        raise KeyError("nobody foresaw this")

    monkeypatch.setattr("warpladder.timing.run_climb", breaks)
    with pytest.raises(KeyError):
        main([*CLIMB, "--out", "found"])
    assert "This climb did not come to its end: nobody foresaw this" in " ".join(capsys.readouterr().out.split())
    assert load("found/results.json").stopped == "nobody foresaw this, timing numpy"


def test_rungs_that_cannot_train_here_are_not_counted_among_those_without_a_time(monkeypatch, capsys):
    there = example()

    def stops(*arguments: Any, found: Any, **options: Any) -> None:
        found(example(stopped="stopped, timing numpy"), None)
        raise KeyboardInterrupt

    monkeypatch.setattr("warpladder.timing.run_climb", stops)
    assert main([*CLIMB, "--out", "found"]) == 130
    can_train = [rung for rung in there.rungs if rung.status != "unsupported"]
    assert len(can_train) < len(there.rungs)
    assert (
        f"the climb was stopped: {len(there.timed())} of {len(can_train)} rungs have a time" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("signum", "code"),
    [
        (signal.SIGINT, 130),
        *(
            pytest.param(signum, code, marks=pytest.mark.slow)
            for signum, code in ((signal.SIGTERM, 143), (signal.SIGKILL, -9))
        ),
    ],
    ids=lambda each: str(each),
)
def test_a_climb_that_is_stopped_leaves_a_file_and_a_page_that_say_so(signum, code, tmp_path):
    program = [sys.executable, "-c", "import sys; from warpladder.cli import main; sys.exit(main())"]
    climb = [*program, "climb", "mlp10", *SMALL, "--rungs", "loops,numpy", "--repeats", "100000", "--out", "found"]
    found, page = tmp_path / "found" / "results.json", tmp_path / "found" / "report.html"
    with subprocess.Popen(climb, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 120
            while (
                process.poll() is None
                and time.monotonic() < deadline
                and not (found.exists() and load(found).timed() and page.exists())
            ):
                time.sleep(0.05)
            process.send_signal(signum)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code, err
    results, html, stopped = load(found), page.read_text(), load(found).stopped
    assert results.timed() and stopped
    assert stopped.startswith("still under way when this was written, " if signum == signal.SIGKILL else "stopped, ")
    told = (
        stopped if signum != signal.SIGKILL else "still under way when this was written, "
    )  # the page is written after the file
    assert f"This climb did not come to its end: {told}" in html
    assert sorted(path.name for path in found.parent.iterdir() if path.name[0] != ".") == [
        "report.html",
        "results.json",
    ]
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
        "cnn --data mnist --peers all",
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
    asked: list[Any] = []

    def climb(task: Any, rungs: Any, settings: Any, **options: Any) -> Any:
        asked.append(settings)
        return example()

    monkeypatch.setattr("warpladder.timing.run_climb", climb)
    run("climb", "mlp", "--data", "digits", "--quick")
    run("climb", "mlp", "--data", "digits", "--quick", "--repeats", "4", "--budget", "1")
    run("climb", "mlp", "--data", "digits", "--no-kept")
    told = [(each.quick, each.repeats, each.budget, each.kept) for each in asked]
    assert told == [(True, 2, 0.5, True), (True, 4, 1.0, True), (False, 5, 1.0, False)]
    assert all(path.is_dir() for path in Path("runs").iterdir())


# What is trained, swept


SWEEP = [
    "climb",
    "mlp10",
    *SMALL[:4],
    "--epochs",
    "1",
    "--rungs",
    "loops,numpy",
    "--repeats",
    "1",
    "--budget",
    "0.05",
    "--quick",
]


def test_a_sweep_of_what_is_trained_has_a_task_for_each_combination(run):
    words = ["--sweep", "batch_size=32,full", "--sweep", "hidden=6,12", "--sweep", "threads=1"]
    code, out, err = run(*SWEEP, *words, "--out", "found")
    assert code == 0, err
    headings = [
        "batch_size=32, hidden=6",
        "batch_size=32, hidden=12",
        "batch_size=full, hidden=6",
        "batch_size=full, hidden=12",
    ]
    lines = out.splitlines()
    for heading in headings:  # once above the rows as they come, once above the table
        assert lines.count(heading) == 2
    assert sum("timed once so far" in line for line in lines) == 8
    assert "All tasks" in out
    assert [out.count(f"mlp10-{width} on digits: 200 samples") for width in (6, 12)] == [2, 2]
    found = Sweep.load("found/results.json")
    assert list(found.headings) == headings and not found.missing
    for (_, results), (batch, hidden) in zip(found.items(), ((32, 6), (32, 12), (None, 6), (None, 12)), strict=True):
        assert results.config["batch_size"] == batch and f"Linear(out_features={hidden})" in results.net.layers
        assert [rung.name for rung in results.rungs] == ["loops", "numpy:threads=1"]
        assert all(rung.status == "timed" and rung.check is not None and rung.check.passed for rung in results.rungs)
        assert sorted(shlex.split(results.command)) == sorted(["warpladder", *SWEEP, *words])
    page = Path("found/report.html").read_text()
    assert all(f"<h2>{heading}</h2>" in page for heading in headings) and page.count("<h2>All tasks</h2>") == 1
    assert all(
        page.count(f"<h2>{part}, {heading}</h2>") == 1 for part in ("Verdicts", "Do it again") for heading in headings
    )
    table = found.table()
    assert "All tasks" in table and all(heading in table.splitlines() for heading in headings)
    with pytest.raises(ResultsError, match=r"holds several tasks: Sweep\.load reads them"):
        load("found/results.json")


@pytest.mark.slow
def test_sweeps_of_samples_rates_and_optimizers_reach_the_training(run):
    words = [
        "--sweep",
        "limit=64,128",
        "--sweep",
        "lr=0.01,0.5",
        "--sweep",
        "optimizer=sgd:momentum=0.9",
        "--sweep",
        "shuffle=no",
        "--sweep",
        "loss-every=2",
    ]
    shorter = [{"loops,numpy": "numpy"}.get(word, word) for word in SWEEP if word not in ("--limit", "200")]
    assert run(*shorter, *words, "--out", "found")[0] == 0
    found = Sweep.load("found/results.json")
    assert found.headings[0] == "limit=64, learning_rate=0.01, optimizer=sgd:momentum=0.9, shuffle=no, loss_every=2"
    seen: Any = [
        (each.data.train, each.config["optimizer"], each.config["shuffle"], each.config["loss_every"])
        for each in found.tasks
    ]
    assert [(n, optimizer["learning_rate"]) for n, optimizer, *_ in seen] == [
        (64, 0.01),
        (64, 0.5),
        (128, 0.01),
        (128, 0.5),
    ]
    assert all(optimizer["momentum"] == 0.9 and (shuffle, every) == (False, 2) for _, optimizer, shuffle, every in seen)


def test_a_file_of_one_task_is_a_sweep_of_one(run, tmp_path):
    assert run(*SWEEP, "--out", "found")[0] == 0
    found = Sweep.load("found/results.json")
    assert found.items() == [("", load("found/results.json"))]
    assert found.table() == load("found/results.json").table()


def test_a_sweep_that_is_stopped_keeps_the_tasks_before(run, monkeypatch):
    import warpladder.timing

    measure: Any = warpladder.timing.run_climb
    count = 0

    def stopped(*what: Any, found: Any, **how: Any) -> Any:
        nonlocal count
        count += 1

        def told(results: Any, news: Any) -> None:
            found(results, news)
            if count == 2 and news is not None:
                raise KeyboardInterrupt

        return measure(*what, found=told, **how)

    monkeypatch.setattr(warpladder.timing, "run_climb", stopped)
    code, out, err = run(*SWEEP, "--sweep", "batch_size=8,16,32", "--out", "found")
    assert code == 130
    assert "the climb was stopped: 3 of 4 rungs have a time, in 2 of 3 tasks" in err
    found = Sweep.load("found/results.json")
    assert found.headings == ("batch_size=8", "batch_size=16", "batch_size=32") and found.missing == ("batch_size=32",)
    first, second = found.tasks
    assert not first.stopped and len(first.timed()) == 2
    assert second.stopped and len(second.timed()) == 1 and second.rungs[0].status == "missing"
    assert (
        "batch_size=32: not reached" in out and "batch_size=32: not reached." in Path("found/report.html").read_text()
    )


def test_a_rung_that_can_train_some_of_the_tasks_is_listed_where_it_cannot(run):
    words = ["--rungs", "numpy,sklearn", "--sweep", "loss_every=1,2"]
    some = [word for word in SWEEP if word not in ("--rungs", "loops,numpy")]
    assert run(*some, *words, "--out", "found")[0] == 0
    first, second = Sweep.load("found/results.json").tasks
    assert first.rungs[1].status in ("timed", "missing") and second.rungs[1].status == "unsupported"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hidden=8,0"], "--sweep hidden wants whole numbers of at least 1, as 256 or 512+256, got '0'"),
        (["batch_size=8,some"], "--sweep batch_size: wants a whole number or 'full', got 'some'"),
        (["learning_rate=0.1,x"], "--sweep learning_rate: 'x' is not a valid float"),
        (["nesterov=maybe"], "--sweep nesterov wants yes or no, got 'maybe'"),
        (["batch_size=8,8"], "--sweep batch_size=8,8 has the value 8 twice"),
        (["seed=1,2", "--sweep", "seed=3"], "seed is swept twice: write all its values in one --sweep"),
        (["limit=10,20"], "limit has an option and a --sweep: leave one of them out"),
        (["layers=1,2"], "none of these rungs has an option 'layers' to be swept; they have precision, threads, sums; what is trained can be swept by"),
        (["batch_size=0"], "batch_size wants a whole number of at least 1, got 0"),
    ],
)  # fmt: skip
def test_a_sweep_that_cannot_be_is_refused_before_anything_is_measured(words, said, run):
    code, out, err = run(*SWEEP, "--sweep", *words, "--out", "found")
    assert (code, out) == (2, "") and said in err
    assert not Path("found").exists()


def test_a_net_without_a_hidden_layer_has_no_width_to_sweep(run):
    code, _, err = run("climb", "softmax", *SWEEP[2:], "--sweep", "hidden=8")
    assert code == 2 and "net 'softmax' has no hidden Linear layer whose width could be set: " in err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"headings": []}, "a sweep wants a heading for each of its climbs, got 0 headings and 2 climbs"),
        ({"headings": ["a", "a"]}, "headings: two are the same"),
        ({"headings": [1, 2]}, r"headings\[0\] wants text, got 1"),
        ({"tasks": []}, "got 2 headings and 0 climbs"),
        ({"tasks": {}}, "tasks wants a list"),
        ({"tasks": [{"schema": 1}, {}]}, r"tasks\[0\]\.\w+ is missing"),
        ({"tasks": [None]}, r"tasks\[0\] wants an object, got None"),
        ({"more": 1}, "'more' is not a field"),
        ({"schema": 2}, "has schema 2, this warpladder reads 1"),
    ],
)
def test_a_damaged_file_of_a_sweep_is_refused(change, said, tmp_path):
    whole = Sweep(1, ("limit=1", "limit=2"), (example(), example(stopped="stopped")))
    whole.save(tmp_path / "whole.json")
    assert Sweep.load(tmp_path / "whole.json") == whole
    tree = json.loads((tmp_path / "whole.json").read_text()) | change
    with pytest.raises(ResultsError, match=said):
        Sweep.parse(json.dumps(tree).encode())


@pytest.mark.parametrize(
    ("words", "peers"),
    [([], ["torch", "sklearn", "jax"]), (["--no-peers"], []), (["--peers", "none"], []), (["--peers", "all"], None)],
)
def test_a_climb_without_names_takes_the_ladder_and_the_peers_that_are_wanted(words, peers, monkeypatch, run):
    from warpladder.ladder import LADDER, PEERS

    taken: list[Any] = []

    def climb(task: Any, rungs: Any, settings: Any, **options: Any) -> Any:
        taken.append(([rung.name for rung in rungs], settings.seconds))
        return example()

    monkeypatch.setattr("warpladder.timing.run_climb", climb)
    monkeypatch.setattr("warpladder.timing.choice._can_train", lambda rung, net, config: "device" not in rung.name)
    assert run("climb", "mlp", "--data", "digits", *words)[0] == 1, "the example has a rung that failed"
    wanted = [rung.name for rung in PEERS] if peers is None else peers
    ladder = [rung.name for rung in LADDER]
    ((names, seconds),) = taken
    images = {"torch:images=last": "torch"}
    assert (
        names[: len(ladder)] == ladder
        and [images.get(name, name) if peers else name for name in names[len(ladder) :]] == wanted
    )
    assert (seconds < 150) == (peers is not None), "all the peers take as long as they take"


def test_peers_that_are_wanted_and_not_are_refused(run):
    code, _, err = run("climb", "mlp", "--data", "digits", "--no-peers", "--peers", "all")
    assert code == 2 and "--no-peers contradicts --peers all: leave one of them out" in err
