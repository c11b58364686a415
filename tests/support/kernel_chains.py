"""Segments of several kinds of nodes, as kernels: a first layer with the gathering, a last one with the loss, all of a
small net's step.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from kernel_layers import LAYERS
from kernel_losses import log_of, logged
from kernel_tools import BATCHES, Runs, close, nan, send, untouched
from magnitudes import longest_chain, magnitudes
from references import linear
from segments_here import step_of, stored
from strategies import Case, case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import Device, Limits
from warpladder.nets import CrossEntropyLoss, Layer, Linear, Net, ReLU, Shape, params
from warpladder.ops.cross_entropy import reference as cross_entropy
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import Slice, Subgraph, chain
from warpladder.ops.engine.segments import Operands, Segment
from warpladder.ops.gather import reference as gather
from warpladder.ops.update import reference as update_reference
from warpladder.ops.update.cuda import NaiveUpdate
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.tolerance import bound
from warpladder.trainers.kernelwise.layout import ParameterLayout

#: Small nets of the ladder, of odd sizes and of sizes that four divides, of several classes.
NETS = (
    nets.softmax((1, 5, 7), 3),
    nets.softmax((1, 6, 4)),
    nets.mlp10((1, 6, 4), 16),
    nets.mlp10((1, 3, 5)),
    nets.mlp((1, 3, 5)),
    nets.cnn((1, 7, 8)),
)

#: More samples than launches for small batches take.
MANY = 1031


def stem_cases(key: tuple[type, ...], kind: type[Segment]) -> Runs:
    """Of a chain that begins with the gathering and goes on with layers."""
    if key[1:] not in ((Linear,), (Linear, ReLU)):
        return
    for inputs, outputs, n, dtype, labels in (
        (7, 12, 5, np.uint8, True),
        (36, 3, 19, np.uint8, False),
        (131, 9, 1, np.float32, True),
    ):
        name = f"{inputs} {np.dtype(dtype)} to {outputs}, {n} samples{' with labels' if labels else ''}"
        yield name, lambda device, a=(key, kind, inputs, outputs, n, dtype, labels): _stem(device, *a)  # type: ignore[misc]


def _stem(
    device: Device, key: tuple[type, ...], kind: type[Segment], inputs: int, outputs: int, n: int, dtype: type, labelled: bool
) -> set[str]:  # fmt: skip
    """A slice of a batch, there and back."""
    random, order, step, batch, offset = np.random.default_rng(7), Order(3, 2, 53), 2, 21, 1
    source: np.ndarray = random.integers(0, 256, (53, inputs)).astype(dtype)
    label = random.integers(0, 10, 53).astype(np.int32)
    w, b = random.normal(size=(outputs, inputs)).astype(np.float32), random.normal(size=outputs).astype(np.float32)
    layers: tuple[Layer, ...] = (Linear(out_features=outputs), *(ReLU() for _ in key[2:]))
    host = {
        "x": nan(n + 2, inputs), "y": nan(n + 2, outputs), "dy": nan(n + 2, outputs), "w": w, "b": b, "dw": nan(*w.shape), "db": nan(*b.shape),
    }  # fmt: skip
    rows = order.indices(step * batch + offset, min(step * batch + offset + n, 53))
    n = len(rows)
    host["dy"][:n] = dy = random.normal(size=(n, outputs)).astype(np.float32)
    arrays = {name: device.array(array, name) for name, array in host.items()}
    target = device.array(np.full(len(host["x"]), -7, np.int32), "target")
    nodes = step_of(layers, (inputs,), device.limits, len(host["x"]), batch, gathers=True).part(0, len(key))
    assert tuple(map(type, nodes.nodes)) == key and kind.takes(nodes)
    operands = Operands(
        Buffers(**arrays), (arrays["w"], arrays["b"]), (arrays["dw"], arrays["db"]),
        stored(device, source, 1 / 255, label if labelled else None, order.words, step), target if labelled else None,
    )  # fmt: skip
    segment, part = kind(device, nodes, operands, 256), Slice(n, batch, offset)
    launched = send(segment.prepare(part)) | send(segment.forward(part))
    found = {name: arrays[name].download() for name in ("x", "y")}
    launched |= send(segment.backward(part))
    wanted = gather.rows(source, rows, 1 / 255)
    assert np.array_equal(found["x"][:n], wanted), "x is not the samples to the bit"
    assert target.download().tolist() == [*(label[rows].tolist() if labelled else [-7] * n), *[-7] * (len(target) - n)]
    x64, w64, y = wanted.astype(float), w.astype(float), found["y"]
    truth, scale = linear.forward(x64, w64, b.astype(float)), linear.forward(abs(x64), abs(w64), abs(b).astype(float))
    close(y[:n], np.maximum(truth, 0) if len(layers) > 1 else truth, scale, bound("float32", inputs + 1), "y")
    for name, array in found.items():
        untouched(array, n, name)
    d = np.where(y[:n] > 0, dy, 0).astype(float) if len(layers) > 1 else dy.astype(float)
    _, *gradients = linear.backward(x64, w64, d)
    _, *terms = linear.backward(abs(x64), abs(w64), abs(d))
    for name, gradient, size in zip(("dw", "db"), gradients, terms, strict=True):
        close(arrays[name].download(), gradient, size, bound("float32", n), name)
    return launched


def head_cases(key: tuple[type, ...], kind: type[Segment]) -> Runs:
    """Of layers and the loss that they end with."""
    if key != (Linear, CrossEntropyLoss):
        return
    here = Limits("any")
    fitting = [(layer, shape) for layer, shape in LAYERS[Linear] if kind.takes(_last(layer, shape, here, 1))]
    for position, (layer, in_shape) in enumerate(fitting):
        capacity, n = BATCHES[position % len(BATCHES)]
        for want_dx, count in ((True, n), (False, MANY if position == 0 else n)):
            room = max(capacity, count)
            name = f"{layer} on {in_shape}, {count} of {room}{'' if want_dx else ', no dx'}"
            yield name, lambda device, a=(kind, layer, in_shape, room, count, want_dx): _head(device, *a)  # type: ignore[misc]


def _last(layer: Layer, in_shape: Shape, limits: Limits, capacity: int) -> Subgraph:
    """A layer and the loss, at the end of a net whose other layers have nearly all of the FLOPs."""
    return replace(step_of((layer,), in_shape, limits, capacity, capacity, gathers=False), product_flops=2**40)


def _head(
    device: Device, kind: type[Segment], layer: Layer, in_shape: Shape, capacity: int, n: int, want_dx: bool
) -> set[str]:
    """A step of one batch, then both slices of another."""
    random = np.random.default_rng(n)
    classes, inputs = layer.out_shape(in_shape)[0], in_shape[0]
    w, b = random.normal(size=(classes, inputs)).astype(np.float32), random.normal(size=classes).astype(np.float32)
    x, label = nan(capacity, inputs), np.full(capacity, -1, np.int32)
    x[:n], label[:n] = random.normal(size=(n, inputs)), random.integers(0, classes, n)
    host = {"x": x, "dx": nan(capacity, inputs), "w": w, "b": b, "dw": nan(*w.shape), "db": nan(*b.shape)}
    arrays = {name: device.array(array, name) for name, array in host.items()}
    log = log_of(device)
    operands = Operands(
        Buffers(y=None, **{**arrays, "dx": arrays["dx"] if want_dx else None}), (arrays["w"], arrays["b"]), (arrays["dw"], arrays["db"]),
        target=device.array(label, "target"), log=log,
    )  # fmt: skip
    segment = kind(device, _last(layer, in_shape, device.limits, capacity), operands, 256)
    x64, w64 = x[:n].astype(float), w.astype(float)
    logits = linear.forward(x64, w64, b.astype(float))
    limit = bound("float32", inputs + classes + n)
    launched: set[str] = set()
    for step, parts in enumerate(([Slice(n, n)], [Slice(n, 2 * n), Slice(n, 2 * n, n)])):
        for part in parts:  # the same samples twice make the batch of two slices
            launched |= send(segment.prepare(part)) | send(segment.forward(part)) | send(segment.backward(part))
            d = cross_entropy.backward(logits, label[:n]) * (n / part.batch)
            sizes = abs(d) + 2 * np.eye(classes)[label[:n]] / part.batch
            truth = linear.backward(x64, w64, d)
            terms = linear.backward(abs(x64), abs(w64), sizes)
            for name, wanted, scale in zip(("dx", "dw", "db"), truth, terms, strict=True):
                if name != "dx" or want_dx:
                    close(arrays[name].download()[: len(wanted)], wanted, scale, limit, name)
        untouched(arrays["dx"].download(), n if want_dx else 0, "dx")
        loss = cross_entropy.forward(logits, label[:n])
        logged(
            log, step, loss, limit * (1 + 2 * abs(logits).max()), cross_entropy.correct(logits, label[:n]) * len(parts)
        )
    return launched


def whole_cases(key: tuple[type, ...], kind: type[Segment]) -> Runs:
    """Of whole steps, from the gathering to the loss."""
    chains = [(net, chain(net, 1, 1, Limits("any"), TrainConfig(), gathers=True)) for net in NETS]
    fitting = [net for net, nodes in chains if tuple(map(type, nodes.nodes)) == key and kind.takes(nodes)]
    for position, net in enumerate(fitting):
        as_bytes = position % 2 == 0
        sizes = [(11, 4, as_bytes), (MANY, None, not as_bytes)] + ([(MANY + 3, MANY, True)] if position == 0 else [])
        for samples, batch, small in sizes:
            config = TrainConfig(
                batch_size=batch, learning_rate=0.3, momentum=0.9, weight_decay=1e-2, nesterov=position % 2 == 0
            )
            name = (
                f"{net.name} on {net.in_shape}, {samples} samples{' as bytes' if small else ''} by {batch or samples}"
            )
            yield name, lambda device, a=(kind, net, config, samples, small): _whole(device, *a)  # type: ignore[misc]


def _whole(
    device: Device, kind: type[Segment], net: Net, config: TrainConfig, samples: int, as_bytes: bool
) -> set[str]:
    """Every step of an epoch from the same parameters, whole and as the first half of a batch, which nothing updates."""
    drawn, reference = _clear(net, config, samples, as_bytes)
    batch, slots = config.batch(samples), ParameterLayout(net)
    start = drawn.state.params, np.random.default_rng(1).normal(size=net.param_count).astype(np.float32)
    held = {name: slots.zeros(device, name) for name in ("parameters", "gradients", "momentum")}
    w, dw, v = held.values()
    data, log = drawn.dataset, log_of(device)
    assert data.train_y is not None
    update = NaiveUpdate(device, config, w, dw, (v,), 256)
    source = replace(stored(device, data.train_x, data.scale, data.train_y, drawn.order.words), step=log.step)
    weights, gradients = (tuple(slots.views(flat).values()) for flat in (w, dw))
    nodes = chain(net, batch, batch, device.limits, config, gathers=True)
    assert kind.updates_in_place(nodes)
    operands = Operands(Buffers(None, None), weights, gradients, source, log=log, update=update)
    segment = kind(device, nodes, operands, 256)
    launched = send(segment.setup)
    for step in range(drawn.steps):
        x, y = reference.batch(drawn.order.indices(step * batch, min((step + 1) * batch, samples)))
        limit, sizes = bound("float32", longest_chain(net, len(x))), magnitudes(reference, x, y)
        loss, correct, wanted = reference.gradients(x, y)
        for halves in (2, 1):
            slots.upload(w, start[0])
            slots.upload(v, start[1])
            slots.upload(dw, nan(net.param_count))
            part = Slice(len(x), halves * len(x))
            launched |= send(segment.prepare(part)) | send(segment.forward(part)) | send(segment.backward(part))
            found = slots.download(dw)
            for name, truth in params.views(net, wanted).items():
                close(
                    params.views(net, found)[name],
                    truth / halves,
                    params.views(net, sizes.grads)[name],
                    limit,
                    f"the gradient of {name}",
                )
            after = slots.download(w), slots.download(v)
            if halves == 2:
                assert after[0].tobytes() + after[1].tobytes() == start[0].tobytes() + start[1].tobytes()
            else:
                w64, g64, v64 = (array.astype(float) for array in (start[0], found, start[1]))
                stepped, held64 = update_reference.step(
                    w64, g64, {"momentum_buffer": v64}, config, config.learning_rate, 1
                )
                for got, truth in zip(after, (stepped, held64.get("momentum_buffer", v64)), strict=True):
                    close(got, truth, abs(w64) + abs(g64) + abs(v64), bound("float32", 8), "the update")
        logged(log, step, loss, limit * sizes.loss, correct)
    return launched


def _clear(net: Net, config: TrainConfig, samples: int, as_bytes: bool) -> tuple[Case, ReferenceTrainer]:
    """Random samples among which none is so close to a switch that rounding could throw it."""
    limit = bound("float32", longest_chain(net, config.batch(samples)))
    for seed in range(100):
        drawn = case(net, config, seed, samples, as_bytes)
        reference = ReferenceTrainer(net, config, drawn.state)
        reference.load(drawn.dataset)
        x, y = reference.batch(np.arange(samples))
        if magnitudes(reference, x, y).closest.min(initial=math.inf) > limit:
            return drawn, reference
    raise AssertionError(f"no samples are clear of the switches of {net.name}")
