"""Rungs from files: proven, timed, profiled and trained with as the ladder's own; and what each kind of wrong file
says.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import ROOT, code

import warpladder as wl
from warpladder.device.emulator import why_not
from warpladder.errors import RungError
from warpladder.ladder import LADDER, PEERS, find, load, outside
from warpladder.nets import mlp
from warpladder.results import load as load_results
from warpladder.timing.profile import FOREIGN, WHOLE, profile

pytestmark = pytest.mark.usefixtures("small_climbs")

PAGE = ROOT / "docs" / "own-rung.md"
MINE, KERNEL, OPTIONS, MODULE, _ = code(PAGE, "python")
HEAD = "from warpladder.ladder import Rung\n"
SMALL = ["--data", "digits", "--limit", "150", "--epochs", "1", "--batch-size", "64"]


@pytest.fixture(autouse=True)
def in_a_folder_with_the_page_s_rung(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)


# The page's rung, and wrong ones.


def test_the_rung_of_the_page_is_proven_timed_and_weighed(run):
    code, out, err = run("climb", "mlp10", *SMALL, "--rungs", "numpy,./mine.py", "--repeats", "1", "--out", "found")
    assert (code, err) == (0, ""), out
    results = load_results("found/results.json")
    assert [rung.name for rung in results.timed()] == ["numpy", "mine"]
    mine = results.rungs[1]
    assert mine.check is not None and mine.check.passed and mine.same_bits is not False and not mine.peer
    assert (
        mine.peak_rss_bytes is not None
        and mine.held_bytes is not None
        and mine.held_bytes["parameters"] == 4 * results.net.parameters
    )
    assert mine.test_accuracy == results.rungs[0].test_accuracy
    assert "--rungs numpy,./mine.py" in results.command


@pytest.mark.slow
def test_the_module_of_the_page_is_a_peer_and_a_wrong_one_is_refused(run):
    pytest.importorskip("torch")
    Path("module.py").write_text(MODULE)
    Path("wrong.py").write_text(MODULE.replace("relu(", "silu(").replace("mine-in-torch", "wrong"))
    words = ("--rungs", "./module.py,./wrong.py", "--repeats", "1", "--out", "found")
    assert run("climb", "mlp10", *SMALL, *words)[0] == 1
    mine, wrong = load_results("found/results.json").rungs
    assert mine.status == "timed" and mine.peer and mine.check is not None and mine.check.passed
    assert wrong.status == "failed" and wrong.reason.startswith("loss of the batch is off by")
    reason = load("module.py").unsupported(mlp((1, 8, 8)), wl.TrainConfig())
    assert reason == "its parameter inner.weight has shape (10, 64), and 1.weight of net 'mlp' has (256, 64)"
    assert "has 4 parameters, net 'softmax' has 2" in str(
        load("module.py").unsupported(wl.nets.softmax((1, 8, 8)), wl.TrainConfig())
    )


def changes() -> list[tuple[str, str, str]]:
    """What the page changes in its rung, and what the proof then says: figures left out, since they depend on the sums
    of the machine's BLAS.
    """
    said = {
        "np.float32(n)": ("np.float32(batch)", "update of 3.")
    }  # its weight or its bias: which is further off depends on BLAS too
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| `(.+)` \| `(.+)` \| `(.+?)`", line):
            old, new, words = match.groups()
            said[old] = new, re.split(r" [\d.]+e-|, the reference \d|: the log has \d| \d updates", words)[0]
    return [(old, *rest) for old, rest in said.items()]


@pytest.mark.parametrize(("old", "new", "words"), changes(), ids=[f"{old} to {new}" for old, new, _ in changes()])
def test_each_wrong_rung_of_the_page_fails_by_the_check_that_the_page_names(old, new, words):
    assert MINE.count(old) >= 1
    Path("wrong.py").write_text(MINE.replace(old, new))
    config = wl.TrainConfig(batch_size=64, learning_rate=0.01)
    verdict = wl.verify(load("wrong.py").build, mlp((1, 8, 8)), config, dataset=wl.data.load("digits"))
    assert not verdict.passed
    assert verdict.reason.startswith(words), verdict.reason


def test_the_page_changes_five_things():
    assert len(changes()) == 5


@pytest.mark.slow
def test_a_climb_says_which_check_a_planted_gradient_error_fails(run):
    Path("wrong.py").write_text(MINE.replace("np.float32(n)", "np.float32(batch)").replace('"mine"', '"wrong"'))
    code, out, _ = run("climb", "mlp10", *SMALL, "--rungs", "./mine.py,./wrong.py", "--repeats", "1", "--out", "found")
    assert code == 1
    mine, wrong = load_results("found/results.json").rungs
    assert (mine.status, wrong.status, wrong.timing) == ("timed", "failed", None)
    assert re.match(r"update of \d\.(weight|bias) is off by .*, step \d, batch of \d+", wrong.reason), wrong.reason
    assert "wrong: update of" in out


def test_profile_times_whole_steps_and_shows_what_the_trainer_says(run):
    code, out, _ = run("profile", "mlp10", "--data", "digits", "--rung", "./mine.py")
    assert code == 0
    said = " ".join(out.split())
    assert "mlp10 on the mine rung" in said and FOREIGN in said and "gradients" in said
    assert "'warpladder climb' with --rungs ./mine.py proves" in said


def test_profile_shows_spans_and_says_where_memory_is_unknown(run):
    spans = '    def spans(self):\n        return {"warm up": 0.25}\n'
    Path("mine.py").write_text(MINE.replace("    def memory(self):", spans + "\n    def held(self):"))
    code, out, _ = run("profile", "mlp10", "--data", "digits", "--rung", "mine.py")
    assert code == 0 and "warm up 0.25 s" in out.replace("250 ms", "0.25 s") and "memory() is empty" in out


def test_rungs_of_the_ladder_are_called_what_they_were():
    data = wl.data.load("digits", limit=50)
    found = profile(find("sklearn"), wl.nets.mlp((1, 8, 8)), data, wl.TrainConfig())
    assert found.reason == WHOLE and not found.parts
    found = profile(find("native"), wl.nets.mlp((1, 8, 8)), data, wl.TrainConfig())
    assert found.parts and found.reason == "" and "compile" in found.spans


def test_a_checkpoint_of_such_a_rung_wants_the_file_again(run):
    trained = ["train", "mlp10", *SMALL, "--rung", "./mine.py", "--checkpoint", "a.safetensors", "--no-progress"]
    assert run(*trained)[0] == 0
    for arguments in (
        ["evaluate", "a.safetensors", "--data", "digits"],
        ["train", "mlp10", *SMALL, "--resume", "a.safetensors"],
    ):
        code, _, err = run(*arguments)
        assert code == 2 and "trained by the rung 'mine', which is none of warpladder's" in err and err.count("\n") == 1
    assert run("evaluate", "a.safetensors", "--data", "digits", "--rung", "./mine.py")[0] == 0
    assert run("evaluate", "a.safetensors", "--data", "digits", "--rung", "numpy")[0] == 0


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.slow
def test_the_kernel_of_the_page_is_proven_and_taken_apart(run):
    Path("linear.cu").write_text(code(PAGE, "cuda")[0])
    Path("kernel.py").write_text(KERNEL)
    status, out, _ = run(
        "climb", "mlp10", *SMALL, "--device", "emulated", "--rungs", "./kernel.py", "--repeats", "1", "--out", "found"
    )
    assert status == 0, out
    (found,) = load_results("found/results.json").rungs
    assert found.name == "my-linear:device=emulated" and found.check is not None and found.check.passed
    config = wl.TrainConfig(batch_size=64)
    told = profile(
        find("kernel.py:device=emulated"), wl.nets.mlp10((1, 8, 8)), wl.data.load("digits", limit=150), config
    )
    assert "my_linear" in {kernel.name for part in told.parts for kernel in part.kernels}


@pytest.mark.slow
def test_the_options_of_the_page_are_a_rungs(run):
    Path("wide.py").write_text(OPTIONS)
    words = ["--rungs", "numpy,./wide.py", "--sweep", "width=1,4", "--epochs", "0", "--repeats", "1", "--out", "wide"]
    assert run("climb", "mlp10", *SMALL, *words)[0] == 0
    assert [rung.name for rung in load_results("wide/results.json").rungs] == ["numpy", "mine:width=1", "mine:width=4"]
    code, out, _ = run(
        "train", "mlp10", *SMALL, "--rung", "./wide.py:width=4:way=short", "--epochs", "1", "--no-checkpoint"
    )
    assert code == 0 and "columns of a thread: 4" in out


def test_the_python_of_the_page_runs(capsys):
    exec(compile(code(PAGE, "python")[-1], PAGE.name, "exec"), {})
    assert capsys.readouterr().out.startswith("True ")


# From Python.


def test_a_file_gives_one_rung_until_it_changes():
    rung = find("./mine.py")
    assert rung is find("mine.py") is load(Path("mine.py"))
    assert rung.path == "./mine.py" and outside(rung)
    Path("mine.py").write_text(MINE.replace('"mine"', '"other"'))
    assert find("./mine.py").name == "other"


def test_rungs_of_the_ladder_are_not_from_outside():
    for rung in LADDER + PEERS:
        assert rung.path is None and not outside(rung)


# Wrong files.

RUNG = 'RUNG = Rung("a", "title", "idea", print)'
WRONG = {
    "no Python": ("RUNG = (", "a.py, line 1: is not Python: "),
    "no RUNG": ("rung = 1", "a.py: defines no RUNG: end it with RUNG = Rung("),
    "a RUNG that is none": ("RUNG = 'numpy'", "a.py: RUNG wants to be a warpladder.ladder.Rung, got str"),
    "an import that is not there": (
        "import triton_of_my_own",
        "a.py, line 1: ModuleNotFoundError: No module named 'triton_of_my_own'",
    ),
    "an error": (HEAD + "x = 1\ny = x / 0\n" + RUNG, "a.py, line 3: ZeroDivisionError"),
    "a Rung without its idea": (HEAD + 'RUNG = Rung("a", "title")', "a.py, line 2: TypeError"),
    "a name that the ladder has": (HEAD + RUNG.replace('"a"', '"numpy"'), "the name 'numpy' is that of a rung or peer"),
    "a name that a peer has": (HEAD + RUNG.replace('"a"', '"torch"'), "the name 'torch' is that of a rung or peer"),
    "a name with a comma": (
        HEAD + RUNG.replace('"a"', '"a,b"'),
        "name wants letters, digits, - and _, at most 40, got 'a,b'",
    ),
    "a name that is none": (HEAD + RUNG.replace('"a"', "3"), "name wants a line of text, got 3"),
    "a title of two lines": (HEAD + RUNG.replace("title", "a\\nb"), "title wants a line of text"),
    "a build that is none": (HEAD + RUNG.replace("print", "None"), "build wants a function, got None"),
    "an unknown precision": (
        HEAD + RUNG.replace("print", "print, precision='fp8'"),
        "precision wants one of fp64, fp32, tf32",
    ),
    "an unknown option": (
        HEAD + RUNG.replace("print", "print, options=('speed',)"),
        "options wants an object of a class derived from warpladder.ladder.Options",
    ),
    "deviations that are text": (
        HEAD + RUNG.replace("print", "print, deviations='none'"),
        "deviations wants a tuple of texts",
    ),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_one_line(run, text, words):
    Path("a.py").write_text(text)
    for arguments in (
        ["climb", "mlp10", *SMALL, "--rungs", "numpy,./a.py"],
        ["train", "mlp10", *SMALL, "--rung", "a.py"],
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "") and err.startswith("warpladder: ") and err.count("\n") == 1 and words in err, err


@pytest.mark.parametrize(
    ("path", "words"),
    [("./none.py", "./none.py: No such file"), ("./", "./: a rung of your own is a Python file"), ("rungs/mine", "rungs/mine: a rung of your own is")],
)  # fmt: skip
def test_a_path_that_leads_nowhere_is_named(path, words):
    with pytest.raises(RungError, match=words):
        find(path)


def test_a_file_without_its_ending_is_meant():
    with pytest.raises(RungError, match=r"there is no rung 'mine': did you mean the file, ./mine.py\?"):
        find("mine")
    Path("numpy.py").write_text("raise RuntimeError")
    assert find("numpy").path is None


def test_functions_of_a_rung_that_fail_name_their_line(run):
    Path("mine.py").write_text(
        MINE.replace(
            "    if net.loss != CrossEntropyLoss()", "    net.loss.nothing\n    if net.loss != CrossEntropyLoss()"
        )
    )
    code, _, err = run("climb", "mlp10", *SMALL, "--rungs", "mine.py")
    assert code == 2 and re.match(
        r"warpladder: mine.py, line \d+: AttributeError: 'CrossEntropyLoss' object has no attribute 'nothing'\n", err
    ), err


def test_a_trainer_that_lacks_a_method_is_one_line(run):
    Path("mine.py").write_text(MINE.replace("def predict(", "def predicted("))
    code, _, err = run("train", "mlp10", *SMALL, "--rung", "mine.py", "--no-progress")
    assert (
        code == 2
        and err.startswith("warpladder: mine.py: TypeError: Can't instantiate abstract class Mine")
        and "predict" in err
    ), err


def test_a_rung_that_does_not_know_a_net_says_so(run):
    code, _, err = run("climb", "cnn", *SMALL, "--rungs", "mine.py")
    assert code == 2 and "mine cannot train cnn here: it knows perceptrons only" in err


def test_a_trainer_that_fails_is_a_failed_row_and_no_end_of_the_climb(run):
    Path("mine.py").write_text(MINE.replace("self.update(order.n)", "self.update()"))
    code, _, _ = run("climb", "mlp10", *SMALL, "--rungs", "mine.py,numpy", "--repeats", "1", "--out", "found")
    assert code == 1
    mine, numpy = load_results("found/results.json").rungs
    line = MINE[: MINE.index("self.update(order.n)")].count("\n") + 1
    assert (mine.status, numpy.status) == ("failed", "timed")
    assert (
        f"raised TypeError in mine.py, line {line}: Mine.update() missing 1 required positional argument" in mine.reason
    ), mine.reason
