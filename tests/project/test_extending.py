"""What users add from outside of the package, without a change in it, proven by the package's own proof; and a mistake
in each, which the proof finds.

CONTRIBUTING.md leads here: an optimizer is the folder adagrad/, layers are elu/ and sumpool2d/, another way to
compute a layer, in a rung with an option, is blocked.py, a kernel stridedrelu/, a peer tutorial.py, a data set
moons.py.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from adagrad import Adagrad
from elu import ELU
from pages import ROOT, code
from strategies import case
from sumpool2d import SumPool2d

import warpladder as wl
from warpladder.device.emulator import why_not
from warpladder.ladder import find, is_peer, load
from warpladder.nets import Layer, Net, mlp10
from warpladder.optimizers import Optimizer
from warpladder.optimizers.schedules import Schedule
from warpladder.results import Checked
from warpladder.results import load as load_results
from warpladder.timing.profile import profile
from warpladder.timing.profile.floor import backward
from warpladder.timing.proof_cache import ProofCache
from warpladder.timing.task import ClimbTask

pytestmark = pytest.mark.usefixtures("small_climbs")

HERE = Path(__file__).parents[1] / "outside"
RUNGS = [
    "loops",
    "numpy",
    "native",
    "naive:device=emulated",
    "tiled:device=emulated",
    "graph:device=emulated",
    "torch",
    "jax",
]
emulated = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@dataclass(frozen=True)
class Polynomial(Schedule):
    """The rate falls to 0 at the run's end as a power of what is left of it."""

    power: float = 2.0

    @property
    def by_epochs(self) -> bool:
        return True

    def after_warmup(self, rate: float, done: np.ndarray, epochs: float) -> np.ndarray:
        return rate * (1 - done / epochs) ** self.power


Optimizer.known.pop("adagrad")
Schedule.known.pop("polynomial")
LAYERS = {kind.__name__: Layer.known.pop(kind.__name__) for kind in (ELU, SumPool2d)}


@pytest.fixture(autouse=True)
def known(monkeypatch) -> None:
    """Names that other tests, which list them all, do not meet."""
    monkeypatch.setattr(Optimizer, "known", Optimizer.known | {"adagrad": Adagrad})
    monkeypatch.setattr(Schedule, "known", Schedule.known | {"polynomial": Polynomial})
    monkeypatch.setattr(Layer, "known", Layer.known | LAYERS)


@pytest.fixture
def planted(tmp_path, monkeypatch) -> Callable[..., ModuleType]:
    """Makes a package of a folder here with a mistake in one of its files."""

    def make(folder: str, file: str, old: str, new: str) -> ModuleType:
        wrong = tmp_path / f"wrong_{folder}_{abs(hash((file, new)))}"  # a name of its own, as modules are kept by name
        shutil.copytree(HERE / folder, wrong, ignore=shutil.ignore_patterns("__pycache__"))
        text = (wrong / file).read_text()
        assert old in text
        (wrong / file).write_text(text.replace(old, new))
        monkeypatch.syspath_prepend(tmp_path)
        return import_module(wrong.name)

    return make


def refused(name: str, net: Net, config: wl.TrainConfig) -> str:
    """Why the proof does not pass a rung that may train the net."""
    rung = find(name)
    assert rung.unsupported(net, config) is None
    verdict = wl.verify(rung.build, net, config)
    assert not verdict.passed
    return verdict.reason


# An optimizer and a schedule

CONFIG = wl.TrainConfig(batch_size=7, epochs=3, optimizer=Adagrad(0.05), schedule=Polynomial(power=1.5))


#: On emulated rungs an optimizer is the same file: graph by day; naive, tiled and torch in .ci/run.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name.startswith(("naive:", "tiled:", "torch")) else [])
        for name in RUNGS
    ],
)
@pytest.mark.usefixtures("cases_once")
def test_an_optimizer_and_a_schedule_of_one_s_own_are_proven_on_every_rung(name: str) -> None:
    rung, net = find(name), mlp10((1, 8, 8))
    if "emulated" in name and (reason := why_not()):
        pytest.skip(reason)
    if reason := rung.unsupported(net, CONFIG):
        pytest.skip(reason)
    verdict = wl.verify(rung.build, net, CONFIG)
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound


