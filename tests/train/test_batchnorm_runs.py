"""Runs of nets with BatchNorm: PyTorch's training step by step, checkpoints, exchange with PyTorch, clear refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import warpladder as wl
from warpladder.checkpoint import decode, encode
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.errors import CheckpointError, DataError, NetError
from warpladder.ladder import find
from warpladder.nets.params import buffer_views, initial, tensor_shapes, tensors, views
from warpladder.proof.reference import ReferenceTrainer
from warpladder.trainers.base import State

NET = wl.Net(
    "normal", (2, 6, 6),
    (
        wl.Conv2d(out_channels=3, kernel_size=3), wl.BatchNorm2d(), wl.ReLU(), wl.BatchNorm2d(affine=False, momentum=0.3, eps=1e-3),
        wl.Flatten(), wl.Linear(out_features=8), wl.BatchNorm1d(momentum=0.2), wl.Tanh(), wl.Linear(out_features=4),
    ),
    wl.CrossEntropyLoss(),
)  # fmt: skip
CONFIG = wl.TrainConfig(epochs=2, batch_size=5, learning_rate=0.1, momentum=0.9, clip_norm=1.0)
N = 14


def data() -> Dataset:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, 2, 6, 6)).astype(np.float32), rng.integers(0, 4, N).astype(np.int32)
    return Dataset("drawn", x, y, x[:3], y[:3], valid_x=x[3:7], valid_y=y[3:7])


def start() -> State:
    return State(initial(NET, 0) + np.random.default_rng(1).normal(0, 0.1, NET.param_count).astype(np.float32))


def test_steps_are_pytorchs_to_the_last_digits() -> None:
    """Three steps with a partial batch in float64: losses, parameters, running statistics and predictions."""
    torch = pytest.importorskip("torch")
    from warpladder.rungs.peers.torch.net import sequential

    model, order, drawn = sequential(NET).double(), Order(1, 0, N), data()
    with torch.no_grad():
        for name, view in views(NET, start().params).items():
            model.get_parameter(name).copy_(torch.tensor(view))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(3):
        some = order.indices(5 * step, min(5 * step + 5, N))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            model(torch.tensor(drawn.train_x[some]).double()), torch.tensor(drawn.train_y[some]).long()  # type: ignore[index]
        )  # fmt: skip
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    trainer = ReferenceTrainer(NET, CONFIG, start())
    trainer.load(drawn)
    assert np.abs(trainer.run(order, 0, 3).loss - losses).max() <= 1e-12
    for name, array in tensors(NET, trainer.params, trainer.buffers).items():
        assert np.abs(array - model.state_dict()[name].numpy()).max() <= 1e-12, name
    seen = model.eval()(torch.tensor(drawn.train_x).double()).detach().numpy()
    assert np.abs(trainer.predict(drawn.train_x, 1.0) - seen).max() <= 1e-12


@pytest.mark.parametrize(
    "rung",
    [
        "numpy", "numpy:precision=fp64", "numpy:sums=float64", "naive:device=emulated", "native:threads=2",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("loops", "native", "torch", "jax", "graph:device=emulated", "tensor:device=emulated")),
    ],
)  # fmt: skip
def test_a_rung_follows_the_reference_and_goes_on_in_the_same_bits(rung: str) -> None:
    if (reason := find(rung).unsupported(NET, CONFIG)) is not None:
        pytest.skip(reason)
    truth, order = ReferenceTrainer(NET, CONFIG, start()), Order(7, 3, N)
    truth.load(data())
    truth.run(order, 0, 3)
    with find(rung).build(NET, CONFIG, start()) as one, find(rung).build(NET, CONFIG, start()) as two:
        for trainer in (one, two):
            trainer.load(data())
        one.run(order, 0, 3)
        end = one.state()
        assert end.buffers is not None and end.buffers.dtype == end.params.dtype
        assert np.abs(end.params - truth.params).max() <= 2e-5
        assert np.abs(end.buffers - truth.buffers).max() <= 2e-6
        two.run(order, 0, 2)
        two.predict(data().train_x[:1], 1.0)  # one sample has no statistics of its own
        half = two.state()
        with find(rung).build(NET, CONFIG, half) as three:
            three.load(data())
            three.run(order, 2, 3)
            assert three.state().bits() == end.bits()


def test_a_checkpoint_has_the_statistics_under_pytorchs_names(tmp_path: Path) -> None:
    whole = wl.train(NET, data(), CONFIG, rung="numpy")
    whole.save(tmp_path / "a.safetensors")
    again = wl.load(tmp_path / "a.safetensors")
    assert list(again.params) == list(tensor_shapes(NET))
    assert np.array_equal(again.outputs(data().train_x), whole.outputs(data().train_x))
    names = list(again.state_dict())
    assert names[2:7] == ["1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert names[7:10] == ["3.running_mean", "3.running_var", "3.num_batches_tracked"]
    assert again.state_dict()["3.num_batches_tracked"] == 6
    bad = dict(again.params) | {"1.running_var": -again.params["1.running_var"]}
    with pytest.raises(CheckpointError, match=r"1\.running_var below 0"):
        decode(encode(replace(again.checkpoint, params=bad)))


def test_a_stopped_run_goes_on_in_the_same_bits(tmp_path: Path) -> None:
    whole = wl.train(NET, data(), CONFIG.but(epochs=4), rung="numpy")
    path = tmp_path / "run.safetensors"
    wl.train(NET, data(), CONFIG.but(epochs=2), rung="numpy", checkpoint=path)
    resumed = wl.train(NET, data(), CONFIG.but(epochs=4), rung="numpy", resume=path)
    for name, array in whole.params.items():
        assert np.array_equal(resumed.params[name], array), name


def test_early_stopping_gives_the_statistics_of_the_best_epoch(tmp_path: Path) -> None:
    """Weights and running statistics are those of the epoch that a run of as many epochs ends with."""
    config = CONFIG.but(epochs=6, learning_rate=0.5, clip_norm=None, early_stopping=5)
    path = tmp_path / "run.safetensors"
    run = wl.train(NET, data(), config, rung="numpy", checkpoint=path)
    best = run.best_epoch
    assert best is not None
    short = wl.train(NET, data(), config.but(epochs=best, early_stopping=None), rung="numpy")
    assert best < len(run.history), "this run shows nothing"
    for each in (run, wl.load(path)):
        assert all(np.array_equal(each.params[name], array) for name, array in short.params.items())
        counts = {int(array) for name, array in each.state_dict().items() if "num_batches" in name}
        assert counts == {int(short.state_dict()["1.num_batches_tracked"])} == {3 * best}


def test_early_stopping_ends_with_what_pytorch_holds_after_the_best_epoch() -> None:
    """A loop of PyTorch's in float64 that copies its `state_dict` after each epoch with a lower validation loss."""
    torch = pytest.importorskip("torch")
    config, rung = CONFIG.but(epochs=6, learning_rate=0.5, clip_norm=None, early_stopping=5), "numpy:precision=fp64"
    run = wl.train(NET, data(), config, rung=rung)
    module = wl.to_torch(wl.train(NET, data(), config.but(epochs=0), rung=rung))
    optimizer, lowest, best = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9), np.inf, {}
    x, y = torch.tensor(data().train_x).double(), torch.tensor(data().train_y).long()
    for epoch in range(len(run.history)):
        for rows in torch.from_numpy(Order(config.seed, epoch, N).indices(0, N)).split(5):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module.train()(x[rows]), y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(module.eval()(x[3:7]), y[3:7]).item()
        if loss < lowest:
            lowest, best = loss, {name: array.numpy().copy() for name, array in module.state_dict().items()}
    found = wl.to_torch(run).state_dict()
    assert list(found) == list(best) and run.best_epoch != len(run.history)
    for name, array in best.items():
        assert found[name].numpy().dtype == array.dtype
        assert np.abs(found[name].numpy() - array).max() <= 1e-12, name


