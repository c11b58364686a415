"""Weights alone: from checkpoints and from PyTorch's files, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from checkpoints import adam, example, finished
from runs import CNN, CONFIG, MLP, data

from warpladder import nets
from warpladder.checkpoint import flat_weights, read_weights, save
from warpladder.errors import CheckpointError
from warpladder.nets.params import initial, views
from warpladder.train import Model, train

FLAT = initial(CNN, 4)
NAMED = views(CNN, FLAT)


def test_a_checkpoint_gives_its_weights_and_not_its_momentum(tmp_path):
    path = tmp_path / "c.safetensors"
    save(path, example(momentum=0.9))
    assert np.array_equal(read_weights(path, CNN), initial(CNN, 1))


@pytest.mark.parametrize("form", ["as it is", "written again"])
def test_nor_what_adam_kept(tmp_path, form):
    from safetensors.numpy import load_file, save_file

    save(tmp_path / "c", adam())
    if form == "written again":
        save_file(load_file(tmp_path / "c"), tmp_path / "c")
    assert np.array_equal(read_weights(tmp_path / "c", CNN), initial(CNN, 1))


@pytest.mark.parametrize("prefix", ["", "module.", "model.net."])
def test_a_state_dict_gives_its_weights_whatever_the_order(tmp_path, prefix):
    from safetensors.numpy import save_file

    save_file({prefix + name: NAMED[name] for name in reversed(NAMED)}, tmp_path / "s")
    assert np.array_equal(read_weights(tmp_path / "s", CNN), FLAT)


def test_a_checkpoint_that_another_program_wrote_again_keeps_its_weights(tmp_path):
    from safetensors.numpy import load_file, save_file

    save(tmp_path / "c", example(momentum=0.9))
    save_file(load_file(tmp_path / "c"), tmp_path / "again")
    assert np.array_equal(read_weights(tmp_path / "again", CNN), initial(CNN, 1))


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
def test_what_torch_writes_is_read(tmp_path, kind):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    conv = torch.nn.Conv2d(1, 3, 3, padding=1)
    module = torch.nn.Sequential(
        conv, torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(12, 3)
    )
    module = module.to(getattr(torch, kind))
    save_file(module.state_dict(), tmp_path / "m.safetensors")
    wanted = np.concatenate([tensor.float().numpy().ravel() for tensor in module.state_dict().values()])
    assert np.array_equal(read_weights(tmp_path / "m.safetensors", CNN), wanted)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (
            views(MLP, initial(MLP, 1)),
            r"does not fit net 'small cnn': it lacks '0\.weight, 0\.bias, 4\.weight, 4\.bias' and has besides",
        ),
        ({name: array for name, array in NAMED.items() if name != "4.bias"}, r"it lacks '4\.bias'"),
        (dict(NAMED) | {"9.bias": np.zeros(3, np.float32)}, r"it has besides '9\.bias'"),
        (dict(NAMED) | {"4.bias": np.zeros((3, 1), np.float32)}, r"4\.bias is \(3, 1\), not \(3,\)"),
        (dict(NAMED) | {"4.bias": np.zeros(3, np.int64)}, r"4\.bias has type I64"),
        (dict(NAMED) | {"4.bias": np.array([0, np.nan, 0], np.float32)}, r"4\.bias holds numbers that are not finite"),
        (dict(NAMED) | {"4.bias": np.array([0, 1e300, 0])}, r"4\.bias holds numbers that are not finite"),
        ({}, "it lacks"),
    ],
)
def test_what_does_not_fit_is_a_line_that_names_it(tmp_path, named, words):
    from safetensors.numpy import save_file

    path = tmp_path / "s"
    save_file(named, path)
    with pytest.raises(CheckpointError, match=words) as error:
        read_weights(path, CNN)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_mapping_around_the_state_dict_is_named():
    wrapped = {"epoch": 3, "model": dict(NAMED), "optimizer": {}}
    for use in (
        lambda: Model.from_state_dict(CNN, wrapped),
        lambda: train(CNN, data(), CONFIG.but(epochs=0), weights=wrapped),
    ):
        with pytest.raises(
            CheckpointError, match=r"holds a mapping under 'model', 'optimizer': .*state_dict\['model'\]"
        ):
            use()


def of_class(net, turn=lambda array: array):
    """Parameters of a net of three Linear layers under the names of a class, each turned."""
    names = {"1": "fc1", "3": "fc2", "5": "fc3"}
    return {f"{names[name[0]]}{name[1:]}": turn(array) for name, array in views(net, initial(net, 1)).items()}


def test_a_class_with_other_widths_or_transposed_matrices_is_told_so():
    net, other = (nets.mlp((1, 8, 8), hidden=widths) for widths in ((32, 16), (24, 48)))
    with pytest.raises(CheckpointError, match=r"it fits the net with --hidden 24,48, in Python .*\(24, 48\)"):
        Model.from_state_dict(net, of_class(other))
    with pytest.raises(CheckpointError, match="its matrices fit transposed: weights here are"):
        Model.from_state_dict(net, of_class(net, lambda array: array.T))
    with pytest.raises(CheckpointError, match="does not fit net") as raised:
        Model.from_state_dict(net, {f"{name}.x": array for name, array in of_class(other).items()})
    assert "it fits" not in str(raised.value)


def test_a_variance_below_0_is_refused():
    net = nets.Net("n", (3,), (nets.Linear(out_features=2), nets.BatchNorm1d()), nets.CrossEntropyLoss())
    running = {"1.running_mean": np.zeros(2, np.float32), "1.running_var": np.array([1, -1], np.float32)}
    with pytest.raises(CheckpointError, match=r"1\.running_var holds a variance below 0"):
        Model.from_state_dict(net, dict(views(net, initial(net, 1))) | running)


def test_whole_numbers_of_a_mapping_are_refused():
    with pytest.raises(CheckpointError, match=r"'state_dict': 4\.bias holds int64"):
        flat_weights(CNN, dict(NAMED) | {"4.bias": np.zeros(3, np.int64)})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is an empty file"),
        (b"\x80\x04\x95" + bytes(100), "is a pickle"),
        (b"PK\x03\x04" + bytes(100), "is a zip archive"),
        (b"<html></html>", "is an HTML page"),
    ],
)
def test_files_of_another_kind(tmp_path, content, words):
    path = tmp_path / "s"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=words) as error:
        read_weights(path, CNN)
    assert str(path) in str(error.value)


def test_a_file_whose_length_begins_as_a_pickle_is_none(tmp_path):
    """The first eight bytes of a safetensors file say how long its header is: one of 640 bytes begins with 80 02."""
    from safetensors.numpy import save

    content = next(
        found for size in range(1000) if (found := save(dict(NAMED), {"note": "x" * size})).startswith(b"\x80\x02")
    )
    (tmp_path / "s").write_bytes(content)
    assert np.array_equal(read_weights(tmp_path / "s", CNN), FLAT)


def test_files_that_are_not_there_or_damaged(tmp_path):
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        read_weights(tmp_path / "nothing", CNN)
    save(tmp_path / "c", finished())
    content = bytearray((tmp_path / "c").read_bytes())
    content[-1] ^= 1
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(CheckpointError, match="checksum"):
        read_weights(tmp_path / "c", MLP)


def renamed(net, names):
    """Numbers of a net's layers as tensors under other modules' names."""
    own = views(net, initial(net, 4))
    return {f"{theirs}.{kind}": own[f"{ours}.{kind}"] for theirs, ours in names.items() for kind in ("bias", "weight")}


DEEP = nets.mlp((1, 2, 2), 4, hidden=(4,) * 11)


@pytest.mark.parametrize(
    ("net", "names"),
    [
        (nets.mlp((1, 8, 8)), {"fc1": 1, "fc2": 3}),
        (nets.mlp((1, 8, 8)), {"out": 3, "inner": 1}),
        (nets.mlp((1, 8, 8)), {"0": 1, "2": 3}),
        (nets.mlp((1, 8, 8)), {"net.features.1": 1, "net.classifier.0": 3}),
        (CNN, {"fc": 4, "conv2": 0}),
        (DEEP, {f"layers.{12 - i}.linear": 23 - 2 * i for i in range(12)}),
        (DEEP, {f"fc{i + 1}": 2 * i + 1 for i in (9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8)}),
    ],
)
def test_names_of_a_class_are_matched_where_shapes_fit_once(net, names, tmp_path):
    from safetensors.numpy import save_file

    given = renamed(net, names)
    first = next(iter(names))
    with pytest.warns(UserWarning, match=f"names are matched by shapes: .*{first} is layer {names[first]}"):
        assert np.array_equal(flat_weights(net, given), initial(net, 4))
    save_file(given, tmp_path / "s")
    with pytest.warns(UserWarning, match="matched by shapes"):
        assert np.array_equal(read_weights(tmp_path / "s", net), initial(net, 4))


@pytest.mark.parametrize(
    ("net", "names", "said"),
    [
        (
            nets.mlp((1, 8, 8)), {"fc": 1},
            "it lacks '1.weight, 1.bias, 3.weight, 3.bias' and has besides 'fc.bias, fc.weight'",
        ),
        (DEEP, {f"{'abcdefghijkl'[i]}": 2 * i + 1 for i in range(12)}, "several layers have the same ones: rename the"),
        (DEEP, {**{f"fc{i}": 2 * i + 1 for i in range(11)}, "out": 23}, "several layers have the same ones: rename"),
        (nets.mlp10((1, 2, 5)), {"fc1": 1, "fc1.0": 3}, "several layers have the same ones: rename the tensors"),
    ],
)  # fmt: skip
def test_names_that_fit_never_or_more_than_once_are_refused_and_shown(net, names, said):
    with pytest.raises(CheckpointError) as raised:
        flat_weights(net, renamed(net, names))
    assert said in str(raised.value)


def test_tensors_of_other_shapes_or_kinds_match_no_layer():
    net = nets.mlp((1, 8, 8))
    given = renamed(net, {"fc1": 1, "fc2": 3})
    for changed in (
        {**given, "fc1.weight": given["fc1.weight"].T},
        {name.replace("weight", "kernel"): array for name, array in given.items()},
        {**given, "fc3.weight": given["fc2.weight"]},
        {name: array for name, array in given.items() if name != "fc2.bias"},
    ):
        with pytest.raises(CheckpointError, match="does not fit net 'mlp': it lacks"):
            flat_weights(net, changed)


def test_an_optimizers_state_is_taken_only_with_parameters_in_the_nets_order():
    torch = pytest.importorskip("torch")
    module = torch.nn.ModuleDict({"out": torch.nn.Linear(256, 10), "inner": torch.nn.Linear(64, 256)})
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(CheckpointError, match="the optimizer's state goes by the order of parameters"):
        Model.from_state_dict(nets.mlp((1, 8, 8)), module.state_dict(), optimizer.state_dict())


def test_numbers_finer_than_the_run_are_rounded_with_a_warning(tmp_path):
    from safetensors.numpy import save_file

    fine = {name: array.astype(np.float64) * (1 + 1e-12) for name, array in NAMED.items()}
    save_file(fine, tmp_path / "fine.safetensors")
    with pytest.warns(UserWarning, match="fine.safetensors' holds numbers finer than float32: they are rounded to it"):
        read_weights(tmp_path / "fine.safetensors", CNN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_weights(tmp_path / "fine.safetensors", CNN, "float64")
