"""PyTorch at the door: nets and weights from modules, and modules from runs, with equal outputs."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import warpladder as wl
from warpladder.errors import ArgumentError, NetError

torch = pytest.importorskip("torch")
nn = torch.nn
parametrizations = torch.nn.utils.parametrizations

MODULES = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), None, (6,)),
    "nested": (
        lambda: nn.Sequential(
            nn.Sequential(nn.Flatten(), nn.Identity(), nn.Linear(16, 7), nn.ReLU(inplace=True)),
            nn.Sequential(nn.Sequential(nn.Linear(7, 3))),
        ),
        (1, 4, 4),
        (1, 4, 4),
    ),
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, (3, 3), padding="same"), nn.ReLU(), nn.MaxPool2d((2, 2)), nn.Conv2d(4, 3, 2, stride=2),
            nn.Flatten(), nn.Linear(12, 5),
        ),
        (2, 8, 8),
        (2, 8, 8),
    ),
    "smooth": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding="same", bias=False), nn.SiLU(), nn.AvgPool2d(2), nn.GELU("tanh"),
            nn.Conv2d(4, 3, 1), nn.LeakyReLU(0.2), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Tanh(),
            nn.Linear(3, 5, bias=False), nn.Sigmoid(), nn.GELU(),
        ),
        (2, 8, 8),
        (2, 8, 8),
    ),
    "autoencoder": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, stride=2), nn.Upsample(scale_factor=2.0),
            nn.Conv2d(4, 1, 3, padding=1),
        ),
        (1, 6, 6),
        (1, 6, 6),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_a_module_becomes_a_model_with_its_outputs_and_the_model_a_module(name):
    make, given, shape = MODULES[name]
    torch.manual_seed(1)
    module = make()
    model = wl.from_torch(module, given, name=name)
    x = np.random.default_rng(0).normal(size=(9, *shape)).astype(np.float32)
    with torch.no_grad():
        wanted = module(torch.from_numpy(x)).numpy()
        assert np.allclose(model.outputs(x), wanted, rtol=1e-5, atol=1e-6)
        back = wl.to_torch(model)
        assert np.array_equal(back(torch.from_numpy(x)).numpy().shape, wanted.shape)
        assert np.allclose(back(torch.from_numpy(x)).numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert type(back) is nn.Sequential and not back.training and list(back.state_dict()) == list(model.params)
    again = wl.from_torch(back, shape, name=name)
    assert again.net == model.net and all((again.params[each] == model.params[each]).all() for each in model.params)


@pytest.mark.parametrize("form", ["pixels", "standardised", "fp64"])
def test_a_runs_module_takes_samples_in_the_units_of_the_data(form):
    data = wl.data.load("digits", limit=60, standardize=form == "standardised")
    rung = "numpy:precision=fp64" if form == "fp64" else "numpy"
    run = wl.train(wl.nets.mlp(data.in_shape, hidden=(9,)), data, wl.TrainConfig(epochs=2), rung=rung)
    module = wl.to_torch(run)
    with torch.no_grad():
        found = module(torch.from_numpy(data.test_x)).numpy()
        net_alone = module[1:](torch.from_numpy(data.test_x).float().div(16).to(module[2].weight.dtype)).numpy()
    tight = 1e-12 if form == "fp64" else 1e-4
    assert np.allclose(found, run.outputs(data.test_x), rtol=tight, atol=tight)
    assert (net_alone == found).all() or form == "standardised"
    assert list(module.state_dict()) == list(run.params)
    again = wl.from_torch(module, data.in_shape)
    assert (again.predict(data.test_x) == run.predict(data.test_x)).all()


@pytest.mark.parametrize("learnt", [{"label": "kind"}, {"target": ["price", "tax"]}], ids=["labels", "targets"])
def test_the_module_of_a_table_takes_encoded_rows(learnt):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"size": rng.normal(90, 30, 120), "city": rng.choice(["Bern", "Genf"], 120)})
    frame["kind"], frame["price"], frame["tax"] = np.where(frame["size"] > 90, "big", "small"), 3 * frame["size"], 1.0
    frame.loc[::9, "size"], frame.loc[::5, "tax"] = np.nan, 2.0
    data = wl.data.table(frame, drop=[] if "target" in learnt else ["price", "tax"], **learnt)
    run = wl.train("mlp", data, wl.TrainConfig(epochs=2), rung="numpy")
    module, raw = wl.to_torch(run), frame[["city", "size"]] if "label" in learnt else frame[["kind", "size", "city"]]
    with torch.no_grad():
        found = module(torch.from_numpy(run.encode(raw))).numpy()
    assert np.allclose(found, run.outputs(raw), rtol=1e-5, atol=1e-6)
    assert np.array_equal(run.encode(data.test_x), data.test_x) and run.encode(raw).shape[1] == data.in_shape[0]


def test_weights_and_optimizer_go_on_from_where_torch_left_them():
    data = wl.data.load("digits", limit=64)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    x, y = torch.from_numpy(data.train_x).float() / 16, torch.from_numpy(data.train_y).long()
    nn.functional.cross_entropy(module(x), y).backward()
    optimizer.step()
    model = wl.from_torch(module, data.in_shape, loss=nn.CrossEntropyLoss(), optimizer=optimizer, scale=1 / 16)
    kept = model.optimizer_state_dict()
    assert kept["state"][0]["step"] == 1 and kept["param_groups"][0]["lr"] == 0.01
    run = wl.train(model.net, data, wl.TrainConfig(epochs=1, batch_size=None, learning_rate=0.5), weights=model)
    loss = nn.functional.cross_entropy(module(x), y)
    assert run.history[0].train_loss == pytest.approx(loss.item(), rel=1e-5)


class Derived(nn.Linear):  # type: ignore[name-defined]
    pass


class Doubled(nn.Sequential):  # type: ignore[name-defined]
    def forward(self, x: Any) -> Any:
        return 2 * super().forward(x)


def tied(name: str, source: Callable[[Any], Any]) -> list[Any]:
    """Two layers, of which the second has a parameter, or its numbers, of the first."""
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    setattr(second, name, source(first))
    return [first, nn.ReLU(), second]


def hooked(register: str) -> Any:
    """Inner Sequential with a hook that doubles what goes through it."""
    inner = nn.Sequential(nn.Linear(4, 4))
    getattr(inner, register)(lambda module, *given: tuple(2 * each for each in given[-1]))
    return inner


def patched(module: Any) -> Any:
    """Module whose own `forward` gives twice as much."""
    before = module.forward
    module.forward = lambda x: 2 * before(x)
    return module


def unbiased(module: Any) -> Any:
    module.bias = None
    return module


SHARED = nn.Linear(4, 4)
#: Modules that are refused, and the message.
REFUSED = {
    "another module": (lambda: [nn.Linear(4, 4), nn.LSTM(4, 4)], r"module 1 is LSTM, which is no layer here"),
    "deep in": (lambda: [nn.Sequential(nn.Linear(4, 4), nn.Softmax(1))], r"module 0\.1 is Softmax.*: leave it out"),
    "a class of one's own": (lambda: [Derived(4, 4)], r"module 0 is (a )?Derived"),
    "groups": (lambda: [nn.Conv2d(4, 4, 3, groups=2)], r"module 0, Conv2d, has groups=2"),
    "dilation": (lambda: [nn.Conv2d(4, 4, 3, dilation=2)], r"module 0, Conv2d, has dilation=\(2, 2\)"),
    "no square": (lambda: [nn.Conv2d(4, 4, (3, 5))], r"has kernel_size=\(3, 5\): layers here are square"),
    "reflected": (lambda: [nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")], "padding_mode='reflect'"),
    "ceil": (lambda: [nn.MaxPool2d(2, ceil_mode=True)], "module 0, MaxPool2d, has ceil_mode=True"),
    "bilinear": (lambda: [nn.Upsample(scale_factor=2, mode="bilinear")], "has mode='bilinear'"),
    "shared": (lambda: [SHARED, nn.ReLU(), SHARED], "module 2 is module 0 again"),
    "a shared weight": (lambda: tied("weight", lambda first: first.weight), "module 2 has a parameter of module 0: .* share no weights"),
    "a shared bias": (lambda: tied("bias", lambda first: first.bias), "module 2 has a parameter of module 0"),
    "shared numbers": (lambda: tied("weight", lambda first: nn.Parameter(first.weight.data.T)), "module 2 has a parameter of module 0"),
    "a hook of a Sequential": (lambda: [hooked("register_forward_hook")], "module 0, Sequential, has hooks"),
    "a hook before a Sequential": (lambda: [hooked("register_forward_pre_hook")], "module 0, Sequential, has hooks"),
    "a forward of a Sequential": (lambda: [patched(nn.Sequential(nn.Linear(4, 4)))], "module 0, Sequential, has a forward of its own"),
    "a forward of a layer": (lambda: [patched(nn.Linear(4, 4))], "module 0, Linear, has forward="),
    "a derived Sequential": (lambda: [Doubled(nn.Linear(4, 4))], "module 0 is Doubled, which is no layer here"),
    "no momentum": (lambda: [nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None)], r"module 1, BatchNorm1d\(momentum=None\)"),
    "no statistics": (lambda: [nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False)], "module 1, BatchNorm1d, has track_running_stats=False"),
    "a weight alone": (lambda: [nn.Linear(4, 4), unbiased(nn.BatchNorm1d(4))], "module 1, BatchNorm1d, has no bias"),
    "no mean of all": (lambda: [nn.AdaptiveAvgPool2d(2)], r"module 0, AdaptiveAvgPool2d\(output_size=2\)"),
    "lazy norm": (lambda: [nn.LazyBatchNorm1d(), nn.Linear(4, 4)], "module 0 is LazyBatchNorm1d.*run the module once"),
    "weight norm": (lambda: [parametrizations.weight_norm(nn.Linear(4, 4))], "module 0 is ParametrizedLinear.*remove_parametrizations makes it plain"),
    "lazy": (lambda: [nn.LazyLinear(4)], "module 0 is LazyLinear.*run the module once"),
    "sizes": (lambda: [nn.Linear(4, 5), nn.Linear(4, 5)], "module 1, Linear, has in_features=4, and 5 enter"),
    "no weights": (lambda: [nn.ReLU(), nn.Flatten()], "shape of one sample is not known"),
}  # fmt: skip


#: Modules for flat samples.
FLAT = (
    "shared",
    "a shared weight",
    "a shared bias",
    "shared numbers",
    "no momentum",
    "no statistics",
    "a weight alone",
)


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_layer_can_be_is_refused_by_name_and_place(name):
    make, said = REFUSED[name]
    shape = {"sizes": (4,), "no weights": None}.get(name, (4,) if name in FLAT else (4, 8, 8))
    with pytest.raises(NetError, match=said):
        wl.from_torch(nn.Sequential(*make()), shape)


def test_hooks_losses_and_other_objects_are_refused():
    hooked = nn.Sequential(nn.Linear(4, 3))
    hooked[0].register_forward_hook(lambda *given: None)
    with pytest.raises(NetError, match="module 0, Linear, has hooks"):
        wl.from_torch(hooked)
    for make in (lambda: patched(nn.Sequential(nn.Linear(4, 3))), lambda: nn.Sequential(nn.Linear(4, 3))):
        outer = make()
        if "forward" not in vars(outer):
            outer.register_forward_hook(lambda module, given, out: 2 * out)
        with pytest.raises(NetError, match=r"the module has (hooks|a forward of its own)"):
            wl.from_torch(outer)
    scaled = wl.to_torch(wl.from_torch(nn.Sequential(nn.Linear(4, 3)), scale=0.5))
    scaled.register_forward_hook(lambda module, given, out: 2 * out)
    with pytest.raises(NetError, match="the module has hooks"):
        wl.from_torch(scaled)
    plain = nn.Sequential(nn.Linear(4, 3))
    with pytest.raises(NetError, match="reduction='sum'"):
        wl.from_torch(plain, loss=nn.CrossEntropyLoss(reduction="sum"))
    with pytest.raises(NetError, match="loss wants one of CrossEntropyLoss"):
        wl.from_torch(plain, loss=nn.CTCLoss())
    others: tuple[Any, ...] = (nn.Linear(4, 3), nn.ModuleList([nn.Linear(4, 3)]), "mlp", None)
    for other in others:
        with pytest.raises(ArgumentError, match=r"from_torch wants a torch.nn.Sequential, got"):
            wl.from_torch(other)
    with pytest.raises(NetError, match=r"shape of one sample is not known.*in_shape=\(1, 28, 28\)"):
        wl.from_torch(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)))
    images = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    with pytest.raises(NetError, match=r"shape of one sample is not known.*in_shape=\(1, 28, 28\)"):
        wl.from_torch(images)
    shapes: tuple[Any, ...] = (64, "64", 8.0)
    for shape in shapes:
        with pytest.raises(ArgumentError, match=r"in_shape wants a shape such as \(3, 32, 32\) or \(4,\), got"):
            wl.from_torch(images, in_shape=shape)
    with pytest.raises(NetError, match=r"in_shape wants \(features,\) or \(channels, height, width\)"):
        wl.from_torch(images, in_shape=(8, 8))
    with pytest.raises(ArgumentError, match="to_torch wants a Run or a Model"):
        wl.to_torch(plain)


def test_traced_and_wrapped_modules_are_no_sequentials():
    plain = nn.Sequential(nn.Linear(4, 3))
    for other, said in (
        (torch.fx.symbolic_trace(plain), "got a Sequential of torch.fx"),
        (nn.DataParallel(plain), r"got an object of type 'DataParallel': .*; give module\.module"),
    ):
        with pytest.raises(ArgumentError, match=said):
            wl.from_torch(other)


def test_hooks_on_gradients_get_a_warning():
    for on_module in (True, False):
        module = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
        if on_module:
            module[1].register_full_backward_hook(lambda *given: None)
        else:
            module[1].weight.register_hook(lambda gradient: 2 * gradient)
        with pytest.warns(
            UserWarning, match="^1 has hooks on gradients, which layers here lack: predictions are the same"
        ):
            wl.from_torch(module)


def test_frozen_parameters_are_named(recwarn):
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    wl.from_torch(module)
    assert not recwarn.list
    module[0].requires_grad_(False)
    with pytest.warns(
        UserWarning, match=r"^0\.weight, 0\.bias have requires_grad=False.*training changes every"
    ) as caught:
        model = wl.from_torch(module)
    assert caught[0].filename == __file__ and np.array_equal(model.params["0.bias"], module[0].bias.detach().numpy())


MODEL = "from torch import nn\nMODEL = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))\n"


def test_a_file_with_a_module_is_a_net(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODEL)
    net = wl.load_net("mine.py", in_shape=(1, 8, 8))
    assert net.name == "mine" and net.layers == wl.nets.mlp((1, 8, 8), hidden=(8,)).layers
    words = ("--data", "digits", "--limit", "60", "--epochs", "1", "--checkpoint", "m.safetensors")
    assert run("train", "--net", "mine.py", *words)[0] == 0
    assert wl.load("m.safetensors").net == net
    (tmp_path / "mine.py").write_text(MODEL.replace("nn.ReLU()", "nn.Softplus()"))
    code, _, err = run("train", "--net", "mine.py", *words)
    assert code == 2 and "mine.py: MODEL: module 2 is Softplus, which is no layer here: there are Linear, " in err
    (tmp_path / "mine.py").write_text("MODEL = 3")
    code, _, err = run("train", "--net", "mine.py", *words)
    assert code == 2 and "mine.py: MODEL: from_torch wants a torch.nn.Sequential, got 3" in err


def test_an_optimizer_of_other_parameters_is_refused():
    module, other = (nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(2))
    for wrong in (other.parameters(), [*module.parameters()][::-1]):
        with pytest.raises(
            wl.WarpladderError, match=r"optimizer has the parameters of another module, or .* another order"
        ):
            wl.from_torch(module, optimizer=torch.optim.SGD(wrong, lr=0.1))
    for none in ("adam", torch.optim.SGD(module.parameters(), lr=0.1).state_dict(), torch.optim.SGD):
        with pytest.raises(wl.WarpladderError, match=r"optimizer wants one of torch.optim, as torch.optim.SGD\("):
            wl.from_torch(module, optimizer=none)


def test_a_module_without_numbers_is_refused():
    with pytest.raises(wl.WarpladderError, match=r"0\.weight is a tensor on the device meta, which has no numbers"):
        wl.from_torch(nn.Sequential(nn.Linear(4, 4, device="meta")))


def test_reading_a_module_imports_no_more_than_the_user_did():
    body = "import sys, warpladder.train.torch_modules, warpladder.nets.file; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