def test_models_go_to_pytorch_and_back() -> None:
    torch = pytest.importorskip("torch")
    run = wl.train(NET, data(), CONFIG, rung="numpy")
    module = wl.to_torch(run)
    x = torch.tensor(data().train_x)
    assert np.abs(module(x).detach().numpy() - run.outputs(data().train_x)).max() <= 1e-5
    assert module[1].num_batches_tracked == 6 and not module.training
    back = wl.from_torch(module, (2, 6, 6), name="normal")
    assert back.net == NET
    assert all(np.array_equal(back.state_dict()[name], array) for name, array in run.state_dict().items())
    adam = torch.optim.Adam(module.parameters())
    adam.step()
    taken = wl.from_torch(module, (2, 6, 6), optimizer=adam)
    assert list(taken.checkpoint.slots["exp_avg"]) == list(views(NET, np.zeros(NET.param_count)))
    wl.train(NET, data(), CONFIG, rung="numpy", weights=back.state_dict())
    odd = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4, track_running_stats=False))
    with pytest.raises(NetError, match="track_running_stats=False"):
        wl.from_torch(odd)
    with pytest.raises(NetError, match="give a number from 0 to 1"):
        wl.from_torch(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4, momentum=None)))


@pytest.mark.parametrize("batch", [13, 1])
def test_a_batch_of_one_is_refused_before_the_run(batch: int) -> None:
    with pytest.raises(DataError, match="a batch of 1 has no variance") as caught:
        wl.train(NET, data(), CONFIG.but(batch_size=batch), rung="numpy")
    assert "\n" not in str(caught.value)
    for config in (CONFIG.but(batch_size=13, drop_last=True), CONFIG.but(batch_size=None)):
        wl.train(NET, data(), config.but(epochs=1), rung="numpy")
    for rung in ("numpy", "native"):
        with (
            find(rung).build(NET, CONFIG.but(batch_size=batch), start()) as trainer,
            pytest.raises(DataError, match="a batch of 1 has no variance"),
        ):
            trainer.load(data())


