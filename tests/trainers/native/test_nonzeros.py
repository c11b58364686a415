"""Lists of numbers other than 0 in the native trainer: the dense bits, infinities, its proof, and wrong kernels."""

from __future__ import annotations

import importlib
import inspect
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.nets import BatchNorm1d, CrossEntropyLoss, Linear, MSELoss, Net, ReLU, Tanh
from warpladder.nets.params import initial, param_slices
from warpladder.optimizers import SGD, Adam, Optimizer
from warpladder.proof import verify
from warpladder.trainers.base import State
from warpladder.trainers.native import trainer as module
from warpladder.trainers.native.compiler.machine_code import CompiledFunction
from warpladder.trainers.native.kernels.nonzeros import products
from warpladder.trainers.native.kernels.tile_sizes import LISTED
from warpladder.trainers.native.samples import MOST, are_lists
from warpladder.trainers.native.trainer import NativeTrainer

SAMPLES = 50
FEATURES = LISTED + 37  # two blocks, the second of no whole vectors


def perceptron(hidden: int, features: int = FEATURES) -> Net:
    return Net("sparse", (features,), (Linear(out_features=hidden), ReLU(), Linear(out_features=3)), CrossEntropyLoss())


def sparse(as_bytes: bool, features: int = FEATURES, samples: int = SAMPLES, ink: float = 0.2) -> Dataset:
    """Data set of which a share `ink` of the numbers is not 0; one sample is blank, and one is full."""
    random = np.random.default_rng(3)
    size = samples, features
    x = random.integers(1, 256, size, np.uint8) if as_bytes else random.normal(size=size).astype(np.float32)
    x[random.random(x.shape) >= ink] = 0
    x[0], x[-1] = 0, 7
    return Dataset("sparse", x, random.integers(0, 3, samples).astype(np.int32), x[:1], np.zeros(1, np.int32), 1 / 255)


def trained(net: Net, config: TrainConfig, data: Dataset, threads: int, state: State, listed: bool) -> list[np.ndarray]:
    """Weights, slots, losses and predictions after two epochs, by lists or dense."""
    with pytest.MonkeyPatch.context() as patch, NativeTrainer(net, config, state, threads) as trainer:
        patch.setattr(module, "mostly_zeros", lambda x: listed)
        trainer.load(data)
        assert trainer._samples is not None and (trainer._samples["starts"].size > 0) == listed
        logs = [
            trainer.run(Order(5, epoch, len(data.train_x)), 0, config.steps(len(data.train_x))) for epoch in range(2)
        ]
        after = trainer.state()
        out = trainer.predict(data.train_x, data.scale)
        return [after.params, *after.slots.values(), *(log.loss for log in logs), out]


def start(net: Net, config: TrainConfig) -> State:
    return State(initial(net, 1), {name: np.zeros(net.param_count, np.float32) for name in config.optimizer.slots})


@pytest.mark.parametrize("hidden", [16, 64, 112, 144])
@pytest.mark.parametrize(
    "optimizer", [SGD(0.1, weight_decay=0.01), SGD(0.1, momentum=0.9), Adam(0.01)], ids=["sgd", "momentum", "adam"]
)
@pytest.mark.parametrize("as_bytes", [True, False])
@pytest.mark.by_day("True-adam-112", "False-sgd-64")
def test_lists_end_in_the_dense_bits(hidden: int, optimizer: Optimizer, as_bytes: bool) -> None:
    """One panel to nine, samples and panels divided among threads, blocks, a partial last batch, clipped gradients."""
    net, data = perceptron(hidden), sparse(as_bytes)
    plain = TrainConfig(batch_size=7, optimizer=optimizer)
    changed = plain.but(clip_value=1e-3), plain.but(batch_size=20, clip_norm=0.1), plain.but(batch_size=None)
    for config, threads in zip((plain, *changed), (1, 2, 3, 2), strict=True):
        dense, lists = (trained(net, config, data, threads, start(net, config), listed) for listed in (False, True))
        for one, other in zip(dense, lists, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"batch {config.batch_size}, {threads} threads")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.by_day("-inf")
