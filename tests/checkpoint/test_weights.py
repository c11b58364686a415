"""Weights alone: from checkpoints and from PyTorch's files, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from checkpoints import adam, example, finished
from runs import CNN, MLP

from warpladder import nets
from warpladder.checkpoint import flat_weights, read_weights, save
from warpladder.checkpoint.content import param_shapes
from warpladder.errors import CheckpointError
from warpladder.nets.params import initial, views

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


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            {"fc1": "1", "fc2": "3"},
            "by their shapes fc1.weight is 1.weight, fc1.bias is 1.bias, fc2.weight is 3.weight",
        ),
        ({"0": "1", "2": "3"}, "by their shapes 0.weight is 1.weight, 0.bias is 1.bias, 2.weight is 3.weight"),
        ({"fc": "1"}, "it lacks '1.weight, 1.bias, 3.weight, 3.bias' and has besides 'fc.weight, fc.bias'; names"),
    ],
)
def test_other_names_are_shown_whole_and_with_what_they_would_be_called(names, said):
    net = nets.mlp((1, 8, 8), 10)
    shapes = param_shapes(net)
    given = {
        f"{theirs}.{kind}": np.zeros(shapes[f"{ours}.{kind}"], np.float32)
        for theirs, ours in names.items()
        for kind in ("weight", "bias")
    }
    with pytest.raises(CheckpointError) as raised:
        flat_weights(net, given)
    line = str(raised.value)
    assert said in line and ("rename them" in line) == (len(names) > 1)
