"""What people type and hand over by mistake, all over the product: one line that names what, where and what to do, and
never a traceback.
"""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from runs import CNN, CONFIG, MLP, data

import warpladder as wl
from warpladder.checkpoint import flat_weights
from warpladder.cli import group, main
from warpladder.errors import DivergedError, WarpladderError

pytestmark = pytest.mark.usefixtures("small_climbs")

DIGITS = ["--data", "digits", "--limit", "200"]
ONE = [*DIGITS, "--epochs", "1"]
TRAIN, CLIMB, PREDICT = (
    ["train", "mlp10", *ONE],
    ["climb", "mlp10", *ONE, "--rungs", "numpy"],
    ["predict", "c.safetensors"],
)

ROWS = b"\n".join([b"1" + b",0" * 64] * 3) + b"\n"
KERNEL = b"__global__ void k(float *a) { a[0] = 1; }\n"

#: Files that lie in the folder where the commands run.
FILES: dict[str, bytes] = {
    "ok.csv": ROWS,
    "word.csv": ROWS + b"1,zero" + b",0" * 63 + b"\n",
    "latin.csv": ROWS + b"1,\xe4" + b",0" * 63 + b"\n",
    "utf16.csv": ROWS.decode().encode("utf-16"),
    "semicolons.csv": ROWS + ROWS.replace(b",", b";"),
    "large.csv": ROWS + b"1,256" + b",0" * 63 + b"\n",
    "ragged.csv": ROWS + b"1,2,3\n",
    "narrow.csv": b"1,2,3\n",
    "empty.csv": b"",
    "header.csv": b"label" + b",p" * 64 + b"\n",
    "picture.csv": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "cut.csv.gz": gzip.compress(ROWS * 100)[:50],
    "text.safetensors": b"not a checkpoint",
    "model.pt": b"PK\x03\x04" + bytes(26) + b"model/data.pkl\x80\x02}.",
    "utf16.cu": KERNEL.decode().encode("utf-16"),
    "empty.cu": b"",
    "ok.cu": KERNEL,
    "half.json": b'{"schema": 1',
}

