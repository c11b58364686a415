"""Batch normalisation of the native trainer: its proof for several threads, and wrong kernels, which the proof finds."""

from __future__ import annotations

import importlib
import inspect
import sys
from functools import partial
from pathlib import Path

import pytest

from warpladder.config import TrainConfig
from warpladder.nets import (
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Linear,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Tanh,
    Upsample2d,
)
from warpladder.optimizers import Adam
from warpladder.proof import verify
from warpladder.trainers.native import trainer as module
from warpladder.trainers.native.compiler.machine_code import CompiledFunction
from warpladder.trainers.native.kernels import batch_norm
from warpladder.trainers.native.trainer import NativeTrainer

TABLE = Net(
    "table", (6,),
    (
        Linear(out_features=8, bias=False), BatchNorm1d(eps=1e-3), ReLU(), Linear(out_features=5), BatchNorm1d(momentum=0.3),
        Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
#: more channels than a vector, pools, a stride; first of all layers, affine or not, with masks after it; decoders
NETS = [
    Net(
        "image", (3, 12, 12),
        (
            Conv2d(out_channels=20, kernel_size=3, padding=1, bias=False), BatchNorm2d(), ReLU(), MaxPool2d(2),
            Conv2d(out_channels=6, kernel_size=3, stride=2, padding=1), BatchNorm2d(momentum=0.3), ReLU(), AvgPool2d(3),
            Flatten(), Linear(out_features=3),
        ),
        CrossEntropyLoss(),
    ),
    Net(
        "first", (2, 6, 6),
        (
            BatchNorm2d(), Conv2d(out_channels=4, kernel_size=3), ReLU(), BatchNorm2d(), Flatten(), Linear(out_features=5),
            Dropout(0.3), Linear(out_features=3),
        ),
        CrossEntropyLoss(),
    ),
    Net(
        "fixed", (200,),
        (BatchNorm1d(affine=False), Linear(out_features=40), BatchNorm1d(), Tanh(), Linear(out_features=5)), CrossEntropyLoss(),
    ),
    Net(
        "decoder", (2, 8, 8),
        (
            Conv2d(out_channels=4, kernel_size=3, padding=1), BatchNorm2d(), ReLU(), MaxPool2d(2), Upsample2d(scale_factor=2),
            Conv2d(out_channels=2, kernel_size=3, padding=1), BatchNorm2d(),
        ),
        MSELoss(),
    ),
]  # fmt: skip
CONFIGS = [
    TrainConfig(batch_size=6), TrainConfig(batch_size=8, optimizer=Adam(0.01), loss_every=2),
    TrainConfig(batch_size=None, clip_norm=0.5, momentum=0.9),
]  # fmt: skip


@pytest.mark.parametrize(
    ("net", "config"),
    [
        *((TABLE, config) for config in CONFIGS),
        *(pytest.param(net, CONFIGS[1 + i % 2], marks=pytest.mark.slow) for i, net in enumerate(NETS)),
    ],
    ids=lambda each: getattr(each, "name", ""),
)  # fmt: skip
@pytest.mark.usefixtures("cases_once")
@pytest.mark.by_day("table-1")
def test_a_normalising_net_is_proven_on_one_to_three_threads(net: Net, config: TrainConfig) -> None:
    for threads in (1, 2, 3):
        verdict = verify(partial(NativeTrainer, threads=threads), net, config)
        assert verdict.passed and verdict.checks["buffers"] > 0, (threads, verdict.reason)


#: by name: an operation, or a function that one calls, with a right and a wrong form
LIARS = {
    "biased variance": ("batch_statistics", "squares / (count - 1)", "squares / count"),
    "momentum's complement": (
        "batch_statistics", "(1 - momentum) * running[at] + momentum * held[c]",
        "momentum * running[at] + (1 - momentum) * held[c]",
    ),
    "statistics that stay": ("batch_statistics", "momentum * held[c]", "momentum * running[at]"),
    "unbiased forward": ("batch_statistics", "squares / count + eps", "squares / (count - 1) + eps"),
    "eps outside the root": (
        "batch_statistics", "math.sqrt(squares / count + eps)", "(math.sqrt(squares / count) + eps)",
    ),
    "the last sample left out": ("batch_statistics", "_line(it.x, sample, row, work.n)", "_line(it.x, sample, row, work.n - 1)"),
    "the batch in predictions": ("batch_statistics", "work.settings.mask_key < 0", "work.settings.mask_key < -1"),
    "running statistics in training": ("batch_statistics", "mask_key < 0", "mask_key < 9000000000"),
    "no bias": ("_normalised_row", "builder.fadd(builder.fmul(z, w), b)", "builder.fmul(z, w)"),
    "no ReLU": ("normalise", "it.has_relu != 0", "it.has_relu > 1"),
    "gradients exchanged": (
        "normalise_sums", "= held[products + c], held[total + c]", "= held[total + c], held[products + c]",
    ),
    "no mean of dy": ("_row_gradient", "builder.fsub(_wide(builder, a, _pixel(builder, dy, dy_step, k)), total)",
        "_wide(builder, a, _pixel(builder, dy, dy_step, k))",
    ),
    "no mean of dy z": ("_row_gradient", "builder.fsub(slope, builder.fmul(z, products))", "slope"),
    "mean of squares": ("_add_squares", "builder.fsub(_wide(builder, a, _pixel(builder, at, step, k)), mean)", "_wide(builder, a, _pixel(builder, at, step, k))"),
}  # fmt: skip
#: the operation that calls a function
CALLERS = {"_normalised_row": "normalise", "_row_gradient": "normalise_gradient", "_add_squares": "batch_statistics"}
BY_DAY = ("biased variance", "no mean of dy z")


@pytest.mark.parametrize(
    "liar", [each if each in BY_DAY else pytest.param(each, marks=pytest.mark.slow) for each in LIARS]
)
@pytest.mark.usefixtures("cases_once")
def test_a_wrong_kernel_is_caught(liar: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_in, right, wrong = LIARS[liar]
    operation, source = CALLERS.get(changed_in, changed_in), inspect.getsource(batch_norm)
    assert right in source
    name = f"wrong_batch_norm_{list(LIARS).index(liar)}"
    changed = source.replace("from ..", "from warpladder.trainers.native.").replace(right, wrong)
    (tmp_path / f"{name}.py").write_text(changed)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    honest = module._operation

    def edited(each: str) -> CompiledFunction:
        return CompiledFunction(name, each, "operation") if each == operation else honest(each)

    monkeypatch.setattr(module, "_operation", edited)
    try:
        verdict = verify(partial(NativeTrainer, threads=2), TABLE, CONFIGS[0])
    finally:
        sys.modules.pop(name, None)
    assert not verdict.passed and verdict.judged, liar
