"""Runs of a small ResNet: PyTorch's training step by step, checkpoints, exchange with PyTorch, clear refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpladder as wl
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.errors import NetError
from warpladder.ladder import find
from warpladder.nets.params import initial, tensor_shapes, tensors, views
from warpladder.proof.reference import ReferenceTrainer
from warpladder.train.hidden import layer_outputs
from warpladder.trainers.base import State


def conv(channels: int, stride: int = 1) -> wl.Conv2d:
    return wl.Conv2d(out_channels=channels, kernel_size=3, stride=stride, padding=1, bias=False)


def chain(*, normal: bool) -> tuple[wl.nets.Layer | wl.Residual, ...]:
    """Layers of a small ResNet: an identity, and a projection that halves the images."""
    norm = (wl.BatchNorm2d(),) if normal else ()
    project = [wl.Conv2d(out_channels=5, kernel_size=1, stride=2), *norm]
    return (
        conv(3), *norm, wl.ReLU(), wl.Residual(conv(3), *norm, wl.ReLU(), conv(3), *norm), wl.ReLU(),
        wl.Residual(conv(5, 2), *norm, wl.ReLU(), conv(5), *norm, projection=project), wl.ReLU(),
        wl.AdaptiveAvgPool2d(1), wl.Flatten(), wl.Linear(out_features=4),
    )  # fmt: skip


RESNET = wl.Net("resnet", (2, 6, 6), chain(normal=True), wl.CrossEntropyLoss())
PLAIN = wl.Net("plain", (2, 6, 6), chain(normal=False), wl.CrossEntropyLoss())
NETS = pytest.mark.parametrize("net", [RESNET, PLAIN], ids=lambda net: net.name)
CONFIG = wl.TrainConfig(epochs=2, batch_size=5, learning_rate=0.1, momentum=0.9)
N = 14


def data() -> Dataset:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, 2, 6, 6)).astype(np.float32), rng.integers(0, 4, N).astype(np.int32)
    return Dataset("drawn", x, y, x[:3], y[:3])


def start(net: wl.Net) -> State:
    return State(initial(net, 0) + np.random.default_rng(1).normal(0, 0.1, net.param_count).astype(np.float32))


@NETS
def test_steps_are_pytorchs_to_the_last_digits(net: wl.Net) -> None:
    """Three steps with a partial batch in float64, by modules and by a function of parameters."""
    torch = pytest.importorskip("torch")
    from warpladder.rungs.peers.torch.net import forward, sequential

    model, order, drawn, begin = sequential(net).double(), Order(1, 0, N), data(), start(net)
    with torch.no_grad():
        for name, view in views(net, begin.params).items():
            model.get_parameter(name).copy_(torch.tensor(view))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(3):
        some = order.indices(5 * step, min(5 * step + 5, N))
        optimizer.zero_grad()
        seen, labels = torch.tensor(drawn.train_x[some]).double(), torch.tensor(drawn.train_y[some]).long()  # type: ignore[index]
        loss = torch.nn.functional.cross_entropy(model(seen), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    trainer = ReferenceTrainer(net, CONFIG, begin)
    trainer.load(drawn)
    assert np.abs(trainer.run(order, 0, 3).loss - losses).max() <= 1e-12
    assert list(model.state_dict().keys() - {name for name in model.state_dict() if "num_batches" in name})
    for name, array in tensors(net, trainer.params, trainer.buffers).items():
        assert np.abs(array - model.state_dict()[name].numpy()).max() <= 1e-12, name
    seen = torch.tensor(drawn.train_x).double()
    out = trainer.predict(drawn.train_x, 1.0)
    assert np.abs(out - model.eval()(seen).detach().numpy()).max() <= 1e-12
    if net is PLAIN:
        named = {name: torch.tensor(view) for name, view in views(net, trainer.params).items()}
        assert np.abs(out - forward(net, named, seen, channels_last=False).numpy()).max() <= 1e-12


@NETS
@pytest.mark.parametrize(
    "rung",
    [
        "numpy", "native", "naive:device=emulated", *(pytest.param(name, marks=pytest.mark.slow) for name in (
            "loops", "numpy:precision=fp64", "torch", "jax", "tiled:device=emulated", "gemm:device=emulated",
            "graph:device=emulated", "tensor:device=emulated", "streamed:device=emulated", "resident:device=emulated",
        )),
    ],
)  # fmt: skip
def test_a_rung_follows_the_reference_and_goes_on_in_the_same_bits(rung: str, net: wl.Net) -> None:
    if (reason := find(rung).unsupported(net, CONFIG)) is not None:
        pytest.skip(reason)
    truth, order = ReferenceTrainer(net, CONFIG, start(net)), Order(7, 3, N)
    truth.load(data())
    truth.run(order, 0, 3)
    with find(rung).build(net, CONFIG, start(net)) as one, find(rung).build(net, CONFIG, start(net)) as two:
        for trainer in (one, two):
            trainer.load(data())
        one.run(order, 0, 3)
        end = one.state()
        assert np.abs(end.params - truth.params).max() <= 2e-5
        two.run(order, 0, 2)
        half = two.state()
        with find(rung).build(net, CONFIG, half) as three:
            three.load(data())
            three.run(order, 2, 3)
            assert three.state().bits() == end.bits()


def test_a_checkpoint_goes_to_pytorch_and_back(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    run = wl.train(RESNET, data(), CONFIG, rung="numpy", checkpoint=tmp_path / "a.safetensors")
    again = wl.load(tmp_path / "a.safetensors")
    assert again.net == RESNET and list(again.params) == list(tensor_shapes(RESNET))
    module, x = wl.to_torch(run), data().train_x
    assert list(module.state_dict()) == list(run.state_dict())
    assert {"3.layers.0.weight", "5.projection.0.bias", "5.projection.1.running_var"} <= module.state_dict().keys()
    assert np.abs(module(torch.tensor(x)).detach().numpy() - run.outputs(x)).max() <= 1e-5
    back = wl.from_torch(module, (2, 6, 6))
    assert back.net.layers == RESNET.layers
    assert np.array_equal(back.outputs(x), again.outputs(x))
    whole = wl.train(RESNET, data(), CONFIG.but(epochs=4), rung="numpy")
    resumed = wl.train(RESNET, data(), CONFIG.but(epochs=4), rung="numpy", resume=tmp_path / "a.safetensors")
    assert all(np.array_equal(resumed.params[name], array) for name, array in whole.params.items())


def test_a_module_of_ones_own_with_residuals_is_a_net() -> None:
    torch = pytest.importorskip("torch")
    from torch import nn

    from warpladder.rungs.peers.torch.residual import ResidualModule

    inner = ResidualModule(nn.Linear(5, 5), nn.Tanh())
    module = nn.Sequential(
        nn.Linear(6, 5), ResidualModule(inner, nn.Identity(), nn.Linear(5, 3), projection=nn.Linear(5, 3))
    )
    model, x = wl.from_torch(module), np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    assert np.abs(model.outputs(x) - module(torch.tensor(x)).detach().numpy()).max() <= 1e-6
    with pytest.raises(NetError, match=r"module 1\.layers\.0 is Softplus.*Residual, and Sequentials"):
        wl.from_torch(nn.Sequential(nn.Linear(6, 5), ResidualModule(nn.Softplus())))


def test_the_outputs_of_layers_within_a_residual_are_predicted() -> None:
    run, x = wl.train(PLAIN, data(), CONFIG, rung="numpy"), data().train_x
    params = np.concatenate([array.ravel() for array in run.params.values()])
    entering = ReferenceTrainer(PLAIN, CONFIG, State(params)).activations(x.astype(np.float64))
    for layer in range(PLAIN.first_trained, len(PLAIN.layers)):
        with layer_outputs(run.checkpoint, layer, "numpy") as outputs:
            assert np.abs(outputs(x, 1.0) - entering[layer + 1].reshape(N, -1)).max() <= 1e-5, layer


def test_rungs_that_cannot_train_it_state_why() -> None:
    for name in ("persistent:device=emulated", "sklearn"):
        reason = find(name).unsupported(PLAIN, CONFIG)
        assert reason and "\n" not in reason, name
