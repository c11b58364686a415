"""Weights and momentum from and to PyTorch, by way of `state_dict` alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import warpladder as wl
from runs import CNN, CONFIG, MLP, data
from warpladder.errors import ArgumentError, CheckpointError, ConfigError, DataError
from warpladder.params import initial, views
from warpladder.tolerance import bound


def weights(net=MLP, seed=1):
    return {name: array.copy() for name, array in views(net, initial(net, seed)).items()}


def test_weights_go_out_and_come_back():
    run = wl.train(CNN, data(), CONFIG)
    out = run.state_dict()
    assert list(out) == ["0.weight", "0.bias", "4.weight", "4.bias"] and all(array.dtype == np.float32 for array in out.values())
    out["0.weight"][:] = 0
    assert run.params["0.weight"].any(), "what is given away is a copy"
    back = wl.Model.from_state_dict(CNN, run.state_dict(), run.optimizer_state_dict(), scale=1 / 255)
    assert np.array_equal(back.outputs(data().test_x), run.outputs(data().test_x))
    assert {k: v.tobytes() for k, v in back.checkpoint.velocity.items()} == {k: v.tobytes() for k, v in run.checkpoint.velocity.items()}
    assert back.checkpoint.config == wl.TrainConfig(epochs=0, learning_rate=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)


def test_a_model_of_given_weights_is_a_checkpoint_like_any_other(tmp_path):
    names = ("cat", "dog", "eel")
    model = wl.Model.from_state_dict(MLP, weights(), scale=1 / 255, classes=names)
    model.save(tmp_path / "model.safetensors")
    loaded = wl.load(tmp_path / "model.safetensors")
    x = data().test_x
    assert np.array_equal(loaded.outputs(x), model.outputs(x)) and set(loaded.predict(x)) <= set(names) and loaded.history == []
    with pytest.raises(CheckpointError, match="belongs to another run"):
        wl.train(MLP, data(), CONFIG, resume=tmp_path / "model.safetensors")


def test_a_prefix_that_all_names_share_is_left_out():
    plain = wl.Model.from_state_dict(MLP, weights())
    wrapped = wl.Model.from_state_dict(MLP, {f"module.{name}": array for name, array in weights().items()})
    assert all(np.array_equal(array, plain.params[name]) for name, array in wrapped.params.items())


def state(**changes):
    group = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0, "nesterov": False, "dampening": 0, "params": [0, 1, 2, 3]}
    buffers = {n: {"momentum_buffer": array} for n, array in enumerate(weights(seed=2).values())}
    return {"state": buffers, "param_groups": [group | changes]}


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "a net's name": (("mlp", weights()), ArgumentError, "wants a Net and a state_dict, got str and dict"),
    "a module": ((MLP, object()), ArgumentError, "wants a Net and a state_dict"),
    "a missing name": ((MLP, dict(list(weights().items())[1:])), CheckpointError, "lacks '1.weight'"),
    "another net's": ((CNN, weights()), CheckpointError, "does not fit net 'small cnn'"),
    "another shape": ((MLP, weights() | {"3.bias": np.zeros(4)}), CheckpointError, r"3.bias is \(4,\) there, the net's is \(3,\)"),
    "nan": ((MLP, weights() | {"3.bias": np.full(3, np.nan)}), CheckpointError, "3.bias holds numbers that are not finite"),
    "no optimizer": ((MLP, weights(), {"lr": 1}), CheckpointError, "no optimizer.state_dict"),
    "Adam": ((MLP, weights(), {"state": {}, "param_groups": [{"lr": 1, "betas": (0.9, 0.99)}]}), CheckpointError, "not of torch.optim.SGD"),
    "dampening": ((MLP, weights(), state(dampening=0.5)), ConfigError, "dampening, which SGD here does not have"),
    "maximize": ((MLP, weights(), state(maximize=True)), ConfigError, "maximize"),
    "two groups": ((MLP, weights(), state() | {"param_groups": [{}, {}]}), ConfigError, "2 groups of parameters"),
    "fewer parameters": ((MLP, weights(), state(params=[0, 1])), CheckpointError, "has 2 parameters, net 'small mlp' has 4"),
    "a setting that cannot be": ((MLP, weights(), state(lr=-1.0)), ConfigError, "learning_rate wants"),
}


@pytest.mark.parametrize("case", BAD)
def test_state_dicts_that_cannot_be(case):
    arguments, kind, words = BAD[case]
    with pytest.raises(kind, match=words) as caught:
        wl.Model.from_state_dict(*arguments)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"scale": 0}, "scale must be"), ({"scale": float("nan")}, "scale must be"), ({"classes": ["a", "b"]}, "3 different names"),
        ({"classes": ["b", "a", "c"]}, "in sorted order"), ({"classes": ["a", "a", "b"]}, "3 different names"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(settings, words):
    with pytest.raises(DataError, match=words):
        wl.Model.from_state_dict(MLP, weights(), **settings)


def test_momentum_that_has_no_buffer_yet_is_zero():
    given = state()
    del given["state"][2]
    velocity = wl.Model.from_state_dict(MLP, weights(), given).checkpoint.velocity
    assert not velocity["3.weight"].any() and np.array_equal(velocity["1.weight"], weights(seed=2)["1.weight"])
    assert wl.Model.from_state_dict(MLP, weights(), state(momentum=0.0)).checkpoint.velocity == {}


def test_clipping_has_no_place_in_pytorchs_optimizer():
    run = wl.train(MLP, data(), CONFIG.but(epochs=0, clip_value=1.0))
    with pytest.raises(ConfigError, match="clips no gradients"):
        run.optimizer_state_dict()


def test_no_torch_is_imported_for_any_of_it():
    code = """
