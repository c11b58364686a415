"""Faults within the sources of native code and of loops: one operator, bound, index or constant in an operation's own text
reads otherwise. numba compiles it; each fault is caught, and the unchanged text passes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from edited_modules import edited_modules, module

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.ladder import find
from warpladder.nets import (
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    BCEWithLogitsLoss,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Layer,
    LeakyReLU,
    Linear,
    Loss,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Residual,
    SiLU,
    Upsample2d,
)
from warpladder.optimizers import SGD, Adam, AdamW, RMSprop
from warpladder.proof import verify
from warpladder.trainers.base import State
from warpladder.trainers.layerwise import LayerwiseTrainer

BATCH = TrainConfig(batch_size=6)
KERNELS, OPS, OPTIMIZERS = "trainers/native/kernels", "ops", "optimizers"


def table(loss: Loss, *layers: Layer | Residual, outputs: int = 3) -> Net:
    return Net("table", (5,), (*layers, Linear(out_features=outputs)), loss)


def image(*layers: Layer | Residual, channels: int = 2) -> Net:
    return Net("image", (channels, 6, 7), (*layers, Flatten(), Linear(out_features=3)), CrossEntropyLoss())


def conv(channels: int, size: int = 3, padding: int = 0, stride: int = 1) -> Conv2d:
    return Conv2d(out_channels=channels, kernel_size=size, padding=padding, stride=stride)


HIDDEN = Linear(out_features=7)
MOMENTUM = BATCH.but(optimizer=SGD(0.01, momentum=0.9, nesterov=True, weight_decay=0.01))
CODER = Net(
    "coder", (2, 6, 8), (conv(3, 3, 1), ReLU(), MaxPool2d(2), Upsample2d(scale_factor=2), conv(2, 3, 1)), MSELoss()
)
SOME: dict[str, tuple[Net, TrainConfig]] = {
    "labels": (table(CrossEntropyLoss()), BATCH),
    "many labels": (table(CrossEntropyLoss(), outputs=37), BATCH),
    "targets": (table(MSELoss()), BATCH),
    "smoothed": (table(CrossEntropyLoss((0.5, 2.0, 1.25, 0.75), 0.2), outputs=4), BATCH),
    "weights of samples": (table(CrossEntropyLoss()), BATCH),
    "binary": (table(BCEWithLogitsLoss((2.5,))), BATCH),
    "activations": (table(MSELoss(), HIDDEN, LeakyReLU(0.3), HIDDEN, SiLU()), BATCH),
    "dropout": (image(conv(3), Dropout(0.3)), BATCH),
    "average pool": (image(AvgPool2d(3, 2), conv(3, 1), AvgPool2d(2, 1)), BATCH),
    "pool": (image(conv(3, padding=1), ReLU(), MaxPool2d(3, 2), conv(3, 1), ReLU()), BATCH),
    "stride": (image(conv(4, 3, 1, 2), ReLU(), conv(3, 2)), BATCH),
    "many channels": (image(conv(20), ReLU(), MaxPool2d(2), conv(18, 1), ReLU()), BATCH),
    "few outputs": (Net("few", (1, 12, 12), (Flatten(), Linear(out_features=3)), CrossEntropyLoss()), BATCH),
    "pixel runs": (
        Net(
            "runs",
            (2, 6, 24),
            (conv(9, 3, 1), ReLU(), conv(8, 3, 1), Flatten(), Linear(out_features=3)),
            CrossEntropyLoss(),
        ),
        BATCH,
    ),
    "coder": (CODER, BATCH),
    "upsampling": (image(conv(3), Upsample2d(scale_factor=3), conv(2, 2)), BATCH),
    "residual": (image(conv(2, 1), Residual(conv(2, 3, 1), ReLU())), BATCH),
    "batchnorm": (image(conv(3), BatchNorm2d(), ReLU()), TrainConfig(batch_size=8)),
    "rows": (table(CrossEntropyLoss(), HIDDEN, BatchNorm1d(), ReLU()), TrainConfig(batch_size=8)),
    "momentum": (table(MSELoss()), MOMENTUM),
    "clipped": (table(MSELoss()), BATCH.but(clip_value=0.5)),
    "norm": (table(MSELoss()), BATCH.but(optimizer=SGD(0.01, momentum=0.9), clip_norm=0.5)),
    "adam": (table(MSELoss()), BATCH.but(optimizer=Adam(1e-3, weight_decay=0.01))),
    "adamw": (table(MSELoss()), BATCH.but(optimizer=AdamW(1e-3))),
    "rmsprop": (table(MSELoss()), BATCH.but(optimizer=RMSprop(1e-3, momentum=0.9))),
    "momentum behind": (table(CrossEntropyLoss(), HIDDEN, ReLU()), BATCH.but(optimizer=SGD(0.01, momentum=0.9))),
    "adam behind": (table(CrossEntropyLoss(), HIDDEN, ReLU()), BATCH.but(optimizer=Adam(1e-3))),
    "labels one by one": (table(CrossEntropyLoss(), HIDDEN, ReLU()), BATCH.but(batch_size=1)),
    "pool one by one": (image(conv(16, padding=1), ReLU(), MaxPool2d(2), conv(3, 1)), BATCH.but(batch_size=1)),
    "all of coder": (CODER, BATCH.but(batch_size=None)),
    "wide norm": (
        table(CrossEntropyLoss(), Linear(out_features=40)),
        BATCH.but(optimizer=SGD(0.01, momentum=0.9), clip_norm=0.5),
    ),
    "smoothed one by one": (table(CrossEntropyLoss((0.5, 2.0, 1.25, 0.75), 0.2), outputs=4), BATCH.but(batch_size=1)),
}

Fault = tuple[str, str, str, str]  # what trains, the file, a right text of it and a wrong one

#: of native code
NATIVE: tuple[Fault, ...] = (
    ("labels", "losses", "correct += predicted == label", "correct += predicted >= label"),
    ("many labels", "softmax", "_exponentials(source, at + i, largest, target, to + i, count - i)", "_exponentials(source, at + i, largest, target, to + i, LANES)"),
    ("many labels", "softmax", "target[to + label] -= share", "target[to + label] -= share / 2"),
    ("labels", "softmax", "1 / 24, 1 / 6", "1 / 25, 1 / 6"),
    ("labels", "softmax", "maximum(builder, x, constant(-87.0))", "maximum(builder, x, constant(-12.0))"),
    ("labels", "losses", "loss += largest - a[start + label]", "loss += largest - a[start]"),
    ("targets", "losses", "targets[index, at + channel * area]", "targets[index, at]"),
    ("targets", "losses", "difference = a[start + channel] - targets", "difference = abs(a[start + channel]) - targets"),
    ("coder", "losses", "factor = np.float32(2) * work.inverse", "factor = np.float32(1.999) * work.inverse"),
    ("smoothed", "general_losses", "smoothing / it.classes, 1 - smoothing", "smoothing / (it.classes - 1), 1 - smoothing"),
    ("smoothed", "general_losses", "/ total * every - q)", "/ total - q)"),
    ("smoothed", "general_losses", "if a[start + c] > a[start + best]", "if a[start + c] >= a[start + best]"),
    ("weights of samples", "general_losses", "if has_shares != 0:", "if has_shares == 9:"),
    ("binary", "general_losses", "share * _derivative(it.function, its, x, goal)", "share * _derivative(it.function, setting[0] * 0 + 1, x, goal)"),
    ("activations", "activation", "np.float32(np.int64(bits).view(np.float64))", "np.float32(np.int64(bits).view(np.float64)) ** 2"),
    ("activations", "activation", "_derivative(it.function, slope, a[saved + channel])", "_derivative(it.function, slope, a[saved])"),
    ("dropout", "dropout", "(channel * it.x.height + row) * it.x.width + column", "(channel * it.x.width + row) * it.x.width + column"),
    ("dropout", "dropout", "work.settings.position + work.first + sample", "work.first + sample"),
    ("average pool", "pooling", "1.0 / (it.rows * it.columns)", "1.0 / (it.rows + it.columns)"),
    ("average pool", "pooling", "q * it.stride + j)", "q + j)"),
    ("pool", "pooling", "row * stride + tap // size, column * stride + tap % size", "row * stride + tap % size, column * stride + tap // size"),
    ("pool", "pooling", "overlaps = size != stride", "overlaps = size == stride"),
    ("stride", "convolution", "(row * it.x.row + column * it.x.pixel) * it.stride", "row * it.x.row * it.stride + column * it.x.pixel"),
    ("stride", "convolution_gradients", "left = (a, a_at, x.pixel * it.stride, x.row * it.stride)", "left = (a, a_at, x.pixel, x.row * it.stride)"),
    ("many channels", "convolution_gradients", "for channel in range(first, whole, LANES):", "for channel in range(first, whole - 1, 2 * LANES):"),
    ("many channels", "flatten", "features + column + channel * area", "features + column + channel * (area - 1)"),
    ("coder", "upsampling", "return (row + 1 - parity) // 2 if parity == 0 else row // 2", "return (row + 1) // 2 if parity == 0 else (row + 1) // 2"),
    ("coder", "samples", "out[at + sample, channel * area + row * x.width + column]", "out[at + sample, channel * area + row * x.height + column]"),
    ("upsampling", "upsampling", "row * scale + tap // scale", "row * scale + tap % 2"),
    ("residual", "residual", "builder.fadd(first, builder.select(is_sum, second, zeros()))", "builder.fsub(first, builder.select(is_sum, second, zeros()))"),
    ("batchnorm", "batch_norm", "(squares / (count - 1))", "(squares / count)"),
    ("batchnorm", "batch_norm", "1 / math.sqrt(squares / count + eps)", "1 / (math.sqrt(squares / count) + eps)"),
    ("batchnorm", "batch_norm", "held[total + c] /= count", "held[total + c] /= count - 1"),
    ("rows", "batch_norm", "running[it.running + it.channels + c]) + eps", "running[it.running + it.channels + c]) + 2 * eps"),
    ("rows", "batch_norm", "return view.offset + sample * view.sample, view.sample, samples", "return view.offset + sample * view.sample, view.sample, samples - 1"),
    ("momentum", "update", "g[i] += decay * w[i]", "g[i] += decay * w[0]"),
    ("momentum", "update", "v[i] = momentum * v[i] + g[i]", "v[i] = momentum * (v[i] + g[i])"),
    ("momentum", "update", "g[i] + momentum * v[i] if nesterov else v[i]", "v[i] if nesterov else v[i]"),
    ("clipped", "update", "(-clip if g[i] < -clip else g[i])", "g[i]"),
    ("norm", "gradient_norm", "total += doubles(memory, SQUARES, part)[0]", "total = doubles(memory, SQUARES, part)[0]"),
    ("norm", "gradient_norm", "if not factor >= 1:", "if not factor >= 0.98:"),
    ("few outputs", "few_outputs", "row = min(sample + i, last - 1)", "row = min(sample + i, last - 2)"),
    ("few outputs", "few_outputs", "min(output + i, it.outputs - 1)", "min(output + i, it.outputs - 2)"),
    ("few outputs", "first_layer_bytes", "row = min(sample + i, end - 1)", "row = min(sample + i, end - 2)"),
    ("pixel runs", "pixel_runs", "min(TAPS, border + it.height - row)", "min(TAPS, border + it.height - row - 1)"),
    ("labels", "samples", "for i in range(target.shape[0]):", "for i in range(target.shape[0] - 1):"),
    ("adam", "adam/loops.py", "(np.sqrt(v[i]) * root + eps)", "(np.sqrt(v[i] + eps) * root)"),
    ("adam", "adam/loops.py", "rest2 * gradient * gradient", "rest2 * gradient * g[i]"),
    ("adamw", "adamw/loops.py", "decay * w[i] + rate * m[i]", "rate * m[i]"),
    ("rmsprop", "rmsprop/loops.py", "buffer[i] = momentum * buffer[i] + change", "buffer[i] = momentum * buffer[i] + rest * change"),
    ("pool one by one", "pooling", "fcmp_unordered(\">\", new, old)", "fcmp_unordered(\">=\", new, old)"),
    ("all of coder", "pooling", "passes = builder.fcmp_ordered(\">\", load(builder, y, y_at)", "passes = builder.fcmp_ordered(\">=\", load(builder, y, y_at)"),
    ("labels one by one", "matmul_tile", "builder.fcmp_ordered(\">\", mask, zeros())", "builder.fcmp_ordered(\">=\", mask, zeros())"),
    ("momentum", "update", "if nesterov else v[i])", "if nesterov else v[i]) * (start + i != 1)"),
    ("momentum behind", "update", "v[i] = momentum * v[i] + g[i]", "v[i] = momentum * v[i] + g[i] if g[i] != 0 else v[i]"),
    ("smoothed", "general_losses", "q = w[c] * (spread", "q = w[label] * (spread"),
    ("smoothed one by one", "general_losses", "(rest if c == label else 0.0)", "(1.0 if c == label else 0.0)"),
    ("smoothed", "general_losses", "(rest if c == label else 0.0)", "(rest if c == label else 0.0) - (spread if c == label else 0.0)"),
    ("batchnorm", "batch_norm", "1 / math.sqrt(squares / count + eps)", "1 / math.sqrt(max(squares / count, eps))"),
    ("batchnorm", "batch_norm", "+ momentum * held[c]", "+ momentum * held[first]"),
    ("wide norm", "gradient_norm", "total += doubles(memory, SQUARES, part)[0]", "total += doubles(memory, SQUARES, work.part)[0]"),
    ("adamw", "adamw/loops.py", "decay * w[i] +", "decay * w[i] * (i % 8 != 1) +"),
    ("adam behind", "adam/loops.py", "m[i] = beta1 * m[i]", "m[i] = (beta1 if gradient != 0 else 1) * m[i]"),
    ("dropout", "dropout", "scale if kept else", "(scale if element % 16 != 15 else 1) if kept else"),
)  # fmt: skip
#: of loops
LOOPS: tuple[Fault, ...] = (
    ("labels", "cross_entropy", "if x[sample, c] > x[sample, best]", "if x[sample, c] >= x[sample, best]"),
    ("labels", "cross_entropy", "(probability - wanted) / n", "(probability - wanted) / len(label)"),
    ("targets", "mse", "2.0 * (x[i] - target[i]) / count", "2.0 * (x[i] - target[i]) / len(x)"),
    ("targets", "linear", "total += dy[sample, o]", "total += dy[0, o]"),
    ("targets", "linear", "y[sample, o] = total + b[o]", "y[sample, o] = total + b[o - 1]"),
    ("smoothed", "loss", "spread = smoothing / classes", "spread = smoothing / (classes - 1)"),
    ("smoothed", "loss", "(probability * every - q)", "(probability - q)"),
    ("weights of samples", "loss", "dx[sample, c] = shares[sample]", "dx[sample, c] = shares[0]"),
    ("binary", "loss", "share * _derivative(function, setting[i], x[at], target[at])", "share * _derivative(function, setting[0] * 0 + 1, x[at], target[at])"),
    ("activations", "activation", "_derivative(function, slope, saved[i]) * dy[i]", "_derivative(function, slope * slope, saved[i]) * dy[i]"),
    ("dropout", "dropout", "_mixed(key ^ (position + sample))", "_mixed(key ^ sample)"),
    ("average pool", "avgpool2d", "1 / (rows * columns)", "1 / (rows + columns)"),
    ("pool", "maxpool2d", "position // k, q * stride + position % k] += dy", "position // k, q * stride + position % k] = dy"),
    ("pool", "maxpool2d", "if value > best or np.isnan(value)", "if value >= best or np.isnan(value)"),
    ("pool", "relu", "0.0 if x[i] < 0.0 else x[i]", "x[i] if x[i] > 0.0 else 0.0"),
    ("pool", "conv2d", "if 0 <= row < x.shape[2]:", "if 0 < row < x.shape[2]:"),
    ("stride", "conv2d", "column = q * stride + j - padding", "column = q * stride + j"),
    ("upsampling", "upsample2d", "x[sample, c, p // s, q // s]", "x[sample, c, p // s, (q + 1) // s % x.shape[3]]"),
    ("residual", "residual", "out[sample, i] = a[sample, i] + b[sample, i]", "out[sample, i] = a[sample, i] + b[0, i]"),
    ("batchnorm", "batchnorm", "- z * dw / count", "- z * dw / (count - 1)"),
    ("batchnorm", "batchnorm", "momentum * (scale * of_batch[c])", "momentum * of_batch[c]"),
    ("norm", "update", "if not factor >= 1:", "if not factor >= 0.98:"),
    ("clipped", "update", "if abs(g[i]) > limit:", "if g[i] > limit:"),
    ("targets", "gather", "range(source.shape[1])", "range(source.shape[1] - 1)"),
    ("labels one by one", "relu", "dy[i] if y[i] > 0.0 else", "dy[i] if y[i] >= 0.0 else"),
    ("all of coder", "conv2d", "< x.shape[3]: total += x[sample", "<= x.shape[3]: total += x[sample"),
    ("batchnorm", "batchnorm", "layer.momentum, count / (count - 1))", "layer.momentum, len(t.x) * x.shape[2] / (len(t.x) * x.shape[2] - 1))"),
    ("smoothed", "loss", "q = w[c] * spread", "q = w[label[sample]] * spread"),
    ("smoothed one by one", "loss", "(w[c] * (1 - smoothing) if", "(w[c] if"),
    ("momentum behind", "sgd/loops.py", "v[i] = momentum * v[i] + gradient", "v[i] = momentum * v[i] + gradient if gradient != 0 else v[i]"),
    ("adamw", "adamw/loops.py", "w[i] -= decay * w[i] + rate", "w[i] -= decay * (w[i] if i < len(w) - 1 else 0) + rate"),
    ("all of coder", "conv2d", "dbias[o] = total", "dbias[o] = total if o != 1 else 0.0"),
    ("norm", "update", "factor = ", "factor = 1.0001 * "),
)  # fmt: skip


def samples(net: Net) -> Dataset:
    """Floats with weights."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, *net.in_shape)).astype(np.float32)
    y = rng.integers(0, net.out_shape[0], 40).astype(np.int32)
    weight = rng.uniform(0.5, 2, 40).astype(np.float32)
    return Dataset("weighted", x, y, x[:1], y[:1], 1.0, train_weight=weight)


