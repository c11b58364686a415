"""The choice of a rung by the amount of work: deterministic, stated, and resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import warpladder as wl
from warpladder.machine.peaks import Peaks
from warpladder.sklearn import MLPClassifier
from warpladder.train import auto
from warpladder.train.auto import Cost, fastest
from warpladder.train.request import RunRequest
from warpladder.train.resolve import resolve


def test_little_work_is_numpys_and_much_is_compiled():
    net = wl.nets.mlp((784,), 10)
    config = wl.TrainConfig(epochs=10, batch_size=64)
    few, reason = fastest(net, config, 80)
    many, other = fastest(net, config, 60_000)
    assert few == "numpy" and many != "numpy"
    assert reason.startswith("below 0.1 s by estimate, cold start included; ") and "numpy about" in other
    assert fastest(net, config, 60_000) == (many, other)


def test_the_estimate_grows_with_each_part_of_the_work():
    net, wide = wl.nets.mlp10((64,), 10), wl.nets.mlp((64,), 10)
    for cost in auto.costs():
        seconds = cost.seconds(net, 10, 1000)
        assert seconds < cost.seconds(net, 20, 1000) and seconds < cost.seconds(net, 10, 2000)
        assert seconds < cost.seconds(wide, 10, 1000) and cost.start < seconds


def test_convolutions_cost_numpy_more():
    cnn = wl.nets.cnn((1, 28, 28), 10)
    numpy, native, *_ = auto.costs()
    assert numpy.seconds(cnn, 0, 1000) > 1000 * cnn.train_flops * numpy.flop
    assert native.seconds(cnn, 938, 60_000) < numpy.seconds(cnn, 938, 60_000)


def of_zeros(share, samples=60_000, features=784):
    """Samples (samples, features) float32, of whose numbers this share is not 0."""
    x = np.zeros((samples, features), np.float32)
    x[:, : round(share * features)] = 0.5
    return x


def test_zeros_that_native_leaves_out_count():
    net, config = wl.nets.mlp((784,), 10), wl.TrainConfig(batch_size=200, optimizer=wl.Adam(1e-3))
    saved = [auto.left_out(net, config, of_zeros(share)) / net.train_flops for share in (0, 0.02, 0.2, 0.33, 0.34, 1)]
    assert saved == pytest.approx([0.85, 0.81, 0.46, 0.21, 0, 0], abs=0.03)  # measured: 0.83, 0.46, 0.22
    native = next(cost for cost in auto.costs() if cost.rung == "native")
    dense, sparse = (native.seconds(net, 3000, 600_000, each * net.train_flops) for each in (0, saved[2]))
    assert native.start < sparse < dense


@pytest.mark.parametrize("net", [wl.nets.softmax((784,), 10), wl.nets.mlp10((784,), 10), wl.nets.cnn((1, 28, 28), 10)])
def test_zeros_count_for_no_thin_first_layer_and_no_convolution(net):
    assert auto.left_out(net, wl.TrainConfig(), of_zeros(0.1, 100).reshape(-1, *net.in_shape)) == 0


def test_zeros_decide_in_training_and_in_the_estimators_alike(monkeypatch):
    net, config = wl.nets.mlp((784,), 10), wl.TrainConfig(batch_size=20, epochs=5)
    work = 5 * 100 * net.train_flops * 1e-6  # between those of 20 % and of dense numbers
    monkeypatch.setattr(auto, "costs", lambda: (Cost("native", 1, 0, 1e-6, 0), Cost("numpy", 1 + 0.75 * work, 0, 0, 0)))
    monkeypatch.setattr(MLPClassifier, "_train", lambda *_: None)
    few, many, y = of_zeros(0.2, 100), of_zeros(0.9, 100), np.arange(100) % 10
    for x, rung in ((few, "native"), (few, "native"), (many, "numpy"), (few + 1, "numpy")):
        assert fastest(net, config, 100, x=x)[0] == rung
        assert resolve(RunRequest(net, wl.data.arrays(x, y, x, y), config)).rung.name == rung
        model = MLPClassifier((256,), max_iter=5, dropout=0.1, batch_size=20).fit(x, y)
        assert model.rung_ == rung
    assert fastest(net, config, 100)[0] == "numpy"  # without samples no zeros are expected


def test_a_rung_that_cannot_train_here_is_no_choice(monkeypatch):
    monkeypatch.setattr(auto, "costs", lambda: (Cost("graph", 0, 0, 0, 0), Cost("numpy", 1, 0, 0, 0)))
    here = wl.ladder.find("graph").unsupported(wl.nets.mlp(), wl.TrainConfig())
    chosen = fastest(wl.nets.mlp(), wl.TrainConfig(), 100)[0]
    assert chosen == ("graph" if here is None else "numpy")


def chain(inputs, *widths):
    found = []
    for width in widths:
        found += [wl.nets.Linear(out_features=width), wl.nets.ReLU()]
    return wl.nets.Net("chain", (inputs,), tuple(found[:-1]), wl.nets.CrossEntropyLoss())


#: Nets of benchmarks/h200/small_chains.json, batch and optimizer.
ON_GPU = {
    "softmax": (wl.nets.softmax((1, 28, 28)), 128, wl.optimizers.SGD(0.1)),
    "mlp": (wl.nets.mlp((1, 28, 28)), 64, wl.optimizers.SGD(0.1)),
    "wide": (chain(784, 512, 512, 512, 10), 256, wl.optimizers.Adam(1e-3)),
    "deep": (chain(784, *[128] * 8, 10), 128, wl.optimizers.Adam(1e-3)),
    "table": (chain(54, 128, 64, 7), 256, wl.optimizers.Adam(1e-3)),
    "three hundred": (chain(37, 100, 100, 100, 3), 100, wl.optimizers.Adam(1e-3)),
}


#: Microseconds of a step of bytes since weights may be in registers, and products on tensor cores:
#: benchmarks/h200/persistent_registers.md and persistent_tensor.md.
SINCE = {
    "softmax": {"graph": 5.62, "persistent": 3.91},
    "mlp": {"graph": 12.68, "persistent": 6.09},
    "wide": {"graph": 92.3, "persistent": 72.7},
}


@pytest.mark.parametrize("name", ON_GPU)
def test_of_graph_and_persistent_the_one_that_was_measured_faster_is_taken(name, monkeypatch):
    monkeypatch.setattr(auto, "_peaks", lambda: Peaks((9, 0), 132, 1.98e9))
    able = [
        replace(rung, unsupported=lambda *_: None) if rung.name in ("graph", "persistent") else rung
        for rung in wl.ladder.LADDER
    ]
    monkeypatch.setattr(wl.ladder, "LADDER", tuple(able))
    net, batch, optimizer = ON_GPU[name]
    config = wl.TrainConfig(batch_size=batch, epochs=20_000, optimizer=optimizer)
    rung, reason = fastest(net, config, 60_000)
    stored = json.loads((Path(__file__).parents[2] / "benchmarks/h200/small_chains.json").read_text())
    times = SINCE.get(name) or {each: row["us"] for each, row in stored["us a step"][name].items()}
    assert rung == min(("graph", "persistent"), key=times.__getitem__)
    for each in ("graph", "persistent"):
        assert each == rung or f"; {each} about " in reason
        cost = next(cost for cost in auto.costs_of(net, config, 60_000) if cost.rung == each)
        assert f"{1e6 * cost.step:.3g} µs a step" in reason
        assert 1e6 * cost.step == pytest.approx(times[each], rel=0.35)
    few, _ = fastest(net, config, 60_000, epochs=3)
    assert few != "persistent"  # its compilation takes longer than the steps save


@pytest.fixture
def native_first(monkeypatch):
    monkeypatch.setattr(auto, "costs", lambda: (Cost("loops", 0, 0, 0, 0), Cost("numpy", 1, 0, 0, 0)))


def test_a_run_names_what_was_taken_and_a_resumed_run_repeats_it(native_first, monkeypatch, tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    data = wl.data.arrays(x, [0, 1] * 10, x, [0, 1] * 10)
    run = resolve(RunRequest("softmax", data, wl.TrainConfig(epochs=1)))
    assert run.rung.name == "loops" and run.reason.startswith("auto: below 0.1 s by estimate")
    wl.train("softmax", data, wl.TrainConfig(epochs=1), checkpoint=tmp_path / "s.safetensors")
    assert wl.load(tmp_path / "s.safetensors").rung == "loops"
    monkeypatch.undo()
    again = resolve(RunRequest("softmax", data, wl.TrainConfig(epochs=2), resume=tmp_path / "s.safetensors"))
    assert again.rung.name == "loops" and again.reason == "it trained the checkpoint"
    assert resolve(RunRequest("softmax", data, rung="numpy")).reason == "requested"
    assert resolve(RunRequest("softmax", data, wl.TrainConfig(epochs=1), rung="auto")).rung.name == "numpy"