def test_an_optimizer_s_mistake_is_found(planted) -> None:
    wrong = planted("adagrad", "array.py", "term += eps", "term *= 1 + eps")
    config = CONFIG.but(optimizer=wrong.Adagrad(0.05, eps=1e-3))
    assert refused("numpy", mlp10((1, 8, 8)), config).startswith("update of ")


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_schedule_has_the_rates_of_torch_s_of_its_name() -> None:
    import torch

    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    theirs = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=12, power=1.5)
    rates = []
    for _ in range(12):
        rates.append(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()
    assert Polynomial(power=1.5).rates(0.3, 0, 12, steps=4, epochs=3) == pytest.approx(rates, rel=1e-12)
    assert Polynomial(power=2).rates(0.3, 0, 12, steps=4, epochs=3) != pytest.approx(rates, rel=1e-2)


def test_it_trains_resumes_and_is_kept_by_its_name(tmp_path) -> None:
    data = wl.data.load("digits", limit=100)
    config = CONFIG.but(batch_size=16, learning_rate=0.02)
    whole = wl.train("mlp10", data, config, checkpoint=tmp_path / "whole.safetensors")
    again = wl.load(tmp_path / "whole.safetensors")
    assert again.checkpoint.config == config.but(initial="he")
    assert all(np.array_equal(again.state_dict()[name], array) for name, array in whole.state_dict().items())


def test_a_file_that_a_rung_needs_and_that_is_not_there_is_said(tmp_path, monkeypatch) -> None:
    (tmp_path / "halfway").mkdir()
    (tmp_path / "halfway" / "__init__.py").write_text(
        "from dataclasses import dataclass\nfrom warpladder.optimizers import Optimizer\n\n"
        "@dataclass(frozen=True)\nclass Halfway(Optimizer):\n    learning_rate: float = 0.1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import halfway  # type: ignore[import-not-found]

    net = mlp10((1, 8, 8))
    config = wl.TrainConfig(optimizer=halfway.Halfway())
    start = case(net, CONFIG, 1, 9).state
    for name, file in (("numpy", "array.py"), ("loops", "loops.py"), ("native", "loops.py"), ("naive", "step.cu")):
        reason = (
            find(name, device="emulated").unsupported(net, config)
            if name == "naive"
            else find(name).unsupported(net, config)
        )
        if why_not() is None or name != "naive":
            assert reason is not None and file in reason and "Halfway" in reason, reason
    with pytest.raises(wl.WarpladderError, match=r"Halfway.*reference\.py"):
        wl.verify(find("numpy").build, net, config)
    assert start.step >= 0


@dataclass(frozen=True)
class Alone(Optimizer):
    learning_rate: float = 0.1


Optimizer.known.pop("alone")


def test_an_optimizer_in_a_lone_file_is_told_where_it_belongs() -> None:
    told = find("numpy").unsupported(mlp10((1, 8, 8)), wl.TrainConfig(optimizer=Alone()))
    assert (
        told
        == "optimizer Alone stands alone in a file: put it into alone/__init__.py, and array.py next to it, which computes its step here"
    )


# Layers

FLAT = Net(
    "flat", (1, 8, 8),
    (wl.Flatten(), wl.Linear(out_features=9), ELU(0.2), wl.Linear(out_features=7), wl.ReLU(), wl.Linear(out_features=10)),
    wl.CrossEntropyLoss(),
)  # fmt: skip
POOLED = Net(
    "pooled", (1, 8, 8),
    (
        wl.Conv2d(out_channels=3, kernel_size=2), ELU(0.1), SumPool2d(3), wl.Conv2d(out_channels=4, kernel_size=2), wl.ReLU(),
        wl.Flatten(), wl.Linear(out_features=10),
    ),
    wl.CrossEntropyLoss(),
)  # fmt: skip
SGD = wl.TrainConfig(batch_size=32, learning_rate=0.1)


@pytest.mark.parametrize(
    ("net", "name"),
    [
        (POOLED, "loops"), (POOLED, "numpy"), (FLAT, "torch:threads=1"), pytest.param(FLAT, "jax", marks=pytest.mark.pairs),
        pytest.param(FLAT, "naive:device=emulated", marks=emulated), pytest.param(FLAT, "graph:device=emulated", marks=emulated),
    ],
    ids=["loops", "numpy", "torch", "jax", "naive", "graph"],
)  # fmt: skip
@pytest.mark.usefixtures("cases_once")
@pytest.mark.by_day("loops", "numpy", "naive", "torch")
def test_layers_of_one_s_own_are_proven_on_rungs_and_peers(net: Net, name: str) -> None:
    rung = find(name)
    if (reason := rung.unsupported(net, SGD)) and "not installed" in reason:
        pytest.skip(reason)
    assert reason is None
    verdict = wl.verify(rung.build, net, SGD)
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound


@pytest.mark.parametrize(
    ("file", "old", "new", "rung", "words"),
    [
        ("array.py", "xp.exp(", "xp.expm1(", "numpy", "update of 1."),
        ("loops.py", "dy[i] if x[i] > 0.0", "dy[i] if x[i] > 0.5", "loops", "update of 1."),
        ("reference.py", "layer.alpha * np.exp(np.minimum(x, 0)) * dy", "0 * dy", "numpy", "cannot judge: the reference of layer 2, ELU(alpha=0.2), contradicts"),
        ("reference.py", "(np.where(x > 0, dy, layer.alpha * np.exp(np.minimum(x, 0)) * dy),)",
            "()", "numpy", "gives gradients of shapes none, wanted are dx (3, 9)"),
    ],
)  # fmt: skip
def test_a_layer_s_mistake_is_found(planted, file: str, old: str, new: str, rung: str, words: str) -> None:
    wrong = planted("elu", file, old, new).ELU(0.2)
    assert words in refused(rung, Net("wrong", (1, 8, 8), (*FLAT.layers[:2], wrong, *FLAT.layers[3:]), FLAT.loss), SGD)


def test_what_cannot_train_a_layer_says_so() -> None:
    said = {
        name: find(name).unsupported(POOLED, SGD)
        for name in ("native", "naive:device=emulated", "cupy", "jax", "sklearn")
    }
    assert (
        said["native"]
        == "it compiles Linear, Conv2d, ReLU, Tanh, Sigmoid, LeakyReLU, GELU, SiLU, BatchNorm1d, BatchNorm2d, Dropout, MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, "
        "Upsample2d, Flatten, Residual, and has nothing for ELU"
    )
    assert "layer SumPool2d has no cuda.py in its folder" in str(said["naive:device=emulated"])
    assert "layer SumPool2d has no jax.py in its folder" in str(said["jax"])
    assert all(said.values())


def test_a_net_of_such_layers_trains_resumes_predicts_and_is_kept(tmp_path) -> None:
    data, file = wl.data.load("digits", limit=100), tmp_path / "pooled.safetensors"
    whole = wl.train(POOLED, data, SGD.but(epochs=2))
    wl.train(POOLED, data, SGD.but(epochs=1), checkpoint=file)
    resumed = wl.train(POOLED, data, SGD.but(epochs=2), checkpoint=file, resume=file)
    again = wl.load(file)
    assert again.net == POOLED and np.array_equal(again.predict(data.test_x), whole.predict(data.test_x))
    assert all(np.array_equal(resumed.state_dict()[name], array) for name, array in whole.state_dict().items())
    told = profile(find("numpy"), POOLED, data, SGD)
    assert "2 SumPool2d" in {part.name for part in told.parts}
    assert backward(POOLED, range(2, 3), 5).flops == 5 * POOLED.layers[2].flops(POOLED.shapes[2]) == 5 * 3 * 2 * 2 * 9


def test_a_checkpoint_says_which_layers_it_lacks_and_where_they_come_from(tmp_path, monkeypatch) -> None:
    wl.train(POOLED, wl.data.load("digits", limit=50), SGD.but(epochs=0), checkpoint=tmp_path / "a.safetensors")
    monkeypatch.delitem(Layer.known, "ELU")
    with pytest.raises(
        wl.WarpladderError,
        match=r"layer 1: ELU is not one of warpladder's layers but comes from elu: import that first",
    ) as told:
        wl.load(tmp_path / "a.safetensors")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class ReLU(Layer): pass", "warpladder has a layer ReLU: give this one its own name"),
        ("class Sharp(wl.ReLU): pass", "Sharp derives from one of warpladder's layers and would be computed as that layer"),
        ("class Sharp(Layer): pass\nSharp()", "put @dataclass(frozen=True) above class Sharp"),
        ("@dataclass(frozen=True)\nclass Sharp(Layer):\n    a: float = 1.0\nSharp(a='2')", "Sharp(a='2'): wants a finite number"),
        ("@dataclass(frozen=True)\nclass Sharp(Layer):\n    a: tuple = ()\nSharp(a=(1, 2))", "wants a number, a boolean or a text"),
        (
            "@dataclass(frozen=True)\nclass Sharp(Layer):\n    def param_shapes(self, s):\n        return {'weight': s}\n"
            "net = wl.Net('sharp', (3,), (Sharp(),), wl.CrossEntropyLoss())",
            "Sharp has parameters {'weight': (3,)}: a layer has none, or a weight (outputs, ...) with or without a bias (outputs,)",
        ),
        (
            "@dataclass(frozen=True)\nclass Sharp(Layer):\n    pass\nnet = wl.Net('sharp', (8,), (Sharp(), wl.Linear(out_features=2)), wl.CrossEntropyLoss())",
            "layer Sharp stands alone in sharp.py: put it into sharp/__init__.py, and array.py next to it",
        ),
    ],
)  # fmt: skip
def test_a_wrong_layer_is_one_line(tmp_path, text: str, words: str) -> None:
    file = tmp_path / "sharp.py"
    file.write_text(
        f"from dataclasses import dataclass\nimport warpladder as wl\nfrom warpladder.nets import Layer\n{text}\n"
    )
    with pytest.raises(wl.WarpladderError) as told:
        wl.train(
            wl.load_net(file),
            wl.data.arrays(np.ones((9, 8), np.float32), [0, 1, 0] * 3, np.ones((1, 8), np.float32), [0]),
        )
    assert words in str(told.value) and "\n" not in str(told.value)