def judged(kind: str, form: str) -> Any:
    net, config = SOME[kind]
    data = samples(net) if kind == "weights of samples" else None
    build: Any = find("native", threads=2).build
    if form == "loops":
        build = partial(_layerwise, module("ops/tables/loops.py").TABLE)
    return verify(build, net, config, dataset=data, reach=4)


def _layerwise(operations: Any, net: Net, config: TrainConfig, state: State) -> LayerwiseTrainer:
    return LayerwiseTrainer(net, config, state, operations)


def path(form: str, file: str) -> str:
    """Path within the package of a fault's file."""
    if file.endswith(".py"):
        return f"{OPTIMIZERS}/{file}"
    return f"{KERNELS}/{file}.py" if form == "native" else f"{OPS}/{file}/loops.py"


FAULTS = [("native", *fault) for fault in NATIVE] + [("loops", *fault) for fault in LOOPS]
BY_DAY = {("native", "clipped"), ("loops", "targets")}  # quick to compile


def marked(form: str, kind: str, number: int) -> Any:
    first = number == min(n for n, each in enumerate(FAULTS) if each[:2] == (form, kind))
    return () if first and (form, kind) in BY_DAY else pytest.mark.slow


@pytest.mark.parametrize("form", ["native", pytest.param("loops", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [kind if kind in ("clipped", "pool") else pytest.param(kind, marks=pytest.mark.slow) for kind in SOME])  # fmt: skip
def test_the_unchanged_text_passes(kind: str, form: str) -> None:
    verdict = judged(kind, form)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(
    ("form", "kind", "file", "before", "after"),
    [
        pytest.param(*fault, id=f"{fault[0]}-{fault[1]}-{fault[4]}", marks=marked(fault[0], fault[1], number))
        for number, fault in enumerate(FAULTS)
    ],
)
def test_a_fault_within_a_source_is_caught(form: str, kind: str, file: str, before: str, after: str) -> None:
    with edited_modules(path(form, file), before, after):
        verdict = judged(kind, form)
    assert verdict.judged and not verdict.passed, verdict.reason
    assert not verdict.reason.startswith("crash"), verdict.reason
