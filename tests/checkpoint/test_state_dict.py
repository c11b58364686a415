"""Weights and momentum from and to PyTorch, by way of `state_dict` alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from checkpoints import example
from runs import CNN, CONFIG, MLP, data, facts

import warpladder as wl
from warpladder.errors import ArgumentError, CheckpointError, ConfigError, DataError
from warpladder.nets.params import initial, views
from warpladder.proof.tolerance import bound


def weights(net=MLP, seed=1):
    return {name: array.copy() for name, array in views(net, initial(net, seed)).items()}


def test_weights_go_out_and_come_back():
    run = wl.train(CNN, data(), CONFIG)
    out = run.state_dict()
    assert list(out) == ["0.weight", "0.bias", "4.weight", "4.bias"] and all(
        array.dtype == np.float32 for array in out.values()
    )
    out["0.weight"][:] = 0
    assert run.params["0.weight"].any(), "what is given away is a copy"
    back = wl.Model.from_state_dict(CNN, run.state_dict(), run.optimizer_state_dict(), scale=1 / 255)
    assert np.array_equal(back.outputs(data().test_x), run.outputs(data().test_x))
    assert facts(back.checkpoint)["slots"] == facts(run.checkpoint)["slots"]
    assert back.checkpoint.config == wl.TrainConfig(
        epochs=0, learning_rate=0.1, momentum=0.9, nesterov=True, weight_decay=0.01
    )


def test_a_model_of_given_weights_is_a_checkpoint_like_any_other(tmp_path):
    names = ("cat", "dog", "eel")
    model = wl.Model.from_state_dict(MLP, weights(), scale=1 / 255, classes=names)
    model.save(tmp_path / "model.safetensors")
    loaded = wl.load(tmp_path / "model.safetensors")
    x = data().test_x
    assert (
        np.array_equal(loaded.outputs(x), model.outputs(x))
        and set(loaded.predict(x)) <= set(names)
        and loaded.history == []
    )
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


def adam(negative=False, step=3, last=3, **changes):
    """The state of an Adam after three updates, three parameters by `step`; settings that are ... are left out."""
    group = {
        "lr": 0.1,
        "betas": (0.9, 0.99),
        "eps": 1e-7,
        "weight_decay": 0.0,
        "amsgrad": False,
        "decoupled_weight_decay": False,
    }
    group = {name: value for name, value in (group | {"params": [0, 1, 2, 3]} | changes).items() if value is not ...}
    kept = [
        {"step": np.float32(step), "exp_avg": array, "exp_avg_sq": -abs(array) if negative else array**2}
        for array in weights(seed=2).values()
    ]
    return {"state": dict(enumerate([*kept[:3], kept[3] | {"step": np.float32(last)}])), "param_groups": [group]}


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "a net's name": (("mlp", weights()), ArgumentError, "wants a Net and a state_dict, got str and dict"),
    "a module": ((MLP, object()), ArgumentError, "wants a Net and a state_dict"),
    "a missing name": ((MLP, dict(list(weights().items())[1:])), CheckpointError, "lacks '1.weight'"),
    "another net's": ((CNN, weights()), CheckpointError, "does not fit net 'small cnn'"),
    "another shape": ((MLP, weights() | {"3.bias": np.zeros(4)}), CheckpointError, r"3.bias is \(4,\), not \(3,\)"),
    "nan": (
        (MLP, weights() | {"3.bias": np.full(3, np.nan)}),
        CheckpointError,
        "3.bias holds numbers that are not finite",
    ),
    "no optimizer": ((MLP, weights(), {"lr": 1}), CheckpointError, "no optimizer.state_dict"),
    "RMSprop": (
        (MLP, weights(), {"state": {}, "param_groups": [{"lr": 1, "alpha": 0.9, "momentum": 0}]}),
        CheckpointError,
        "not of torch.optim.SGD, Adam, AdamW or RMSprop",
    ),
    "NAdam": ((MLP, weights(), adam(amsgrad=...)), CheckpointError, "not of torch.optim.SGD, Adam, AdamW or RMSprop"),
    "amsgrad": ((MLP, weights(), adam(amsgrad=True)), ConfigError, "amsgrad, which Adam here does not have"),
    "Adam that maximizes": ((MLP, weights(), adam(maximize=True)), ConfigError, "maximize"),
    "betas that cannot be": ((MLP, weights(), adam(betas=(0.9, 1.0))), ConfigError, "betas wants two numbers"),
    "Adam or AdamW": (
        (MLP, weights(), adam(decoupled_weight_decay=..., weight_decay=0.1)),
        CheckpointError,
        "does not say whether the optimizer is Adam or",
    ),
    "squares below 0": ((MLP, weights(), adam(negative=True)), CheckpointError, "exp_avg_sq below 0"),
    "parameters that were updated apart": (
        (MLP, weights(), adam(step=4)),
        CheckpointError,
        "updated some parameters more often",
    ),
    "half an update": (
        (MLP, weights(), adam(step=2.5, last=2.5)),
        CheckpointError,
        "updated some parameters more often",
    ),
    "dampening": ((MLP, weights(), state(dampening=0.5)), ConfigError, "dampening, which SGD here does not have"),
    "maximize": ((MLP, weights(), state(maximize=True)), ConfigError, "maximize"),
    "two groups": ((MLP, weights(), state() | {"param_groups": [{}, {}]}), ConfigError, "2 groups of parameters"),
    "fewer parameters": (
        (MLP, weights(), state(params=[0, 1])),
        CheckpointError,
        "has 2 parameters, net 'small mlp' has 4",
    ),
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
    kept = wl.Model.from_state_dict(MLP, weights(), given).checkpoint.slots["momentum_buffer"]
    assert not kept["3.weight"].any() and np.array_equal(kept["1.weight"], weights(seed=2)["1.weight"])
    assert wl.Model.from_state_dict(MLP, weights(), state(momentum=0.0)).checkpoint.slots == {}


@pytest.mark.parametrize("decoupled", [False, True, ...])
def test_an_adam_comes_in_is_kept_and_goes_out(tmp_path, decoupled):
    given = adam(decoupled_weight_decay=decoupled, weight_decay=0.0 if decoupled is ... else 0.01)
    wl.Model.from_state_dict(MLP, weights(), given).save(tmp_path / "m")
    model = wl.load(tmp_path / "m")
    assert type(model.config.optimizer) is (wl.AdamW if decoupled is True else wl.Adam) and model.checkpoint.made == 3
    out = model.optimizer_state_dict()
    assert (
        out["param_groups"][0]
        == {"maximize": False, "decoupled_weight_decay": decoupled is True} | given["param_groups"][0]
    )
    for number, entry in given["state"].items():
        assert (
            out["state"][number].keys() == entry.keys()
            and out["state"][number]["step"] == 3
            and out["state"][number]["step"].dtype == np.float32
        )
        assert all(np.array_equal(out["state"][number][name], entry[name]) for name in entry)


def test_a_run_says_how_many_updates_its_adam_made():
    run = wl.train(MLP, data(), CONFIG.but(optimizer=wl.Adam(0.01)))
    assert {float(entry["step"]) for entry in run.optimizer_state_dict()["state"].values()} == {21.0}
    fresh = wl.Model.from_state_dict(MLP, weights(), {"state": {}, "param_groups": adam()["param_groups"]})
    assert fresh.checkpoint.made == 0 and not fresh.optimizer_state_dict()["state"][0]["exp_avg_sq"].any()


def test_an_optimizer_that_pytorch_does_not_have_is_not_told_as_one_of_its():
    class Signs(wl.SGD):
        """One of somebody's own."""

    try:
        with pytest.raises(
            ConfigError, match="Signs is none of PyTorch's optimizers that are known here: SGD, Adam, AdamW"
        ):
            wl.Model(replace(example(MLP), config=wl.TrainConfig(optimizer=Signs(0.1)))).optimizer_state_dict()
    finally:
        del wl.SGD.known["signs"]