def test_a_layer_with_parameters_is_proven(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "dense"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from dataclasses import dataclass\nfrom warpladder.nets import Layer\n\n@dataclass(frozen=True)\nclass Dense(Layer):\n    out: int\n"
        "    def out_shape(self, s):\n        return (self.out,)\n"
        "    def param_shapes(self, s):\n        return {'weight': (self.out, s[0]), 'bias': (self.out,)}\n"
        "    def flops(self, s):\n        return 2 * s[0] * self.out\n"
    )
    (folder / "reference.py").write_text(
        "def forward(layer, x, w, b):\n    return x @ w.T + b\n\ndef backward(layer, x, w, dy):\n    return dy @ w, dy.T @ x, dy.sum(axis=0)\n"
    )
    (folder / "array.py").write_text("from warpladder.ops.linear.array import ArrayLinear as OP\n")
    monkeypatch.syspath_prepend(tmp_path)
    from dense import Dense  # type: ignore[import-not-found]

    net = Net("dense", (1, 4, 4), (wl.Flatten(), Dense(out=5), wl.ReLU(), Dense(out=3)), wl.CrossEntropyLoss())
    assert find("torch").unsupported(net, SGD) == "torch.nn has no Dense" if find_spec("torch") else True
    verdict = wl.verify(find("numpy").build, net, SGD)
    assert verdict.passed, verdict.reason