def test_images_may_come_one_by_one() -> None:
    """As in PyTorch: one image has a variance over its pixels."""
    net = wl.Net("pixels", (2, 6, 6), (*NET.layers[:5], wl.Linear(out_features=4)), wl.CrossEntropyLoss())
    wl.train(net, data(), CONFIG.but(epochs=1, batch_size=1), rung="numpy")


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ("BatchNorm1d(eps=0.0)", "wants a number above 0"), ("BatchNorm2d(momentum=1.5)", "from 0 to 1"),
        ("BatchNorm1d(momentum=None)", "give a number"), ("BatchNorm2d(affine=1)", "True or False"),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused(layer: str, words: str) -> None:
    with pytest.raises(NetError, match=words):
        eval(layer, {"BatchNorm1d": wl.BatchNorm1d, "BatchNorm2d": wl.BatchNorm2d})


def test_shapes_are_checked_as_pytorch_checks_them() -> None:
    with pytest.raises(NetError, match="take BatchNorm2d"):
        wl.Net("n", (2, 6, 6), (wl.BatchNorm1d(), wl.Flatten(), wl.Linear(out_features=4)), wl.CrossEntropyLoss())
    with pytest.raises(NetError, match="wants an image"):
        wl.Net("n", (6,), (wl.BatchNorm2d(), wl.Linear(out_features=4)), wl.CrossEntropyLoss())
    assert NET.param_count == 3 * 2 * 9 + 3 + 6 + 48 * 8 + 8 + 16 + 8 * 4 + 4 and NET.buffer_count == 6 + 6 + 16
    assert {name: view.shape for name, view in buffer_views(NET, np.zeros(28)).items()}["6.running_var"] == (8,)


def test_rungs_that_cannot_state_it_in_one_line() -> None:
    for name in ("persistent:device=emulated", "sklearn"):
        reason = find(name).unsupported(NET, CONFIG)
        assert reason is not None and "\n" not in reason, name
