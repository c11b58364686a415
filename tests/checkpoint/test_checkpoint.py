"""Checkpoint files: what they hold, who can read them, and that damage never passes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import strategies
from checkpoints import adam, apart, example, finished, former, together
from hypothesis import given, settings
from runs import AUTOENCODER, CNN, CONFIG, MLP, data, facts, hooked

from warpladder import nets
from warpladder.checkpoint import EpochSums, clean_leftovers, decode, encode, load, net_from_json, net_to_json, save
from warpladder.config import TrainConfig
from warpladder.errors import CheckpointError, NetError, UnsavedError
from warpladder.files.atomic import write_atomically
from warpladder.train import train


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# Content


@given(strategies.nets())
@settings(max_examples=100, deadline=None)
def test_every_net_survives_as_json(net):
    assert net_from_json(json.loads(json.dumps(net_to_json(net)))) == net


def test_the_zoo_survives_as_json():
    for make in nets.ZOO:
        assert net_from_json(json.loads(json.dumps(net_to_json(make())))) == make()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss": "Hinge"}, "no loss 'Hinge'"),
        ({"loss": ["MSELoss"]}, "no loss"),
        ({"layers": [{"type": "LayerNorm"}]}, "layer 0: there is no layer type 'LayerNorm'"),
        ({"layers": [3]}, "layer 0: there is no layer type None"),
        ({"layers": [{"type": "Linear"}]}, "layer 0: Linear does not take 'nothing'"),
        ({"layers": [{"type": "ReLU", "inplace": True}]}, "ReLU does not take 'inplace'"),
        ({"layers": [{"type": "Linear", "out_features": 2.0}]}, "whole number"),
        ({"in_shape": [0]}, "in_shape"),
        ({"in_shape": 3}, "lists"),
        ({"name": None}, "name"),
        ({"more": 1}, "name, in_shape, layers and loss"),
    ],
)
def test_what_describes_no_net(change, words):
    with pytest.raises(NetError, match=words):
        net_from_json(net_to_json(nets.mlp()) | change)
    with pytest.raises(NetError):
        net_from_json([change])


@pytest.mark.parametrize(
    "made",
    [example(), example(MLP, momentum=0.0), finished(), finished(AUTOENCODER, 0.5), adam()],
    ids=lambda made: f"{made.net.name} {made.config.optimizer.name}",
)
def test_a_checkpoint_comes_back_as_it_was(tmp_path, made):
    path = tmp_path / "c.safetensors"
    save(path, made)
    back = load(path)
    assert facts(back) == facts(made)
    assert (back.net, back.config, back.data, back.rung, back.sums, back.history) == (
        made.net,
        made.config,
        made.data,
        made.rung,
        made.sums,
        made.history,
    )
    assert list(back.params) == list(made.params) and all(array.flags.writeable for array in back.params.values())
    assert encode(back) == path.read_bytes()


def test_floats_survive_to_the_last_bit():
    for loss in (0.1 + 0.2, 5e-324, 1e308, -0.0, 1 / 3):
        back = decode(encode(example(sums=replace(example().sums, loss=loss, seconds=loss))))
        assert (
            back.sums.loss is not None and back.sums.loss.hex() == loss.hex() and back.sums.seconds.hex() == loss.hex()
        )


def test_the_file_holds_state_dict_names_and_a_readable_document():
    document, tensors = apart(encode(example()))
    weights = ["0.bias", "0.weight", "4.bias", "4.weight"]
    assert sorted(tensors) == weights + ["momentum_buffer." + name for name in weights]
    assert document["net"]["layers"][0] == {
        "type": "Conv2d",
        "out_channels": 3,
        "kernel_size": 3,
        "stride": 1,
        "padding": 1,
        "bias": True,
    }
    assert document["config"]["optimizer"] == {
        "name": "SGD",
        "learning_rate": 0.1,
        "momentum": 0.9,
        "nesterov": True,
        "weight_decay": 0.01,
    }
    assert (
        document["config"]["schedule"] == {"name": "Constant", "warmup": 0.0}
        and document["sums"]["loss"] == (7.3).hex()
    )
    assert (document["format"], document["epoch"], document["step"], document["rung"]) == (2, 1, 3, "numpy")
    assert not any(name.startswith("momentum") for name in apart(encode(finished()))[1])
    assert sorted(apart(encode(adam()))[1]) == weights + [
        f"{slot}.{name}" for slot in ("exp_avg", "exp_avg_sq") for name in weights
    ]


@pytest.mark.parametrize(
    "made", [example(), example(MLP, momentum=0.0), finished()], ids=["momentum", "plain", "finished"]
)
def test_a_file_from_before_there_were_optimizers_is_refused_by_its_format(made):
    document, tensors = apart(encode(made))
    old = former(document, tensors)
    with pytest.raises(CheckpointError, match="'old' is a checkpoint of format 1, this version of warpladder reads 2"):
        decode(old, "old")


def test_the_number_of_updates_is_where_the_run_stands():
    assert (example().made, finished().made, adam(step=0, sums=EpochSums()).made) == (10, 21, 7)
    model = example(
        config=TrainConfig(epochs=0, momentum=0.9),
        epoch=0,
        step=0,
        history=(),
        sums=EpochSums(),
        finished=True,
        updates=12,
    )
    assert model.made == decode(encode(model)).made == 12 and apart(encode(model))[0]["updates"] == 12
    assert "updates" not in apart(encode(example()))[0]


def test_the_checksum_is_what_the_documentation_says():
    for made in (example(), finished()):
        assert decode(together(*apart(encode(made)))).sums == made.sums
        assert apart(together(*apart(encode(made))))[0] == apart(encode(made))[0]


@pytest.mark.parametrize("net", [CNN, AUTOENCODER], ids=lambda net: net.name)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_torch_reads_the_weights(tmp_path, net, momentum):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    conv, pooled = (
        torch.nn.Conv2d(1, 3, 3, padding=1),
        (torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(12, 3)),
    )
    rest = pooled if net is CNN else (torch.nn.Conv2d(3, 1, 3, padding=1),)
    module = torch.nn.Sequential(conv, torch.nn.ReLU(), *rest)
    outputs: list[np.ndarray] = []

    def keep(trainer, order, first, last):
        outputs[:] = [trainer.predict(data().test_x, 1 / 255)]

    path = tmp_path / "c.safetensors"
    train(net, data(), CONFIG.but(momentum=momentum, nesterov=False), rung=hooked("numpy", after=keep)).save(path)
    tensors = load_file(path)
    if momentum:
        assert {name for name in tensors if name[0].isdigit()} == set(module.state_dict())
        tensors = {name: tensor for name, tensor in tensors.items() if name[0].isdigit()}
    module.load_state_dict(tensors, strict=True)
    with torch.no_grad():
        out = module(torch.from_numpy(data().test_x.astype(np.float32) / np.float32(255))).numpy()
    assert np.allclose(out, outputs[0], rtol=1e-4, atol=1e-5)


# Damage


def test_no_byte_can_change_unnoticed():
    content = encode(finished())
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position * 7 % 8)
        with pytest.raises(CheckpointError) as error:
            decode(bytes(damaged), "c")
        assert "\n" not in str(error.value) and str(error.value).startswith("'c' ")


def test_no_truncated_or_extended_file_passes():
    content = encode(finished())
    for size in range(len(content)):
        with pytest.raises(CheckpointError):
            decode(content[:size])
    for tail in (b"\0", b" ", content):
        with pytest.raises(CheckpointError):
            decode(content + tail)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 4}, "later version of warpladder"),
        ({"format": 0}, "incomplete"),
        ({"format": "1"}, "incomplete"),
        ({"more": 1}, "incomplete"),
        ({"epoch": 4}, "no position in that run"),
        ({"step": 8}, "no position in that run"),
        ({"step": True}, "wrong type"),
        ({"step": 2}, "sums over 24 samples"),
        ({"epoch": 2}, "logs others"),
        ({"finished": True}, "finished before the end of an epoch"),
        ({"history": [{}]}, "history"),
        ({"test": {"loss": 1.0}}, "test score"),
        ({"test": {"loss": float("nan"), "accuracy": None}}, "test score"),
        ({"rung": None}, "wrong type"),
        ({"data": {}}, "data set"),
        ({"sums": {"loss": "inf", "correct": 9, "samples": 24, "seconds": 0.1}}, "make no sense"),
        ({"sums": {"loss": "xyz", "correct": 9, "samples": 24, "seconds": 0.1}}, "cannot be read"),
        ({"config": {"learning_rate": -1.0}}, "cannot be: learning_rate"),
        ({"config": {"rate": 1.0}}, "settings that this version"),
        ({"config": {"optimizer": {"name": "Lion"}}}, "cannot be: there is no optimizer 'Lion'; there are adam, adamw, rmsprop, sgd"),
        ({"config": {"optimizer": {}}}, "cannot be: there is no optimizer"),
        ({"config": {"optimizer": "SGD"}}, "cannot be: optimizer wants an Optimizer"),
        ({"config": {"optimizer": {"name": "SGD", "dampening": 0.5}}}, "cannot be: SGD has no dampening"),
        ({"config": {"optimizer": {"name": "SGD", "a\nb": 0.5}}}, r"cannot be: SGD has no 'a\\nb'; it has"),
        ({"config": {"optimizer": {"name": "Adam", "betas": [0.9, 2]}}}, "cannot be: betas wants two numbers"),
        ({"config": {"schedule": {"name": "Plateau"}}}, "cannot be: there is no schedule 'Plateau'; there are constant, cosine, onecycle, stepdecay"),
        ({"config": {"schedule": {"name": "Cosine", "warmup": -1}}}, "cannot be: warmup wants"),
        ({"updates": 3}, "its number of updates"),
        ({"updates": None}, "its number of updates"),
        ({"net": net_to_json(MLP)}, "holds parameters '0.bias"),
        ({"net": net_to_json(replace(CNN, layers=(*CNN.layers[:4], nets.Linear(out_features=4))))}, r"\(3, 12\).*\(4, 12\)"),
        ({"net": {}}, "describes a run that cannot be"),
        ({"net": net_to_json(MLP) | {"layers": [{"type": "Linear", "out_features": 10**4000}]}}, r"damaged|cannot be"),
    ],
)  # fmt: skip
def test_a_right_checksum_does_not_excuse_nonsense(change, words):
    document, tensors = apart(encode(example()))
    with pytest.raises(CheckpointError, match=words) as error:
        decode(together(document | change, tensors))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"0.bias": np.array([0, np.nan, 0], np.float32)}, "not finite"),
        (
            {"momentum_buffer.0.bias": np.array([0, np.inf, 0], np.float32)},
            "holds momentum_buffer 0.bias with numbers that are not finite",
        ),
        (
            {"momentum_buffer.0.bias": np.zeros(4, np.float32)},
            r"holds momentum_buffer 0.bias of shape \(4,\), its net has \(3,\)",
        ),
        ({"0.bias": np.zeros(3)}, "its tensors are float32 and float64, not those of format 2"),
        ({"0.bias": np.zeros(3, np.float16)}, "F16, wants F32 or F64"),
        ({"0.bias": np.zeros((3, 1), np.float32)}, r"\(3, 1\)"),
        ({"9.bias": np.zeros(3, np.float32)}, "9.bias"),
        ({"momentum_buffer.9.bias": np.zeros(3, np.float32)}, "holds momentum_buffer"),
        (
            {"velocity.0.bias": np.zeros(3, np.float32)},
            "holds 'velocity', which its optimizer, SGD 0.1, momentum 0.9, nesterov, weight decay 0.01,",
        ),
        ({"exp_avg.0.bias": np.zeros(3, np.float32)}, "holds 'exp_avg', which its optimizer"),
    ],
)
def test_tensors_must_be_the_nets(change, words):
    document, tensors = apart(encode(example()))
    with pytest.raises(CheckpointError, match=words):
        decode(together(document, tensors | change))


def test_momentum_must_be_there_exactly_where_the_settings_have_it():
    document, tensors = apart(encode(example()))
    with pytest.raises(CheckpointError, match=r"holds momentum_buffer .of nothing. *"):
        decode(
            together(document, {name: tensor for name, tensor in tensors.items() if not name.startswith("momentum")})
        )
    document["config"]["optimizer"] |= {"momentum": 0.0, "nesterov": False}
    with pytest.raises(
        CheckpointError,
        match=r"holds 'momentum_buffer', which its optimizer, SGD 0\.1, weight decay 0\.01, does not keep",
    ):
        decode(together(document, tensors))


def test_a_mean_of_squares_below_zero_is_none():
    document, tensors = apart(encode(adam()))
    tensors["exp_avg_sq.4.bias"] = np.array([1, -1e-9, 1], np.float32)
    with pytest.raises(CheckpointError, match="holds exp_avg_sq below 0"):
        decode(together(document, tensors))


def test_files_of_others_are_refused_in_a_line(tmp_path):
    from safetensors.numpy import save as save_tensors

    path = tmp_path / "other"
    for content, words in (
        (b"", "is an empty file"),
        (b"<html></html>", "is an HTML page"),
        (b"\x80\x04\x95" + bytes(100), "is a pickle"),
        (bytes(range(128, 228)), "not a whole safetensors file"),
        (save_tensors({"w": np.zeros(3, np.float32)}), "but not a checkpoint of warpladder"),
        (save_tensors({"w": np.zeros(3, np.float32)}, {"format": "pt"}), "but not a checkpoint of warpladder"),
        (save_tensors({}, {"warpladder": "{"}), "cannot be read"),
        (save_tensors({}, {"warpladder": "[" * 100_000}), "cannot be read"),
        (save_tensors({}, {"warpladder": "9" * 5000}), "cannot be read"),
        (save_tensors({}, {"warpladder": "[]"}), "incomplete"),
    ):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=words) as error:
            load(path)
        assert "\n" not in str(error.value) and os.fspath(path) in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no checkpoint '.*nothing'"):
        load(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="Is a directory"):
        load(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load(tmp_path / "a\0b")


# Writing


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call):
    path = tmp_path / "c.safetensors"
    save(path, example())
    old = path.read_bytes()

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(
        CheckpointError,
        match=r"c.safetensors' could not be written: No space left on device; the checkpoint of before is still there",
    ):
        save(path, finished())
    with pytest.raises(CheckpointError, match=r"No space left on device$"):
        save(tmp_path / "new", finished())
    assert path.read_bytes() == old and names(tmp_path) == ["c.safetensors"]


def test_a_file_that_may_grow_no_further_is_given_up(tmp_path):
    """The operating system itself refuses, in the middle of the content."""
    resource = pytest.importorskip("resource")
    path = tmp_path / "c.safetensors"
    save(path, example())
    old = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(CheckpointError, match="File too large; the checkpoint of before"):
            save(path, finished())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == old and names(tmp_path) == ["c.safetensors"]


def test_a_run_whose_disk_fills_up_stops_with_a_line(tmp_path, monkeypatch):
    path = tmp_path / "c.safetensors"
    train(MLP, data(), CONFIG.but(epochs=1), checkpoint=path)
    old = path.read_bytes()

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        train(MLP, data(), CONFIG, resume=path, checkpoint=path)
    assert path.read_bytes() == old and names(tmp_path) == ["c.safetensors"]
    with pytest.raises(UnsavedError, match="No space left") as caught:
        train(MLP, data(), CONFIG, checkpoint=tmp_path / "d", checkpoint_seconds=3600.0)
    monkeypatch.undo()
    caught.value.run.save(tmp_path / "d")
    assert facts(load(tmp_path / "d")) == facts(train(MLP, data(), CONFIG).checkpoint)


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "c"
    write_atomically(path, b"old")

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and names(tmp_path) == ["c"]


def test_leftovers_of_the_dead_are_cleaned_and_only_they(tmp_path):
    path = tmp_path / "run[1].safetensors"
    dead, alive = tmp_path / ".run[1].safetensors.0123abcd.tmp", tmp_path / ".run[1].safetensors.ffffffff.tmp"
    others = [
        ".run1.safetensors.0123abcd.tmp",
        ".run[1].safetensors.tmp",
        "run[1].safetensors.0123abcd.tmp",
        ".other.0123abcd.tmp",
    ]
    others += [".run[1].safetensors.0123abcd.tmp2", ".run[1].safetensors.0123ABCD.tmp"]
    for entry in (dead, alive, *(tmp_path / name for name in others)):
        entry.write_bytes(b"half")
    with alive.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert clean_leftovers(path) == 1
        assert names(tmp_path) == sorted([alive.name, *others])
    assert clean_leftovers(path) == 1
    assert names(tmp_path) == sorted(others)


def test_training_cleans_what_a_killed_run_left(tmp_path):
    path = tmp_path / "c"
    (tmp_path / ".c.0123abcd.tmp").write_bytes(b"half")
    train(MLP, data(), CONFIG, checkpoint=path)
    assert names(tmp_path) == ["c"]


def test_writers_cleaners_and_readers_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "c"
    contents = [bytes([number]) * 5000 for number in range(3)]
    write_atomically(path, contents[0])
    troubles: list[BaseException] = []

    def repeat(what) -> None:
        try:
            for _ in range(100):
                what()
        except BaseException as error:
            troubles.append(error)

    def read() -> None:
        assert path.read_bytes() in contents

    jobs = [lambda content=content: write_atomically(path, content) for content in contents] + [
        lambda: clean_leftovers(path),
        read,
    ]
    threads = [threading.Thread(target=repeat, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not troubles and names(tmp_path) == ["c"]


def test_a_link_stays_a_link_and_modes_follow_the_umask(tmp_path):
    (tmp_path / "far").mkdir()
    link = tmp_path / "c"
    link.symlink_to(tmp_path / "far" / "real")
    save(link, example())
    assert link.is_symlink() and names(tmp_path / "far") == ["real"]
    mask = os.umask(0o022)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "far" / "real").stat().st_mode) == 0o666 & ~mask


def test_a_place_where_nothing_can_be_written_is_refused_before_training(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for place, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "c", "there is no folder"),
        (tmp_path / "file" / "c", "there is no folder"),
    ):
        with pytest.raises(CheckpointError, match=words):
            train(MLP, data(), CONFIG, checkpoint=place)
    if os.geteuid():
        tmp_path.chmod(0o500)
        with pytest.raises(CheckpointError, match="cannot be written"):
            train(MLP, data(), CONFIG, checkpoint=tmp_path / "c")


# What data sets are called and scaled by


def meant(**changes):
    mark = replace(example().data, class_names=("a", "b", "c"), mean=(0.1,), std=(2.5,))
    return example(data=replace(mark, **changes))


def test_names_and_scales_come_back(tmp_path):
    save(tmp_path / "c.safetensors", meant())
    back = load(tmp_path / "c.safetensors")
    assert back.data == meant().data and encode(back) == encode(meant())
    umlaut = meant(class_names=("Füchse", "\u4e2d"))
    assert decode(encode(umlaut)).data.class_names == umlaut.data.class_names


def test_a_file_without_them_is_as_it_always_was():
    document, _ = apart(encode(example()))
    assert document["data"].keys() == {"name", "samples", "scale", "parts"}
    assert decode(encode(example())).data == example().data


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"class_names": ["b", "a"]}, "names of 2 classes that do not fit"),
        ({"class_names": ["a", "a"]}, "names of 2 classes that do not fit"),
        ({"class_names": ["a", "b", "c", "d"]}, "names of 4 classes that do not fit a net of 3 outputs"),
        ({"class_names": "abc"}, "no lists"),
        ({"class_names": [1, "b"]}, "all names or all numbers of one type"),
        ({"class_names": None}, "no lists"),
        ({"mean": [0.5]}, "means and deviations do not fit"),
        ({"mean": [0.5, 0.5], "std": [1.0, 1.0]}, "means and deviations do not fit"),
        ({"mean": [1], "std": [1.0]}, "means and deviations do not fit"),
        ({"mean": [float("nan")], "std": [1.0]}, "means and deviations do not fit"),
        ({"mean": [0.5], "std": [0.0]}, "deviation is not above 0"),
        ({"mean": {}, "std": {}}, "no lists"),
        ({"samples": 0}, "its data set has no samples"),
        ({"samples": -1}, "incomplete"),
        ({"more": 1}, "incomplete"),
    ],
    ids=str,
)
def test_names_and_scales_that_cannot_be(change, words):
    document, tensors = apart(encode(example()))
    document["data"] |= change
    with pytest.raises(CheckpointError, match=words) as caught:
        decode(together(document, tensors), "c")
    assert "\n" not in str(caught.value)
