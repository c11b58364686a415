"""Wrong calls that a newcomer makes in Python: each ends in one line that says what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from runs import CONFIG, MLP, data

import warpladder
from warpladder.errors import WarpladderError

wl: Any = warpladder  # called as no type checker would let it be
X = np.zeros((4, 3))
LABELS = np.arange(4)
LINEAR = (warpladder.Linear(out_features=2),)
LOSS = warpladder.CrossEntropyLoss()
NOISE = data()
NUMPY = warpladder.ladder.find("numpy")
RUN = warpladder.train(MLP, NOISE, CONFIG.but(epochs=0))

CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    # nets
    "a width for a shape": (lambda: wl.Net("x", 784, LINEAR, LOSS), "in_shape wants a shape such as"),
    "a shape in words": (lambda: wl.Net("x", "3", LINEAR, LOSS), "in_shape wants a shape such as"),
    "a shape of fractions": (lambda: wl.Net("x", (784.0,), LINEAR, LOSS), "positive whole numbers"),
    "a picture without channels": (lambda: wl.Net("x", (8, 8), LINEAR, LOSS), "(channels, height, width)"),
    "one layer": (lambda: wl.Net("x", (3,), LINEAR[0], LOSS), "layers wants a tuple of layers, got an object of type 'Linear'"),
    "no layers": (lambda: wl.Net("x", (3,), None, LOSS), "layers wants a tuple of layers, got None"),
    "layers in words": (lambda: wl.Net("x", (3,), ["Linear"], LOSS), "layer 0: 'Linear' is not a layer"),
    "the class of a layer": (lambda: wl.Net("x", (3,), (wl.ReLU,), LOSS), "layer 0: the class 'ReLU' is not a layer: write ReLU(...)"),
    "a loss in words": (lambda: wl.Net("x", (3,), LINEAR, "CrossEntropyLoss"), "'CrossEntropyLoss' is not a loss"),
    "the class of a loss": (lambda: wl.Net("x", (3,), LINEAR, wl.CrossEntropyLoss), "the class 'CrossEntropyLoss' is not a loss: write CrossEntropyLoss(...)"),
    "a number for a name": (lambda: wl.Net(3, (3,), LINEAR, LOSS), "net's name wants text, got 3"),
    "a ladder's net of a width": (lambda: wl.nets.mlp(784), "in_shape wants a shape such as"),
    "classes in words": (lambda: wl.nets.mlp((1, 8, 8), "10"), "out_features='10'"),
    "no classes": (lambda: wl.nets.mlp((1, 8, 8), 0), "at least 1"),
    # settings
    "PyTorch's name of the rate": (lambda: wl.TrainConfig(lr=0.1), "TrainConfig has no lr: did you mean 'learning_rate'?; it has epochs, batch_size, optimizer"),
    "epochs in words": (lambda: wl.TrainConfig(epochs="5"), "epochs wants a whole number"),
    "the rate first": (lambda: wl.TrainConfig(0.1, 64), "epochs wants a whole number of at least 0, got 0.1"),
    "a batch in words": (lambda: wl.TrainConfig(batch_size="full"), "batch_size wants"),
    "no rate": (lambda: wl.SGD(None), "learning_rate wants a finite number"),
    "PyTorch's name of Adam's rate": (lambda: wl.Adam(lr=0.1), "Adam has no lr: did you mean 'learning_rate'?; it has learning_rate, betas, eps, weight_decay"),
    "a momentum for Adam": (lambda: wl.TrainConfig(optimizer=wl.Adam(), momentum=0.9), "Adam has no momentum; it has learning_rate, betas"),
    "a rate next to Adam's own": (lambda: wl.TrainConfig(optimizer=wl.Adam(1e-3), learning_rate=0.1), "learning_rate stands next to an optimizer that has its own"),
    "a rate next to plain SGD": (lambda: wl.TrainConfig(optimizer=wl.SGD(0.2), learning_rate=0.1, momentum=0.9), "write it there, as optimizer=wl.SGD("),
    "betas in a row": (lambda: wl.Adam(0.1, 0.9, 0.999), "Adam takes learning_rate, betas, eps, weight_decay by name"),
    "a beta alone": (lambda: wl.Adam(betas=0.9), "betas wants two numbers from 0 to below 1, as (0.9, 0.999), got 0.9"),
    "an optimizer in words": (lambda: wl.TrainConfig(optimizer="adam"), "optimizer wants an Optimizer, as wl.Adam(1e-3), got 'adam'"),
    "an optimizer's class": (lambda: wl.TrainConfig(optimizer=wl.Adam), "optimizer wants an Optimizer, as wl.Adam(1e-3), got the class 'Adam'"),
    "a schedule in words": (lambda: wl.TrainConfig(schedule="cosine"), "schedule wants a Schedule, as wl.Cosine(warmup=1), got 'cosine'"),
    "an endless warm-up": (lambda: wl.Cosine(warmup=float("inf")), "warmup wants a finite number"),
    "steps of no epochs": (lambda: wl.StepDecay(every=0), "every wants a number of epochs above 0"),
    "a changed setting that is none": (lambda: wl.TrainConfig().but(lr=1), "there is no setting 'lr': did you mean 'learning_rate'?"),
    # calls
    "no net": (lambda: wl.train(), "train: missing a required argument: 'net'; it takes net, data, config, rung"),
    "settings of training to train": (lambda: wl.train("mlp", "digits", epochs=5), "train has no argument epochs, which is a setting of wl.TrainConfig(...)"),
    "a device for train": (lambda: wl.train("mlp", "digits", device="cuda"), "train has no argument device, for the rung decides"),
    "a device for a rung": (lambda: wl.train("mlp", "digits", rung="cuda"), "there is no rung 'cuda': did you mean 'graph' or 'tensor'?"),
    "a misspelt argument": (lambda: wl.train("mlp", "digits", checkpiont="a"), "train has no argument checkpiont: did you mean 'checkpoint'?"),
    "too many for train": (lambda: wl.train("mlp", "digits", None, "numpy"), "train was given too many arguments by place: write their names"),
    "rung for rungs": (lambda: wl.climb("mlp", "digits", None, rung="numpy"), "climb has no argument rung: did you mean 'rungs'?"),
    "no path to load": (lambda: wl.load(), "load: missing a required argument: 'path'; it takes path"),
    "two paths to load": (lambda: wl.load("a", "b"), "load was given too many arguments by place"),
    "a net of four arguments": (lambda: wl.nets.cnn((1, 8, 8), 10, 3), "cnn was given too many arguments by place: write their names; it takes in_shape, classes"),
    "classes by another name": (lambda: wl.nets.mlp(out=10), "mlp has no argument out; it takes in_shape, classes"),
    "a net without its loss": (lambda: wl.Net("n", (4,), (wl.Linear(out_features=2),)), "Net: missing a required argument: 'loss'; it takes name"),
    "a proof without settings": (lambda: wl.verify("numpy", MLP), "verify: missing a required argument: 'config'"),
    "a dictionary of samples": (lambda: wl.data.arrays({"x": X}, LABELS, X, LABELS), "train samples must be an array of numbers, got an object of type 'dict'"),
    "labels left out": (lambda: wl.data.arrays(X, None, X), "arrays: missing a required argument: 'test_y'"),
    "a data set's url": (lambda: wl.data.load("mnist", url="x"), "load has no argument url; it takes name, data_dir"),
    "a net's file twice": (lambda: wl.load_net("a.toml", (1, 8, 8), 10, 3), "load_net was given too many arguments by place"),
    "predict of nothing": (lambda: wl.Run.predict(RUN), "predict: missing a required argument: 'x'; it takes x"),
    "labels to predict": (lambda: wl.Run.predict(RUN, X, X), "predict was given too many arguments by place"),
    "save nowhere": (lambda: wl.Run.save(RUN), "save: missing a required argument: 'path'; it takes path, overwrite"),
    "a scale by place": (lambda: wl.Model.from_state_dict(MLP, {}, None, 1.0), "from_state_dict was given too many arguments by place"),
    # data
    "a number for a data set": (lambda: wl.data.load(3), "name wants the name of a data set"),
    "a limit in words": (lambda: wl.data.load("digits", limit="3"), "limit wants a whole number, got '3'"),
    "a limit with a fraction": (lambda: wl.data.load("digits", limit=2.5), "limit wants a whole number, got 2.5"),
    "a validation share": (lambda: wl.data.load("digits", validation=0.1), "validation wants a whole number, got 0.1"),
    "a seed in words": (lambda: wl.data.load("digits", seed="a"), "seed wants a whole number"),
    "a csv's shape in words": (lambda: wl.data.load("csv", shape="3x32x32"), "shape wants whole numbers such as (3, 32, 32), got '3x32x32'"),
    "a csv's width": (lambda: wl.data.load("csv", shape=784), "shape wants whole numbers such as"),
    "a scale in words": (lambda: wl.data.arrays(X, None, X, None, scale="1/255"), "scale must be a finite number above 0, got '1/255'"),
    "words for samples": (lambda: wl.data.arrays("a", None, X, None), "train samples must be numbers"),
    "no samples": (lambda: wl.data.arrays(None, None, None, None), "a training and a test set are wanted"),
    "a word for labels": (lambda: wl.data.arrays(X, "abcd", X, None), "train labels must have shape (samples,), got ()"),
    "one-hot labels": (lambda: wl.data.arrays(X, np.eye(4), X, None), "give class numbers, not one-hot rows"),
    "a label missing": (lambda: wl.data.arrays(X, [0, 1, None, 2], X, None), "the label of sample 2 is None: leave out the samples without a label"),
    "ragged rows": (lambda: wl.data.arrays([[1, 2], [3]], [0, 1], X, None), "train samples cannot be made an array"),
    "a dict of labels": (lambda: wl.data.arrays(X, {"a": 1}, X, None), "train labels must have shape"),
    "lists for a Dataset": (lambda: wl.Dataset("d", [[1, 2]], [0], [[1, 2]], [0]), "wl.data.arrays makes a data set of anything else"),
    "a name to split": (lambda: wl.data.split("digits", limit=3), "split wants a Dataset, got 'digits'"),
    "a table to submit": (lambda: wl.data.write_submission("s.csv", [[1, 2]]), "a submission wants names or whole numbers"),
    # models
    "a Dataset to predict": (lambda: RUN.predict(NOISE), "x wants an array of samples, got a Dataset: give data.test_x"),
    "a Dataset to score": (lambda: RUN.score(NOISE), "give data.test_x"),
    "a word for labels to score": (lambda: RUN.score(NOISE.test_x, "abc"), "y must have shape (samples,), got ()"),
    "a model of a net": (lambda: wl.Model(MLP), "Model wants a checkpoint: wl.load(path) reads one"),
    "a model of a file's name": (lambda: wl.Model("x.safetensors"), "Model wants a checkpoint"),
    "a state_dict's file": (lambda: wl.Model.from_state_dict(MLP, "w.safetensors"), "wants a Net and a state_dict, got Net and str"),
    "weights of other names": (lambda: wl.train(MLP, NOISE, CONFIG, weights={"fc.weight": X}), "it lacks '1.weight, 1.bias"),
    "a number for a file to load": (lambda: wl.load(3), "path wants the path of a checkpoint, got 3"),
    "nothing to load": (lambda: wl.load(None), "path wants the path of a checkpoint, got None"),
    "a number for a file to save": (lambda: RUN.save(3), "path wants the path of a file to write, got 3"),  # type: ignore[arg-type]
    "a number for a net's file": (lambda: wl.load_net(3), "path wants the path of a .toml or .py file, got 3"),
    "a number to call": (lambda: wl.train(MLP, NOISE, CONFIG, each_epoch=3), "each_epoch wants a function of an epoch's log, got 3"),
    "a folder to load": (lambda: wl.load("."), "cannot be read"),
    "a folder that is not there": (lambda: RUN.save("nowhere/x.safetensors"), "could not be written"),
    # proof and climb
    "a rung's name to verify": (lambda: wl.verify("numpy", MLP, CONFIG), "build wants what makes a trainer, got 'numpy'"),
    "a rung to verify": (lambda: wl.verify(NUMPY, MLP, CONFIG), "give wl.ladder.find(name).build"),
    "a net's name to verify": (lambda: wl.verify(NUMPY.build, "mlp", CONFIG), "net wants a Net, got 'mlp'"),
    "a dict to verify with": (lambda: wl.verify(NUMPY.build, MLP, {}), "config wants a TrainConfig, got an object of type 'dict'"),
    "a data set's name to verify": (lambda: wl.verify(NUMPY.build, MLP, CONFIG, dataset="digits"), "dataset wants a Dataset, got 'digits'"),
    "repeats in words": (lambda: wl.climb(MLP, NOISE, CONFIG, ["numpy"], repeats="3"), "repeats wants a whole number"),
    "a budget in words": (lambda: wl.climb(MLP, NOISE, CONFIG, ["numpy"], budget="2"), "budget wants seconds above 0, got '2'"),
    "half an epoch": (lambda: wl.climb(MLP, NOISE, CONFIG, ["numpy"], epochs=1.5), "epochs wants a whole number"),
    "a rung twice": (lambda: wl.climb(MLP, NOISE, CONFIG, ["numpy", "numpy"]), "only once, got numpy twice"),
    "a number for a rung": (lambda: wl.ladder.find(3), "there is no rung"),
    "a rung in capitals": (lambda: wl.ladder.find("Numpy"), "there is no rung"),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLS)
def test_a_wrong_call_ends_in_one_line(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, words = CALLS[case]
    with pytest.raises(WarpladderError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) <= 400
    assert not list(tmp_path.iterdir())