@pytest.mark.parametrize("clip", ["clip_value", "clip_norm"])
def test_clipping_has_no_place_in_pytorchs_optimizer(clip):
    run = wl.train(MLP, data(), CONFIG.but(epochs=0, **{clip: 1.0}))
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
    """Two epochs here; a step in PyTorch with the weights and momentum of the first is the first step of the second
    here.
    """
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
    loss = torch.nn.functional.cross_entropy(
        net(torch.from_numpy(noise.train_x).float() / 255), torch.from_numpy(noise.train_y).long()
    )
    loss.backward()
    optimizer.step()
    back = wl.Model.from_state_dict(MLP, net.state_dict(), optimizer.state_dict(), scale=1 / 255)
    for ours, theirs in together(second, back):
        for name, array in ours.items():
            assert np.linalg.norm(array - theirs[name]) <= bound("float32", 53 + 16 + 7, steps=2) * np.linalg.norm(
                array
            ), name
    assert back.checkpoint.config == config.but(epochs=0, batch_size=64, seed=0, shuffle=True, log_every=None)


def together(*models):
    """Weights and each of the slots of models, side by side."""
    a, b = (model.checkpoint for model in models)
    assert a.slots.keys() == b.slots.keys()
    return [(a.params, b.params), *((a.slots[name], b.slots[name]) for name in a.slots)]