# The command line: a net, a data set and a rung with an option, each from a file

NET = """import warpladder as wl
from sumpool2d import SumPool2d
from elu import ELU


def net(in_shape, classes):
    small = () if len(in_shape) == 1 else (SumPool2d(2), wl.Flatten())
    layers = (*small, wl.Linear(out_features=16), ELU(0.1), wl.Linear(out_features=classes))
    return wl.Net("soft", in_shape, layers, wl.CrossEntropyLoss())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A user's folder: a net, a rung and a data set."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "soft.py").write_text(NET)
    for name in ("blocked.py", "moons.py"):
        shutil.copy(HERE / name, tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_climb_proves_them_together(run, folder) -> None:
    (folder / "peer.py").write_text(
        (folder / "blocked.py").read_text().replace('name="blocked"', 'name="other", peer=True')
    )
    words = [
        "--data",
        "./moons.py",
        "--rungs",
        "numpy,./blocked.py,./peer.py",
        "--sweep",
        "columns=7",
        "--epochs",
        "0",
        "--repeats",
        "1",
    ]
    code, out, err = run("climb", "--net", "soft.py", *words, "--batch-size", "64", "--out", "found")
    assert code == 0, out + err
    found = load_results("found/results.json")
    assert [(rung.name, rung.peer) for rung in found.timed()] == [
        ("numpy", False),
        ("blocked:columns=7", False),
        ("other:columns=7", True),
    ]
    assert found.data.name == "moons" and all(rung.check is not None and rung.check.passed for rung in found.rungs)
    assert all(rung.peak_rss_bytes for rung in found.rungs), "processes of their own know the layers"
    assert "climb soft.py --data ./moons.py --rungs numpy,./blocked.py" in found.command


def test_a_proof_with_something_from_outside_is_never_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path))
    data, passed = wl.data.load("digits", limit=50), Checked(True, 1e-7, 1e-6, "", 1.0)
    for net, config, kept in ((mlp10((1, 8, 8)), SGD, True), (POOLED, SGD, False), (mlp10((1, 8, 8)), CONFIG, False)):
        proofs = ProofCache(ClimbTask(net, data, config, 1, 1, 1.0))
        proofs.store(find("numpy"), passed, False)
        assert (proofs.find(find("numpy")) is not None) is kept


def test_a_rung_s_mistake_is_found(folder) -> None:
    text = (folder / "blocked.py").read_text()
    (folder / "wrong.py").write_text(
        text.replace("x.shape[1], self.columns)", "x.shape[1] - x.shape[1] % self.columns, self.columns)")
    )
    verdict = wl.verify(load("wrong.py").but(columns=7).build, mlp10((1, 8, 8)), SGD)
    assert not verdict.passed and verdict.judged, verdict.reason


def test_commands_know_the_layers_of_a_net_s_file(run, folder, monkeypatch) -> None:
    code, out, _ = run("nets", "--net", "soft.py", "--shape", "1x8x8")
    assert code == 0 and "SumPool2d(kernel_size=2)" in out and "ELU(alpha=0.1)" in out
    small = ["--data", "digits", "--limit", "100", "--epochs", "1", "--no-progress"]
    assert run("train", "--net", "soft.py", *small, "--checkpoint", "a.safetensors")[0] == 0
    for kind in ("ELU", "SumPool2d"):
        monkeypatch.delitem(Layer.known, kind)
    code, _, err = run("evaluate", "a.safetensors", "--data", "digits")
    assert (
        code == 2
        and err.count("\n") == 1
        and "SumPool2d is not one of warpladder's layers but comes from sumpool2d" in err
    ), err
    monkeypatch.setattr(
        Layer, "known", Layer.known | LAYERS
    )  # as the file's imports do in a process that has not run it yet
    assert run("evaluate", "a.safetensors", "--net", "soft.py", "--data", "digits")[0] == 0
    assert (
        run("train", "--net", "soft.py", *small[:4], "--resume", "a.safetensors", "--epochs", "2", "--no-progress")[0]
        == 0
    )


def test_the_layer_and_the_data_set_of_the_pages_work(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if Path(place) != HERE])
    for name in [name for name in sys.modules if name.partition(".")[0] == "elu"]:
        monkeypatch.delitem(sys.modules, name)  # that of tests/elu
    _, _, smooth, *files, _ = code(ROOT / "docs" / "own-net.md", "python")
    (tmp_path / "elu").mkdir()
    for name, text in zip(("__init__.py", "reference.py", "array.py"), files, strict=True):
        (tmp_path / "elu" / name).write_text(text)
    (tmp_path / "smooth.py").write_text(smooth)
    (tmp_path / "moons.py").write_text(code(ROOT / "docs" / "data.md", "python")[-1])
    data = wl.data.load("moons.py")
    net = wl.load_net("smooth.py", data.in_shape, data.classes)
    assert type(net.layers[2]) is not ELU
    verdict = wl.verify(find("numpy").build, net, SGD, dataset=data)
    assert verdict.passed, verdict.reason


# A kernel


@emulated
def test_a_kernel_of_one_s_own_in_a_table_is_proven_and_its_mistake_is_found(tmp_path) -> None:
    config = SGD.but(batch_size=16)
    verdict = wl.verify(load(HERE / "stridedrelu" / "rung.py").but(device="emulated").build, FLAT, config)
    assert verdict.passed, verdict.reason
    wrong = shutil.copytree(HERE / "stridedrelu", tmp_path / "wrong")
    text = (wrong / "relu.cu").read_text()
    (wrong / "relu.cu").write_text(text.replace("y[i] > 0.0f ? dy[i] : 0.0f", "dy[i]"))
    verdict = wl.verify(load(wrong / "rung.py").but(device="emulated").build, FLAT, config)
    assert verdict.reason.startswith("update of "), verdict.reason


@emulated
@pytest.mark.slow
def test_the_checker_passes_a_kernel_and_finds_what_a_proof_may_miss(run, tmp_path) -> None:
    text, both = (HERE / "stridedrelu" / "relu.cu").read_text(), tmp_path / "relu.cu"
    both.write_text(text + text.replace("strided", "wrong").replace("i < count", "i <= count"))
    launch = ["--grid", "2", "--block", "32", "--arg", "x=1000", "--arg", "y=1000:uninitialised", "--arg", "count=1000"]
    assert run("check", str(both), *launch, "--kernel", "strided_relu_forward")[0] == 0
    code, out, _ = run("check", str(both), *launch, "--kernel", "wrong_relu_forward")
    assert code == 1 and "out of bounds" in out, out


# A peer


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_peer_of_one_s_own_is_proven_and_its_mistake_is_found(tmp_path) -> None:
    peer, net = load(HERE / "tutorial.py"), mlp10((1, 8, 8))
    verdict = wl.verify(peer.build, net, SGD)
    assert verdict.passed and is_peer(peer), verdict.reason
    (tmp_path / "wrong.py").write_text(
        (HERE / "tutorial.py").read_text().replace("            self.optimizer.zero_grad()\n", "")
    )
    assert not wl.verify(load(tmp_path / "wrong.py").build, net, SGD).passed


# A data set


def test_a_data_set_from_a_file_is_loaded_shown_and_trained_on(run, folder) -> None:
    data = wl.data.load("./moons.py", limit=100, standardize=True)
    assert (data.name, data.in_shape, data.classes, len(data.train_x)) == ("moons", (2,), 2, 100)
    accuracy = wl.train("mlp10", "./moons.py", wl.TrainConfig(epochs=5, learning_rate=0.5)).test_accuracy
    assert accuracy is not None and accuracy > 0.8
    code, out, _ = run("data", "./moons.py")
    assert code == 0 and "400" in out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("SOURCE = ", "source = ", "mine.py: defines no SOURCE"),
        ('Source("moons"', 'Source("mnist"', "the name 'mnist' is that of a data set"),
        ("label[:400], ", "label[:399], ", "line 16: arrays: 400 train images but 399 labels"),
        ("return arrays", "arrays", "load of SOURCE wants to return a warpladder.Dataset"),
        ("import numpy", "import nunpy", "line 5: ModuleNotFoundError"),
        ("x = (x +", "x = (x * np.nan +", "train samples hold values that are not finite"),
    ],
)  # fmt: skip
def test_a_data_set_s_mistake_is_one_line(run, folder, old: str, new: str, words: str) -> None:
    (folder / "mine.py").write_text((folder / "moons.py").read_text().replace(old, new))
    code, _, err = run("train", "mlp10", "--data", "mine.py", "--epochs", "1")
    assert code == 2 and err.count("\n") == 1 and words in err, err