import sys, numpy as np, warpladder as wl
net = wl.Net("n", (4,), (wl.Linear(out_features=2),), wl.CrossEntropyLoss())
model = wl.Model.from_state_dict(net, {"0.weight": np.ones((2, 4)), "0.bias": np.zeros(2)})
model.predict(np.ones((3, 4))), model.state_dict(), model.optimizer_state_dict()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# With PyTorch itself


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def module(torch):
    nn = torch.nn
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 7), nn.ReLU(), nn.Linear(7, 3))


def test_a_run_goes_on_in_pytorch_and_back(torch):
    """Two epochs here; a step in PyTorch with the weights and momentum of the first is the first step of the second here."""
    noise = data()
    config = CONFIG.but(batch_size=None, shuffle=False)
    first, second = (wl.train(MLP, noise, config.but(epochs=epochs)) for epochs in (1, 2))
    net = module(torch)
    net.load_state_dict({name: torch.from_numpy(array) for name, array in first.state_dict().items()})
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    saved = first.optimizer_state_dict()
    for number, entry in saved["state"].items():
        saved["state"][number] = {"momentum_buffer": torch.from_numpy(entry["momentum_buffer"])}
    optimizer.load_state_dict(saved)
    loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(noise.train_x).float() / 255), torch.from_numpy(noise.train_y).long())
    loss.backward()
    optimizer.step()
    back = wl.Model.from_state_dict(MLP, net.state_dict(), optimizer.state_dict(), scale=1 / 255)
    for ours, theirs in ((second.checkpoint.params, back.checkpoint.params), (second.checkpoint.velocity, back.checkpoint.velocity)):
        for name, array in ours.items():
            assert np.linalg.norm(array - theirs[name]) <= bound("float32", 53 + 16 + 7, steps=2) * np.linalg.norm(array), name
    assert back.checkpoint.config == config.but(epochs=0, batch_size=64, seed=0, shuffle=True, log_every=100)


def test_tensors_are_samples_and_labels_too(torch):
    noise = data()
    run = wl.train(MLP, noise, CONFIG)
    x, y = torch.from_numpy(noise.test_x), torch.from_numpy(noise.test_y)
    assert np.array_equal(run.outputs(x), run.outputs(noise.test_x)) and run.score(x, y) == run.test_accuracy
    assert np.array_equal(run.outputs(x.float().requires_grad_()), run.outputs(noise.test_x))
    assert np.array_equal(run.outputs(x.to(torch.bfloat16)), run.outputs(noise.test_x)), "bytes are exact in bfloat16"
    made = wl.data.arrays(x, y, x, y)
    assert made.train_x.dtype == np.uint8 and made.train_y is not None and noise.test_y is not None
    assert made.train_y.tolist() == noise.test_y.tolist()


def test_a_module_predicts_what_its_weights_predict_here(torch):
    net = module(torch)
    model = wl.Model.from_state_dict(MLP, dict(net.named_parameters()), scale=1 / 255, classes=["a", "b", "c"])
    x = data().test_x
    with torch.no_grad():
        theirs = net(torch.from_numpy(x).float() / 255).double().numpy()
    assert np.linalg.norm(model.outputs(x) - theirs) <= 2 * bound("float32", 16 + 7 + 2) * np.linalg.norm(theirs)
    assert model.predict(x).tolist() == [["a", "b", "c"][i] for i in theirs.argmax(axis=1)]


def test_a_checkpoint_with_momentum_is_read_by_pytorch_alone(torch, tmp_path):
    """The recipe of docs/python.md for those who have no warpladder at hand: names under "velocity." are momentum."""
    from safetensors.torch import load_file

    run = wl.train(MLP, data(), CONFIG)
    run.save(tmp_path / "mlp.safetensors")
    tensors = load_file(tmp_path / "mlp.safetensors")
    net = module(torch)
    net.load_state_dict({name: tensor for name, tensor in tensors.items() if not name.startswith("velocity.")})
    buffers = {name.removeprefix("velocity."): tensor for name, tensor in tensors.items() if name.startswith("velocity.")}
    assert buffers.keys() == {name for name, _ in net.named_parameters()}