#: What is typed: (arguments, words of the line).
TYPED: dict[str, tuple[list[str], str]] = {
    "no such command": (["trian"], "'trian'"),
    "no such option": ([*TRAIN, "--epoch", "3"], "--epoch"),
    "no net": (["train", *ONE], "NET"),
    "a net mistyped": (["train", "cmn", *ONE], "'cmn'"),
    "a set mistyped": (["train", "mlp", "--data", "minst"], "there is no data set 'minst': did you mean 'mnist'?"),
    "a rung mistyped": ([*TRAIN, "--rung", "nativ"], "there is no rung 'nativ': did you mean 'native' or 'naive'? 'warpladder rungs' lists all"),
    "a rung that there never was": ([*TRAIN, "--rung", "elevator"], "there is no rung 'elevator': 'warpladder rungs' lists all"),
    "a rung of a climb mistyped": ([*CLIMB[:-1], "numpy,Nativ"], "did you mean 'native'"),
    "a rung of a profile mistyped": (["profile", "mlp10", *DIGITS, "--rung", "nmupy"], "did you mean 'numpy' or 'cupy'?"),
    "a rung of a prediction mistyped": ([*PREDICT, "ok.csv", "--rung", "lops"], "did you mean 'loops'?"),
    "a file of a net that is not there": (["train", "--net", "no.toml", *ONE], "no.toml: there is no such file"),
    "a file of a rung that is not there": ([*TRAIN, "--rung", "./no.py"], "./no.py: No such file or directory"),
    "a set to fetch mistyped": (["data", "--fetch", "minst"], "there is no data set 'minst'"),
    "no file to predict": (["predict"], "CHECKPOINT"),
    "an empty batch": ([*TRAIN, "--batch-size", "0"], "batch_size wants a whole number of at least 1, got 0"),
    "a batch in words": ([*TRAIN, "--batch-size", "ten"], "'ten'"),
    "a negative rate": ([*TRAIN, "--lr", "-1"], "learning_rate wants a finite number of at least 0, got -1.0"),
    "an endless rate": ([*TRAIN, "--lr", "inf"], "learning_rate"),
    "a rate in words": ([*TRAIN, "--lr", "fast"], "'fast' is not a valid float"),
    "a momentum that grows": ([*TRAIN, "--momentum", "1.5"], "momentum wants a number below 1, got 1.5"),
    "nesterov without momentum": ([*TRAIN, "--nesterov"], "nesterov needs a momentum"),
    "an optimizer mistyped": ([*TRAIN, "--optimizer", "adma"], "there is no optimizer 'adma': did you mean 'adam'"),
    "an optimizer of a climb mistyped": ([*CLIMB, "--optimizer", "lion"], "there is no optimizer 'lion': there are adam, adamw, rmsprop, sgd"),
    "a setting that the optimizer has not": ([*TRAIN, "--optimizer", "adam:momentum=0.9"], "Adam has no momentum; it has learning_rate, betas, eps"),
    "a momentum for adam": ([*TRAIN, "--optimizer", "adam", "--momentum", "0.9"], "Adam has no momentum; it has learning_rate, betas"),
    "a setting of the optimizer without a value": ([*TRAIN, "--optimizer", "adam:eps"], "settings of the optimizer are written as in"),
    "betas in words": ([*TRAIN, "--optimizer", "adam:betas=high"], "betas wants two numbers"),
    "a rate twice": ([*TRAIN, "--optimizer", "adam:learning_rate=1", "--lr", "2"], "learning_rate of the optimizer is given twice"),
    "a schedule mistyped": ([*TRAIN, "--schedule", "cosin"], "there is no schedule 'cosin': did you mean 'cosine'"),
    "a schedule of a profile mistyped": (["profile", "mlp10", *DIGITS, "--schedule", "up"], "there is no schedule 'up': there are constant, cosine"),
    "a warm-up that is none": ([*TRAIN, "--schedule", "cosine:warmup=soon"], "warmup wants a finite number of at least 0, got 'soon'"),
    "a resume with another optimizer": ([*TRAIN, "--resume", "c.safetensors", "--optimizer", "adam"], "the optimizer is SGD there and Adam here; its weights"),
    "no threads": ([*TRAIN, "--threads", "0"], "threads wants a whole number of at least 1"),
    "a thousand threads": ([*TRAIN, "--threads", "1000"], "threads is 1000, and this process may use"),
    "a thousand threads of a climb": ([*CLIMB, "--threads", "1000"], "threads is 1000, and this process may use"),
    "a thousand threads of a profile": (["profile", "mlp10", *DIGITS, "--threads", "1000"], "threads is 1000, and this process may use"),
    "epochs in powers": ([*TRAIN, "--epochs", "1e3"], "'1e3' is not a valid integer"),
    "negative epochs": ([*TRAIN, "--epochs", "-1"], "epochs wants a whole number of at least 0"),
    "epochs without end": ([*TRAIN, "--epochs", "99999999999999999999"], "epochs must be below 2^31"),
    "a limit of nothing": ([*TRAIN, "--limit", "0"], "limit must be 1 to 1,437"),
    "a validation set of more than there is": ([*TRAIN, "--validation", "9999"], "validation must be 0 to 1,437"),
    "every batch dropped": ([*TRAIN, "--drop-last", "--batch-size", "201"], "drop_last leaves out every sample: batch_size is 201"),
    "every batch of a climb dropped": ([*CLIMB, "--drop-last", "--batch-size", "201"], "drop_last leaves out every sample"),
    "a device that is none": ([*TRAIN, "--device", "gpu"], "'gpu'"),
    "a block that is no warp": ([*TRAIN, "--rung", "naive", "--block-size", "33"], "block_size wants a multiple of 32 from 32 to 1024, got 33"),
    "a block for a rung without": ([*TRAIN, "--block-size", "64"], "rung 'numpy' has no choice of block_size"),
    "a library's op that is none": ([*TRAIN, "--rung", "library:operations=relu"], "operations wants some of linear, conv2d, cross_entropy"),
    "a rung's option given to the command": ([*TRAIN, "--feed", "streamed"], "No such option"),
    "an option that the rung has not": ([*TRAIN, "--rung", "loops:threads=2"], "rung 'loops' has no option 'threads': it has precision"),
    "an option without a value": ([*TRAIN, "--rung", "naive:feed"], "options are written as in 'naive:block_size=512:feed=streamed'"),
    "a sweep without values": ([*CLIMB, "--sweep", "threads"], "--sweep wants an option and its values, as block_size=128,256,512"),
    "a sweep of what no rung has": ([*CLIMB, "--sweep", "speed=1,2"], "none of these rungs has an option 'speed' to be swept"),
    "a sweep of nonsense": ([*CLIMB, "--sweep", "threads=one"], "threads wants a whole number of at least 1, got 'one'"),
    "a seed below 0": ([*TRAIN, "--seed", "-1"], "seed wants a whole number of at least 0"),
    "a seed of 33 bits": ([*TRAIN, "--seed", "4294967296"], "seed must be below 2^32"),
    "a shape for digits": ([*TRAIN, "--shape", "1x8x8"], "the shape of its samples is known"),
    "a shape that is none": ([*TRAIN, "--shape", "3xx"], "'3xx'"),
    "a checkpoint in no folder": ([*TRAIN, "--checkpoint", "no/c"], "there is no folder"),
    "a checkpoint that is a folder": ([*TRAIN, "--checkpoint", "folder"], "checkpoint 'folder' is a folder"),
    "a checkpoint over a table": ([*TRAIN, "--checkpoint", "ok.csv"], "'ok.csv' is there already"),
    "a checkpoint and none": ([*TRAIN, "--checkpoint", "x", "--no-checkpoint"], "--no-checkpoint keeps nothing"),
    "a checkpoint every 0 steps": ([*TRAIN, "--checkpoint-every", "0"], "checkpoint_every wants a whole number of at least 1"),
    "a resume of nothing": ([*TRAIN, "--resume", "no"], "there is no checkpoint 'no'"),
    "a resume of text": ([*TRAIN, "--resume", "text.safetensors"], "'text.safetensors' is plain text, which holds no weights"),
    "a resume with another rate": ([*TRAIN, "--resume", "c.safetensors", "--lr", "0.5"], "its weights can begin a new run with settings of its own: --from FILE"),
    "a resume on other samples": (["train", "mlp10", "--data", "digits", "--limit", "199", "--resume", "c.safetensors"], "200 samples there"),
    "a resume and new weights": ([*TRAIN, "--resume", "c.safetensors", "--from", "c.safetensors"], "give one of them"),
    "weights of nothing": ([*TRAIN, "--from", "no"], "there is no checkpoint 'no'"),
    "weights of another net": (["train", "mlp", *ONE, "--from", "c.safetensors"], "does not fit net 'mlp': 1.weight is (10, 64), not (256, 64)"),
    "weights in a pickle": ([*TRAIN, "--from", "model.pt"], "'model.pt' is a file of torch.save, a pickle, which can run anything when it is read"),
    "a table that is not there": ([*PREDICT, "no.csv"], "no.csv: cannot be opened"),
    "arrays that are not there": ([*PREDICT, "no.npy"], "no.npy: cannot be opened (No such file or directory): check the"),
    "an image that is not there": ([*PREDICT, "no.png"], "no.png: cannot be opened (No such file or directory): check the"),
    "a table that is a folder": ([*PREDICT, "folder"], "folder: holds no images"),
    "a word among numbers": ([*PREDICT, "word.csv"], "word.csv: line 4, column 2: 'zero' is not a whole number 0 to 255"),
    "a table in Latin-1": ([*PREDICT, "latin.csv"], "latin.csv: line 4, column 2"),
    "a table in UTF-16": ([*PREDICT, "utf16.csv"], "utf16.csv: looks like text in UTF-16 (save it as UTF-8)"),
    "a table with semicolons from a line on": ([*PREDICT, "semicolons.csv"], "semicolons.csv: line 4 has 1 cell where the lines before it have 65"),
    "a pixel of 256": ([*PREDICT, "large.csv"], "large.csv: line 4, column 2: '256'"),
    "a short line": ([*PREDICT, "ragged.csv"], "ragged.csv: line 4 has 3 cells where the lines before it have 65"),
    "samples of another size": ([*PREDICT, "narrow.csv"], "narrow.csv: holds samples of 3 pixels, the net takes 1 x 8 x 8"),
    "an empty table": ([*PREDICT, "empty.csv"], "empty.csv: is empty"),
    "a table without rows": ([*PREDICT, "header.csv"], "header.csv: has a header but no rows"),
    "a picture": ([*PREDICT, "picture.csv"], "picture.csv: looks like a PNG image"),
    "a table cut short": ([*PREDICT, "cut.csv.gz"], "cut.csv.gz: truncated gzip"),
    "a submission over the checkpoint": ([*PREDICT, "ok.csv", "--submission", "c.safetensors", "--overwrite"], "c.safetensors: is what the command works with"),
    "a submission over the input": ([*PREDICT, "ok.csv", "--submission", "ok.csv", "--overwrite"], "ok.csv: is what the command works with"),
    "a submission over another file": ([*PREDICT, "ok.csv", "--submission", "word.csv"], "word.csv: is there already: name another file, or insist"),
    "a submission in no folder": ([*PREDICT, "ok.csv", "--submission", "no/s.csv"], "no/s.csv: there is no folder no"),
    "outputs and labels in one file": ([*PREDICT, "ok.csv", "--submission", "s", "--save", "s"], "s: is what the command works with"),
    "a score without labels": (["evaluate", "c.safetensors", "--data", "csv"], "give the folder that holds train.csv and test.csv"),
    "a score on an empty folder": (["evaluate", "c.safetensors", "--data", "csv", "--data-dir", "folder"], "folder: holds no train.csv and test.csv"),
    "a folder that is a file": (["evaluate", "c.safetensors", "--data", "csv", "--data-dir", "ok.csv"], "ok.csv: is a file, not a folder"),
    "a climb of no rounds": ([*CLIMB, "--repeats", "0"], "repeats wants a whole number of at least 1"),
    "a climb in no time": ([*CLIMB, "--budget", "0"], "budget wants seconds above 0"),
    "a climb of nothing": ([*CLIMB[:-1], ","], "--rungs wants names"),
    "a climb of one rung twice": ([*CLIMB[:-1], "numpy,numpy"], "got numpy twice"),
    "a climb into a file": ([*CLIMB, "--out", "ok.csv"], "ok.csv"),
    "a profile over a file": (["profile", "mlp10", *DIGITS, "--out", "ok.csv"], "ok.csv: is there already"),
    "products over a file": (["gemm", "--out", "ok.csv", "--device", "emulated", "--size", "4"], "ok.csv: is there already"),
    "products of size 0": (["gemm", "--size", "0"], "--size wants whole numbers from 1, got 0"),
    "a kernel file that is not there": (["check", "no.cu"], "no.cu"),
    "a kernel file in UTF-16": (["check", "utf16.cu"], "utf16.cu is not a text file in UTF-8: save it as one"),
    "a kernel file without kernels": (["check", "empty.cu"], "empty.cu has no kernels"),
    "a folder of kernels": (["check", "folder"], "folder: Is a directory"),
    "a grid of four axes": (["check", "ok.cu", "--grid", "1,1,1,1", "--block", "32", "--arg", "a=9"], "grid of kernel k wants one to three numbers, got 4"),
    "a GPU mistyped": (["metrics", "ok.cu", "--grid", "1", "--block", "32", "--arg", "a=9", "--gpu", "H1000"], "no GPU 'H1000': did you mean 'H100'?"),
    "a new file without its kind": (["new", "linear.forward"], "write 'kernel' before the operation, got 'linear.forward'"),
    "a new file of nothing": (["new"], "name the operation, as warpladder new kernel linear.forward: there are linear, "),
    "a new kernel of nothing": (["new", "kernel"], "name the operation, as warpladder new kernel linear.forward: there"),
    "arrays of another shape": ([*PREDICT, "narrow.npy"], "narrow.npy: x has shape (3, 4), net 'mlp10' takes"),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of every kind, and a checkpoint."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "folder").mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    np.save(folder / "narrow.npy", np.zeros((3, 4)))
    assert main([*TRAIN, "--checkpoint", str(folder / "c.safetensors"), "--no-progress"]) == 0
    return folder


@pytest.mark.parametrize("case", TYPED)
def test_what_is_typed_by_mistake(
    place: Path, case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.delenv("WARPLADDER_DATA", raising=False)
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    arguments, words = TYPED[case]
    code, (out, err) = main(arguments), capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("warpladder: ") and words in err and len(err) < 400
    assert {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()} == before


def images(shape: tuple[int, ...], most: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(0).random(shape) * most).astype(np.float32)


LABELS = np.arange(20) % 3

#: What is handed over in Python: (what is called, words of the line).
CALLED: dict[str, tuple[Callable[[], Any], str]] = {
    "half an epoch": (lambda: setting(epochs=0.5), "epochs wants a whole number of at least 0, got 0.5"),
    "a setting mistyped": (lambda: wl.TrainConfig().but(lr=0.1), "there is no setting 'lr'"),
    "a rate that is text": (lambda: setting(learning_rate="0.1"), "learning_rate wants a finite number"),
    "a layer of nothing": (lambda: wl.Linear(out_features=0), "out_features"),
    "a window larger than the image": (
        lambda: wl.Net("n", (1, 4, 4), (wl.Conv2d(out_channels=2, kernel_size=9), wl.Flatten(), wl.Linear(out_features=3)), wl.CrossEntropyLoss()),
        "layer 0",
    ),
    "a net of nothing": (lambda: wl.Net("n", (1, 4, 4), (), wl.CrossEntropyLoss()), "n"),
    "a linear layer on images": (lambda: wl.Net("n", (1, 4, 4), (wl.Linear(out_features=3),), wl.CrossEntropyLoss()), "Flatten"),
    "a set mistyped": (lambda: wl.data.load("digit"), "did you mean 'digits'?"),
    "channels last": (lambda: wl.data.arrays(images((20, 8, 8, 3)), LABELS, images((5, 8, 8, 3)), LABELS[:5]), "looks like NHWC"),
    "channels last, against the net": (
        lambda: wl.train(wl.nets.cnn((3, 32, 32), 3), wl.Dataset("mine", images((20, 32, 32, 3)), LABELS.astype(np.int32), images((5, 32, 32, 3)), None)),
        "net 'cnn' takes samples of shape (3, 32, 32), mine has (32, 32, 3): looks like NHWC",
    ),
    "rows of classes": (lambda: wl.data.arrays(images((20, 8)), np.eye(20), images((5, 8)), None), "not one-hot rows"),
    "fewer labels than samples": (lambda: wl.data.arrays(images((20, 8)), LABELS[:7], images((5, 8)), None), "20 train images but 7 labels"),
    "a label below 0": (lambda: wl.Dataset("mine", images((20, 8)), LABELS - 1, images((5, 8)), None), "train label -1 is below 0"),
    "samples that are not numbers": (lambda: wl.data.arrays(np.full((20, 8), "a"), LABELS, images((5, 8)), None), "must be numbers"),
    "samples that are not finite": (lambda: wl.data.arrays(images((20, 8)) / 0 * np.float32(0), LABELS, images((5, 8)), None), "not finite"),
    "parts of two types": (lambda: wl.data.arrays(images((20, 8)), LABELS, np.zeros((5, 8), np.uint8), None), "mix bytes and floats"),
    "a net of other samples": (lambda: wl.train(wl.nets.mlp(), data()), "takes samples of shape (1, 28, 28)"),
    "a rung mistyped": (lambda: wl.train(MLP, data(), rung="numpi"), "did you mean 'numpy'?"),
    "a net that no memory holds": (
        lambda: wl.train(wl.Net("vast", (1, 4, 4), (wl.Flatten(), wl.Linear(out_features=10**12), wl.Linear(out_features=3)), wl.CrossEntropyLoss()), data()),
        "net 'vast' has 20,000,000,000,003 parameters",
    ),
    "weights of another net": (lambda: flat_weights(CNN, {"0.weight": np.zeros((3, 1, 3, 3))}), "it lacks '0.bias, 4.weight, 4.bias'"),
    "weights that are whole numbers": (lambda: wl.train(MLP, data(), CONFIG, weights=whole_numbers()), "1.weight holds int64"),
}  # fmt: skip


def setting(**values: Any) -> wl.TrainConfig:
    return wl.TrainConfig(**values)


def whole_numbers() -> dict[str, np.ndarray]:
    return {
        name: np.zeros(array.shape, np.int64)
        for name, array in wl.train(MLP, data(), CONFIG.but(epochs=0)).params.items()
    }


@pytest.mark.parametrize("case", CALLED)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_what_is_handed_over_by_mistake(case: str) -> None:
    call, words = CALLED[case]
    with pytest.raises(WarpladderError) as caught:
        call()
    message = str(caught.value)
    assert words in message and "\n" not in message and len(message) < 400


def test_there_are_enough_of_them() -> None:
    assert len(TYPED) + len(CALLED) > 60


@pytest.mark.parametrize(
    ("layers", "loss", "diverges"),
    [
        ((wl.Linear(out_features=8), wl.ReLU(), wl.Linear(out_features=3)), wl.CrossEntropyLoss(), False),
        ((wl.Linear(out_features=16),), wl.MSELoss(), True),
    ],
    ids=["stands still", "diverges"],
)
def test_a_rate_on_samples_that_nobody_scaled(layers: tuple, loss: Any, diverges: bool) -> None:
    """It is said before training, which may stand still at chance, and again where it diverges."""
    mine = wl.data.arrays(images((60, 16), 255.0), np.arange(60) % 3, images((5, 16), 255.0), None)
    net = wl.Net("net", (16,), layers, loss)
    config = wl.TrainConfig(epochs=20, batch_size=4, learning_rate=0.5)
    words = f"scale the samples, which reach {mine.train_x.max():.4g} and train best about 1 (standardize=True, or scale=0.0039)"
    with (
        pytest.warns(UserWarning, match=re.escape(f"arrays: {words}")) as said,
        pytest.raises(DivergedError) if diverges else nullcontext() as caught,
    ):
        wl.train(net, mine, config)
    assert len(said) == 1
    if caught is not None:
        assert f"; {words}, or lower the learning rate (0.5 now)" in str(caught.value) and "\n" not in str(caught.value)
    scaled = wl.data.arrays(mine.train_x, mine.train_y, mine.test_x, None, scale=1 / 255)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wl.train(net, scaled, config).history


def test_a_byte_order_mark_is_no_mistake(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    marked = [Path("marked.csv"), Path("marked.cu")]
    try:
        for path, content in zip(marked, (ROWS, KERNEL), strict=True):
            path.write_bytes(b"\xef\xbb\xbf" + content)
        plain = (main([*PREDICT, "ok.csv"]), capsys.readouterr())
        assert (main([*PREDICT, "marked.csv"]), capsys.readouterr()) == plain
        assert main(["check", "--list", "marked.cu"]) == 0 and "k(float* a)" in capsys.readouterr().out
    finally:
        for path in marked:
            path.unlink()


# Places that cannot be written


def typed(
    folder: Path, *arguments: str, limit: int | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own; `limit` is the most bytes that a file may have, as on a disk that is full."""

    def full() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit or 0, limit or 0))

    command = [sys.executable, "-c", "import sys; from warpladder.cli import main; sys.exit(main())", *arguments]
    kept = (
        {} if limit is None else {"PYTHONDONTWRITEBYTECODE": "1"}
    )  # Python itself would leave modules behind that are cut short
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | kept | environment,
        capture_output=True,
        text=True,
        preexec_fn=None if limit is None else full,
    )


def test_a_cache_that_cannot_be_written_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As what is compiled without a writable HOME; test_compiled.py has the warning itself."""
    words = "compiled code cannot be kept in /home/me/.cache (Read-only file system): every start compiles it again"
    monkeypatch.setitem(
        group.commands, "warn", click.Command("warn", callback=lambda: warnings.warn(words, stacklevel=1))
    )
    assert (main(["warn"]), *capsys.readouterr()) == (0, "", f"warpladder: {words}\n")


def test_a_full_disk_is_one_line_that_names_the_file(place: Path, tmp_path: Path) -> None:
    for option, name in (("--submission", "labels.csv"), ("--save", "outputs.npy")):
        done = typed(tmp_path, "predict", str(place / "c.safetensors"), str(place / "ok.csv"), option, name, limit=10)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert name in done.stderr and "File too large" in done.stderr and ".tmp" not in done.stderr
        assert not list(tmp_path.iterdir())
    done = typed(tmp_path, *TRAIN, limit=100)
    assert "Test: loss" in done.stdout, "what was trained is shown before it is lost"
    assert (
        done.returncode == 2
        and done.stderr.count("\n") == 1
        and "mlp10.safetensors' could not be written: File too large" in done.stderr
    )
    done = typed(tmp_path, "profile", "mlp10", *DIGITS, "--out", "profile.json", limit=100)
    assert (done.returncode, done.stderr) == (2, "warpladder: profile.json: File too large\n")


def test_a_folder_below_which_nothing_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    done = typed(tmp_path, *TRAIN)
    assert (
        done.returncode == 2
        and done.stderr.count("\n") == 1
        and done.stderr.startswith("warpladder: runs/mlp10-digits-")
    )
    assert (
        "cannot be made" in done.stderr
        and "name a file with --checkpoint, or keep nothing with --no-checkpoint" in done.stderr
    )
    assert typed(tmp_path, *TRAIN, "--no-checkpoint").returncode == 0
