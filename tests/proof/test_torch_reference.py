"""The reference's whole training steps against torch.autograd and torch.optim, in float64, on 200 drawn nets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from magnitudes import longest_chain, magnitudes
from strategies import ZOO, Case, case, cases
from updates import sizes as update_sizes

from warpladder.config import TrainConfig
from warpladder.nets import (
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Layer,
    Linear,
    MaxPool2d,
    Net,
    ReLU,
    Shape,
    Upsample2d,
    params,
)
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.optimizers.schedules import Cosine
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.tolerance import bound

torch = pytest.importorskip("torch")

MOST_STEPS = 4


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Nets this small gain nothing from more, and wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def module(layer: Layer, in_shape: Shape) -> Any:
    match layer:
        case Linear():
            return torch.nn.Linear(in_shape[0], layer.out_features, layer.bias)
        case Conv2d():
            return torch.nn.Conv2d(
                in_shape[0],
                layer.out_channels,
                layer.kernel_size,
                stride=layer.stride,
                padding=layer.padding,
                bias=layer.bias,
            )
        case ReLU():
            return torch.nn.ReLU()
        case MaxPool2d():
            return torch.nn.MaxPool2d(layer.kernel_size, stride=layer.stride)
        case Upsample2d():
            return torch.nn.Upsample(scale_factor=layer.scale_factor)
        case Flatten():
            return torch.nn.Flatten()
    return getattr(torch.nn, type(layer).__name__)(**vars(layer))


def follow(drawn: Case) -> int:
    """Train torch's net and the reference side by side, never brought together again; returns the steps compared."""
    net, config, samples = drawn.net, drawn.config, len(drawn.dataset.train_x)
    reference = ReferenceTrainer(net, config, drawn.state)
    reference.load(drawn.dataset)
    model = torch.nn.Sequential(
        *(module(layer, shape) for layer, shape in zip(net.layers, net.shapes, strict=False))
    ).double()
    named = params.views(net, reference.params)
    assert list(model.state_dict()) == list(named), "order and names are PyTorch's"
    model.load_state_dict({name: torch.from_numpy(a.copy()) for name, a in named.items()})
    settings = {name: value for name, value in vars(config.optimizer).items() if name != "learning_rate"}
    optimizer = getattr(torch.optim, type(config.optimizer).__name__)(
        model.parameters(), lr=config.learning_rate, foreach=False, **settings
    )
    for name, p in model.named_parameters():
        for slot, values in reference.slots.items():
            optimizer.state[p][slot] = torch.from_numpy(params.views(net, values)[name].copy())
        if isinstance(config.optimizer, Adam):
            optimizer.state[p]["step"] = torch.tensor(float(reference.step))
    batch, compared = config.batch(samples), 0
    for step in range(min(drawn.steps, MOST_STEPS)):
        x, y = reference.batch(drawn.order.indices(step * batch, min((step + 1) * batch, samples)))
        sizes = magnitudes(reference, x, y)
        start, out = reference.state(), model(torch.from_numpy(x))
        if isinstance(net.loss, CrossEntropyLoss):
            assert y is not None
            loss = torch.nn.functional.cross_entropy(out, torch.from_numpy(y.astype(np.int64)))
        else:
            loss = torch.nn.functional.mse_loss(out, torch.from_numpy(x).reshape(out.shape))
        optimizer.zero_grad()
        loss.backward()
        if config.clip_value is not None:
            torch.nn.utils.clip_grad_value_(model.parameters(), config.clip_value)
        rate = float(config.rates(start.step, start.step + 1, samples)[0])
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        log = reference.run(drawn.order, step, step + 1)

        limit = bound("float64", longest_chain(net, len(x)), step + 1)
        if not (sizes.closest > limit).all():
            break
        assert abs(log.loss[0] - loss.item()) <= limit * sizes.loss
        if y is not None:
            assert log.correct[0] == int((out.argmax(1).numpy() == y).sum())
        change, slot_terms = update_sizes(config, start.params, sizes.grads, start.slots, rate, start.step + 1)
        compare(
            net,
            {name: p.detach().numpy() for name, p in model.named_parameters()},
            reference.params,
            abs(start.params) + change,
            limit,
        )
        for slot, terms in slot_terms.items():
            found = {name: optimizer.state[p][slot].numpy() for name, p in model.named_parameters()}
            compare(net, found, reference.slots[slot], terms, limit)
        compared += 1
    return compared


def compare(net: Net, found: dict[str, np.ndarray], wanted: np.ndarray, terms: np.ndarray, limit: float) -> None:
    scales, values = params.views(net, terms), params.views(net, wanted)
    for name, value in values.items():
        assert np.linalg.norm(found[name] - value) <= limit * np.linalg.norm(scales[name]), name


@settings(max_examples=settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=cases())
def test_drawn_nets(drawn: Case) -> None:
    assume(follow(drawn))


@pytest.mark.parametrize(
    "optimizer",
    [SGD(1e-3, momentum=0.9, nesterov=True), Adam(1e-3), AdamW(1e-3)],
    ids=lambda optimizer: type(optimizer).__name__,
)
@pytest.mark.parametrize("net", ZOO, ids=lambda net: net.name)
@pytest.mark.by_day("softmax", "mlp", "cnn", "autoencoder-AdamW")
def test_the_zoo(net: Net, optimizer: SGD | Adam | AdamW) -> None:
    config = TrainConfig(
        batch_size=3, optimizer=replace(optimizer, weight_decay=1e-2), schedule=Cosine(warmup=1), clip_value=0.1
    )
    assert follow(case(net, config, seed=1, samples=5)) == 2