def test_infinite_weights_reach_the_outputs_of_zeros(value: float) -> None:
    """0 times an infinity is NaN, in the forward product and in the gradient."""
    net, data = perceptron(64, FEATURES + 11), sparse(as_bytes=False, features=FEATURES + 11)
    for config in (TrainConfig(batch_size=9), TrainConfig(batch_size=9, optimizer=Adam(0.01))):
        state, last = start(net, config), param_slices(net)[-1]
        for place in (5, net.in_shape[0] * 40 + LISTED + 3, last.start + 1):  # of both blocks, and the last bias
            params = state.params.copy()
            params[place] = value
            dense, lists = (trained(net, config, data, 2, state.but(params=params), listed) for listed in (False, True))
            assert not np.isfinite(dense[0]).all()
            for one, other in zip(dense, lists, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{value} at {place}")


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_infinite_samples_are_as_in_the_dense_product(value: float) -> None:
    net, data = perceptron(48), sparse(as_bytes=False)
    x, config = data.train_x.copy(), TrainConfig(batch_size=10)
    x[30, 2] = value
    changed = Dataset("infinite", x, data.train_y, data.test_x, data.test_y)
    dense, lists = (trained(net, config, changed, 2, start(net, config), listed) for listed in (False, True))
    assert not np.isfinite(dense[0]).all()
    for one, other in zip(dense, lists, strict=True):
        np.testing.assert_array_equal(one, other)


def listed(net: Net, data: Dataset) -> bool:
    config = TrainConfig(batch_size=4)
    with NativeTrainer(net, config, start(net, config), 1) as trainer:
        trainer.load(data)
        assert trainer._samples is not None
        flops, memory = trainer.flops(), trainer._memory._replace(**trainer._samples)
        assert (flops < net.train_flops) == are_lists(memory)
        return are_lists(memory)


def test_zeros_are_counted_where_a_wide_first_layer_alone_reads_samples() -> None:
    net = perceptron(32)
    assert listed(net, sparse(True)) and listed(net, sparse(False, ink=MOST - 0.05))
    assert not listed(net, sparse(True, ink=MOST + 0.05)) and not listed(net, sparse(False, ink=1.0))
    few = Net("few outputs", (FEATURES,), (Linear(out_features=3),), CrossEntropyLoss())
    later = Net(
        "later", (FEATURES,), (BatchNorm1d(), Linear(out_features=32), Linear(out_features=3)), CrossEntropyLoss()
    )
    assert not listed(few, sparse(False)) and not listed(later, sparse(False))
    x = sparse(False).train_x
    copies = Net("copies", (FEATURES,), (Linear(out_features=32), ReLU(), Linear(out_features=FEATURES)), MSELoss())
    assert not listed(copies, Dataset("copies", x, None, x[:1], None))


def test_left_out_products_are_no_flops() -> None:
    """Two products of the first layer, each with as many terms as the samples have numbers other than 0."""
    net, data, config = perceptron(32), sparse(True), TrainConfig(batch_size=4)
    with NativeTrainer(net, config, start(net, config), 2) as trainer:
        trainer.load(data)
        zeros = np.count_nonzero(data.train_x == 0) / SAMPLES
        assert trainer.flops() == pytest.approx(net.train_flops - 4 * 32 * zeros, abs=1)
        dense = Dataset("dense", np.ones_like(data.train_x), data.train_y, data.test_x, data.test_y)
        trainer.load(dense)
        assert trainer.flops() == net.train_flops


NETS = [
    perceptron(64),
    Net(
        "normalising", (FEATURES,),
        (Linear(out_features=24, bias=False), BatchNorm1d(), Tanh(), Linear(out_features=3)), CrossEntropyLoss(),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("net", "config", "as_bytes"),
    [
        (NETS[0], TrainConfig(batch_size=9), True), (NETS[0], TrainConfig(batch_size=9, optimizer=Adam(0.01)), False),
        (NETS[1], TrainConfig(batch_size=12), False), (NETS[1], TrainConfig(batch_size=None, momentum=0.9), True),
    ],
    ids=("sgd", "adam", "normalising", "whole"),
)  # fmt: skip
@pytest.mark.usefixtures("cases_once")
@pytest.mark.by_day("sgd")
def test_lists_are_proven(net: Net, config: TrainConfig, as_bytes: bool) -> None:
    for threads in (1, 2):
        verdict = verify(partial(NativeTrainer, threads=threads), net, config, dataset=sparse(as_bytes, samples=300))
        assert verdict.passed, (threads, verdict.reason)


#: by name: an operation of products.py, with a right and a wrong form of what it runs
LIARS = {
    "an entry left out": (
        "nonzero_product",
        "k, sums, close = counted(builder, count,",
        "k, sums, close = counted(builder, builder.lshr(builder.mul(count, I64(7)), I64(3)),",
    ),
    "bias left out": ("nonzero_product", "else BIAS if it.bias >= 0", "else ZERO if it.bias >= 0"),
    "no ReLU": ("nonzero_product", "it.finish if start + rows == depth", "STORE if start + rows == depth"),
    "another block's list": ("nonzero_product", "first = starts[start // LISTED]", "first = starts[0]"),
    "a sample left out": (
        "nonzero_weight_gradient",
        "for sample in range(work.n):",
        "for sample in range(work.n - 1):",
    ),
    "gradients of another step": ("nonzero_weight_gradient", "if work.add == 0:", "if work.add == 2:"),
}


@pytest.mark.parametrize("liar", LIARS)
@pytest.mark.usefixtures("cases_once")
@pytest.mark.by_day("another block's list", "a sample left out")
def test_a_wrong_kernel_is_caught(liar: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operation, right, wrong = LIARS[liar]
    source = inspect.getsource(products)
    assert right in source
    name = f"wrong_nonzeros_{list(LIARS).index(liar)}"
    package = "from warpladder.trainers.native."
    changed = source.replace("from ...", package).replace("from ..", f"{package}kernels.").replace(right, wrong)
    (tmp_path / f"{name}.py").write_text(changed)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    honest = module._operation

    def edited(each: str) -> CompiledFunction:
        return CompiledFunction(name, each, "operation") if each == operation else honest(each)

    monkeypatch.setattr(module, "_operation", edited)
    try:
        verdict = verify(
            partial(NativeTrainer, threads=2), NETS[0], TrainConfig(batch_size=9), dataset=sparse(True, samples=300)
        )
    finally:
        sys.modules.pop(name, None)
    assert not verdict.passed and verdict.judged, liar