BOTH_WAYS = [
    wl.Adam(0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1),
    wl.AdamW(0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1),
    wl.RMSprop(0.01, alpha=0.9, eps=1e-6, weight_decay=0.1),
    wl.RMSprop(0.01, alpha=0.9, eps=1e-6, momentum=0.5),
]


@pytest.mark.parametrize("kind", BOTH_WAYS, ids=lambda each: each.described())
def test_a_run_with_an_optimizer_goes_on_in_pytorch_and_back(torch, kind):
    """Three epochs of one step here, and a fourth there, are four here; settings, counts and running means go both
    ways.
    """
    noise = data()
    config = CONFIG.but(batch_size=None, shuffle=False, optimizer=kind)
    first, second = (wl.train(MLP, noise, config.but(epochs=epochs)) for epochs in (3, 4))
    net = module(torch)
    net.load_state_dict({name: torch.from_numpy(array) for name, array in first.state_dict().items()})
    optimizer = getattr(torch.optim, type(kind).__name__)(net.parameters(), lr=1.0)
    saved = first.optimizer_state_dict()
    for entry in saved["state"].values():
        entry.update({name: torch.from_numpy(array) for name, array in entry.items()})
    optimizer.load_state_dict(saved)
    there = optimizer.state_dict()
    same = wl.Model.from_state_dict(MLP, net.state_dict(), there, scale=1 / 255)
    assert facts(same.checkpoint)["slots"] == facts(first.checkpoint)["slots"] and same.checkpoint.made == 3
    assert same.checkpoint.config.optimizer == config.optimizer
    loss = torch.nn.functional.cross_entropy(
        net(torch.from_numpy(noise.train_x).float() / 255), torch.from_numpy(noise.train_y).long()
    )
    loss.backward()
    optimizer.step()
    back = wl.Model.from_state_dict(MLP, net.state_dict(), optimizer.state_dict(), scale=1 / 255)
    assert back.checkpoint.made == second.checkpoint.made == 4
    for ours, theirs in together(second, back):
        for name, array in ours.items():
            assert np.linalg.norm(array - theirs[name]) <= 4 * bound("float32", 53 + 16 + 7, steps=2) * np.linalg.norm(
                array
            ), name


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
    """The recipe of docs/python.md for those who have no warpladder at hand: weights' names begin with the layer's
    number.
    """
    from safetensors.torch import load_file

    run = wl.train(MLP, data(), CONFIG)
    run.save(tmp_path / "mlp.safetensors")
    tensors = load_file(tmp_path / "mlp.safetensors")
    net = module(torch)
    net.load_state_dict({name: tensor for name, tensor in tensors.items() if name[0].isdigit()})
    buffers = {
        name.removeprefix("momentum_buffer."): tensor for name, tensor in tensors.items() if not name[0].isdigit()
    }
    assert buffers.keys() == {name for name, _ in net.named_parameters()}
