"""Faults within the sources of CUDA kernels and native code: one operator, bound, index or constant in an operation's own
text reads otherwise. The emulator compiles it, or the native rung does; each is caught, and the unchanged text passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from planted_operations import edited_kernel

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.nets import (
    GELU,
    AvgPool2d,
    BatchNorm2d,
    BCEWithLogitsLoss,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    HuberLoss,
    L1Loss,
    Layer,
    LeakyReLU,
    Linear,
    Loss,
    MSELoss,
    Net,
    ReLU,
    Residual,
    SiLU,
    Tanh,
)
from warpladder.optimizers import SGD, RMSprop
from warpladder.proof import verify

BATCH = TrainConfig(batch_size=6)


def table(loss: Loss, *layers: Layer | Residual, outputs: int = 3) -> Net:
    return Net("table", (5,), (*layers, Linear(out_features=outputs)), loss)


def image(*layers: Layer | Residual) -> Net:
    return Net("image", (2, 6, 7), (*layers, Flatten(), Linear(out_features=3)), CrossEntropyLoss())


HIDDEN = Linear(out_features=7)
CURVES = {curve: table(MSELoss(), HIDDEN, layer) for curve, layer in {
    "gelu": GELU(), "gelu by tanh": GELU(approximate="tanh"), "silu": SiLU(), "tanh": Tanh(), "leaky": LeakyReLU(0.3),
}.items()}  # fmt: skip
LABELS = table(CrossEntropyLoss((0.5, 2.0, 1.25, 0.75), 0.2), outputs=4)
SOME: dict[str, tuple[Net, TrainConfig]] = {
    **{name: (net, BATCH) for name, net in CURVES.items()},
    "dropout": (table(MSELoss(), HIDDEN, Dropout(0.3), HIDDEN, Dropout(0.4)), BATCH),
    "pool": (image(AvgPool2d(3, 2), Conv2d(out_channels=3, kernel_size=1), AvgPool2d(2, 1)), BATCH),
    "residual": (image(Conv2d(out_channels=2, kernel_size=1), Residual(Conv2d(out_channels=2, kernel_size=3, padding=1), ReLU())), BATCH),
    "labels": (LABELS, BATCH),
    "weights of samples": (table(CrossEntropyLoss()), BATCH),
    "huber": (table(HuberLoss(0.75)), BATCH), "l1": (table(L1Loss()), BATCH),
    "binary": (table(BCEWithLogitsLoss((2.5,))), BATCH),
    "rmsprop": (table(MSELoss()), BATCH.but(optimizer=RMSprop(1e-3, weight_decay=0.01, momentum=0.9))),
    "norm": (table(MSELoss()), BATCH.but(optimizer=SGD(0.01, momentum=0.9), clip_norm=0.5)),
    "batchnorm": (image(Conv2d(out_channels=3, kernel_size=3), BatchNorm2d(), ReLU()), TrainConfig(batch_size=8)),
}  # fmt: skip

#: by what trains: a right text of a kernel's file or of its headers, and a wrong one
FAULTS: dict[str, tuple[tuple[str, str], ...]] = {
    "gelu": (
        ("GELU_DENSITY 0.3989422804014327f", "GELU_DENSITY 0.3979422804014327f"),
        ("expf(-0.5f * saved * saved)", "expf(-0.5f * saved)"), ("0.5f * erfcf(-GELU_HALF * saved)", "0.5f * erfcf(GELU_HALF * saved)"),
        ("if (i < count) y[i] = value<FUNCTION>", "if (i < count - 1) y[i] = value<FUNCTION>"),
    ),
    "gelu by tanh": (
        ("GELU_CUBE 0.044715f", "GELU_CUBE 0.044175f"), ("3.0f * GELU_CUBE * square", "2.0f * GELU_CUBE * square"),
    ),
    "silu": (
        ("(1.0f + saved / (1.0f + expf(saved)))", "(1.0f - saved / (1.0f + expf(saved)))"),
        ("if (i < count) dx[i] = derivative", "if (i + 1 < count) dx[i] = derivative"),
    ),
    "tanh": (("return 1.0f - saved * saved;", "return 1.0f - saved * saved * saved * saved;"),),
    "leaky": (("saved > 0.0f ? 1.0f : slope", "saved >= 0.0f ? 1.0f : slope"), ("x > 0.0f ? x : slope * x", "x > 0.0f ? x : slope * slope * x")),
    "dropout": (
        ("(unsigned)(i % size)", "(unsigned)(i % (size - 1))"), ("order_mix(key + layer) ^ position", "order_mix(key) ^ position"),
        ("(unsigned)(*step - done) * (unsigned)batch", "(unsigned)(*step - done)"), ("y[i] = x[i] * mask", "y[i] = x[i] * (mask > 0.0f)"),
    ),
    "pool": (
        ("corner[i * w + j]", "corner[i * h + j]"), ("out.row * stride) * w", "out.row) * w"),
        ("for (int p = above.first; p < above.last", "for (int p = above.first; p + 1 < above.last"),
    ),
    "residual": (("out[i] = a[i] + b[i]", "out[i] = a[i] - b[i]"), ("out[i] = a[i];", "out[i] = a[i > 0 ? i - 1 : i];")),
    "labels": (
        ("weight * (smoothing / classes)", "smoothing / classes"), ("weight * (smoothing / classes)", "weight * (smoothing / (classes - 1))"),
        ("q * (s.largest - logits[c])", "q * (s.largest - logits[wanted])"), ("count = s.best == wanted", "count = s.best >= wanted"),
        ("s.total * every - q", "s.total - q"),
    ),
    "weights of samples": (("* batch + place + sample", "* batch + place"), ("(*step) * batch + place", "(*step) + place")),
    "huber": (
        ("(size - 0.5f * setting)", "(size - setting)"), ("d < -setting ? -setting : d", "d < -setting ? setting : d"),
        ("0.5f * d * d : setting", "d * d : setting"),
    ),
    "l1": (("d < 0.0f ? -1.0f : d", "d <= 0.0f ? -1.0f : d"), ("return fabsf(d);", "return d;")),
    "binary": (
        ("(1.0f - t) / (1.0f + expf(-x)) -", "1.0f / (1.0f + expf(-x)) -"), ("setting * t / (1.0f + expf(x))", "t / (1.0f + expf(x))"),
        ("(rest + (x < 0.0f ? -x : 0.0f))", "(rest + (x < 0.0f ? -x : x))"),
    ),
    "rmsprop": (
        ("gradient / (sqrtf(square) + eps)", "gradient / sqrtf(square + eps)"), ("rest * gradient * gradient", "rest * g * g"),
        ("momentum * buffer + gradient", "momentum * buffer + rest * gradient"), ("g + decay * w", "g - decay * w"),
    ),
    "norm": (("+ 1e-6", "+ 1e-3"), ("if (factor >= 1.0) return;", "if (factor >= 0.98) return;"), ("g[i] * factor", "g[i] * factor * factor")),
    "batchnorm": (
        ("sum / (count - 1)", "sum / count"), ("(running_var[channel] + eps)", "(running_var[channel] + 2 * eps)"),
        ("sums[channels + channel] / each", "sums[channels + channel] / (each - 1)"), ("sqrt(sum / count + eps)", "sqrt(sum / count)"),
        ("z * (sums[channel] / each)", "z * (sums[channel] / count)"), ("total += dy[i];", "total += dy[i] * (t > 0);"),
    ),
}  # fmt: skip


def samples(net: Net) -> Dataset:
    """Floats with weights."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, *net.in_shape)).astype(np.float32)
    y = rng.integers(0, net.out_shape[0], 40).astype(np.int32)
    weight = rng.uniform(0.5, 2, 40).astype(np.float32)
    return Dataset("weighted", x, y, x[:1], y[:1], 1.0, train_weight=weight)


def judged(kind: str, before: str = "", after: str = "") -> Any:
    net, config = SOME[kind]
    data = samples(net) if kind == "weights of samples" else None
    return verify(edited_kernel(before or "no such text", after), net, config, dataset=data, reach=4)


def every() -> Iterator[Any]:
    for kind, faults in FAULTS.items():
        for number, (before, after) in enumerate(faults):
            yield pytest.param(kind, before, after, id=f"{kind}-{after}", marks=pytest.mark.slow if number else ())


@pytest.mark.parametrize("kind", SOME)
def test_unchanged_kernels_pass(kind: str) -> None:
    verdict = judged(kind)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(("kind", "before", "after"), list(every()))
def test_a_fault_within_a_kernel_is_caught(kind: str, before: str, after: str) -> None:
    verdict = judged(kind, before, after)
    assert verdict.judged and not verdict.passed, verdict.reason
