"""Models in Python: what a run or a loaded checkpoint predicts, how it scores, and the sentences for samples that
cannot be.
"""

from __future__ import annotations

import numpy as np
import pytest
from runs import AUTOENCODER, CONFIG, MLP, data

import warpladder as wl
from warpladder.data.standard import Standard
from warpladder.errors import ArgumentError, CheckpointError, DataError
from warpladder.nets import Flatten, Linear, Net, ReLU
from warpladder.proof.tolerance import bound
from warpladder.train import restore


@pytest.fixture(scope="module")
def noise():
    return data()


@pytest.fixture(scope="module")
def run(noise):
    return wl.train(MLP, noise, CONFIG)


@pytest.fixture(scope="module")
def images(noise):
    return wl.train(AUTOENCODER, noise, CONFIG)


def by_hand(run, x):
    """Logits of the small perceptron in float64, from its parameters alone."""
    p = {name: array.astype(np.float64) for name, array in run.params.items()}
    hidden = np.maximum(x.reshape(len(x), 16).astype(np.float64) / 255 @ p["1.weight"].T + p["1.bias"], 0)
    return hidden @ p["3.weight"].T + p["3.bias"]


def test_a_run_predicts_as_its_formula(run, noise):
    logits = by_hand(run, noise.test_x)
    error = np.linalg.norm(run.outputs(noise.test_x) - logits) / np.linalg.norm(logits)
    assert error <= bound("float32", 16 + 7)
    assert run.predict(noise.test_x).tolist() == logits.argmax(axis=1).tolist()
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    assert run.predict_proba(noise.test_x).shape == (13, 3)
    error = np.abs(run.predict_proba(noise.test_x) - powers / powers.sum(axis=1, keepdims=True)).max()
    assert error <= np.abs(logits).max() * bound("float32", 16 + 7)
    assert np.abs(run.predict_proba(noise.test_x).sum(axis=1) - 1).max() <= bound("float64", 3)


def test_the_score_is_that_of_training(run, images, noise):
    assert run.score(noise.test_x, noise.test_y) == run.test_accuracy
    assert images.score(noise.test_x) == images.test_loss
    assert images.predict(noise.test_x).shape == (13, 1, 4, 4) and images.predict(noise.test_x).dtype == np.float32


def test_a_loaded_checkpoint_is_the_run(run, noise, tmp_path):
    run.save(tmp_path / "mlp.safetensors")
    loaded = wl.load(tmp_path / "mlp.safetensors")
    assert isinstance(loaded, wl.Run) and isinstance(loaded, wl.Model)
    assert np.array_equal(loaded.outputs(noise.test_x), run.outputs(noise.test_x))
    assert [log.train_loss for log in loaded.history] == [log.train_loss for log in run.history]
    assert loaded.score(noise.test_x, noise.test_y) == run.score(noise.test_x, noise.test_y)
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        wl.load(tmp_path / "nothing.safetensors")


def test_predictions_are_those_of_the_command_line(run, noise):
    with restore(run.checkpoint) as trainer:
        assert np.array_equal(trainer.predict(noise.test_x, noise.scale), run.outputs(noise.test_x))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int64, object])
@pytest.mark.parametrize("shape", [(13, 1, 4, 4), (13, 4, 4), (13, 16)])
def test_samples_of_any_type_and_fitting_shape(run, noise, dtype, shape):
    x = noise.test_x.astype(dtype).reshape(shape)
    assert np.array_equal(run.outputs(x), run.outputs(noise.test_x))
    assert run.predict(x.tolist()).tolist() == run.predict(noise.test_x).tolist()


def test_samples_in_any_order_of_memory(run, noise):
    odd = np.asfortranarray(noise.test_x)[::-1]
    assert np.array_equal(run.outputs(odd), run.outputs(noise.test_x)[::-1])


def test_no_samples_give_no_predictions(run, images):
    none = np.zeros((0, 1, 4, 4), np.uint8)
    assert (
        run.predict(none).shape == (0,)
        and run.predict_proba(none).shape == (0, 3)
        and images.predict(none).shape == (0, 1, 4, 4)
    )
    with pytest.raises(DataError, match="no samples to score"):
        run.score(none, [])


def test_more_samples_than_go_through_at_once():
    net = Net("wide", (4,), (Linear(out_features=2**19), ReLU(), Linear(out_features=2)), wl.CrossEntropyLoss())
    model = wl.Model.from_state_dict(
        net, {name: np.full(shape, 1e-3, np.float32) for name, shape in shapes(net).items()}
    )
    x = np.arange(28, dtype=np.float32).reshape(7, 4)
    one_by_one = np.concatenate([model.outputs(x[i : i + 1]) for i in range(7)])
    assert np.linalg.norm(model.outputs(x) - one_by_one) <= bound("float32", 4 + 2**19) * np.linalg.norm(one_by_one)


def shapes(net):
    from warpladder.checkpoint.content import param_shapes

    return param_shapes(net)


X = np.full((5, 1, 4, 4), 100, np.uint8)

BAD = {
    "channels last": (
        lambda: wide().predict(np.zeros((2, 4, 6, 3), np.uint8)),
        DataError,
        r"looks like NHWC .*x.transpose\(0, 3, 1, 2\)",
    ),
    "another size": (
        lambda: X[:, :, :3],
        DataError,
        r"x has shape \(5, 1, 3, 4\), net 'small mlp' takes \(n, 1, 4, 4\)",
    ),
    "one sample": (lambda: X[0, 0].ravel(), DataError, r"single sample: give x\[None\]"),
    "a number": (lambda: 3, DataError, r"x has shape \(\)"),
    "nothing": (lambda: None, DataError, r"x has shape \(\)"),
    "words": (lambda: np.full((5, 16), "a"), DataError, "x must hold numbers"),
    "objects": (lambda: np.full((5, 16), None), DataError, "x h"),
    "rows of different length": (lambda: [[1, 2], [3]], DataError, "x cannot be made an array .*rows of one length"),
    "nan": (lambda: np.where(np.arange(5)[:, None, None, None] == 3, np.nan, X), DataError, "x holds nan in sample 3"),
    "infinity": (lambda: X * np.inf, DataError, "x holds inf in sample 0"),
    "beyond float32": (lambda: X * 1e40, DataError, "x holds inf in sample 0"),
    "complex numbers": (lambda: X * 1j, DataError, "x must hold numbers, got complex128"),
    "scaled before": (
        lambda: np.linspace(0, 1, 80).reshape(5, 16),
        DataError,
        "x lies between 0 and 1, .* before scaling",
    ),
}


def wide():
    net = Net("wide", (3, 4, 6), (Flatten(), Linear(out_features=2)), wl.CrossEntropyLoss())
    return wl.Model.from_state_dict(net, {name: np.zeros(shape) for name, shape in shapes(net).items()})


@pytest.mark.parametrize("case", BAD)
def test_samples_that_cannot_be(run, case):
    make, kind, words = BAD[case]
    with pytest.raises(kind, match=words) as caught:
        run.predict(make())
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("y", "kind", "words"),
    [
        (None, DataError, "scoring needs labels"),
        ([0, 1], DataError, "5 samples, but 2 labels"),
        (np.eye(5), DataError, "not one-hot rows"),
        ([0, 1, 2, 3, 0], DataError, "has 3 outputs, y has labels 0 to 3"),
        ([0, 1, -1, 0, 0], DataError, "labels -1 to 1"),
        ([0.5, 1, 1, 1, 1], DataError, "y holds float64 where labels are wanted"),
        ([float("nan"), 1, 1, 1, 1], DataError, "the label of sample 0 is nan"),
        (["a", "b", "a", "a", "a"], DataError, "y are names, 'a' first, but the classes are numbers"),
        ([None] * 5, DataError, "the label of sample 0 is None"),
    ],
    ids=str,
)
def test_labels_that_cannot_be(run, y, kind, words):
    with pytest.raises(kind, match=words) as caught:
        run.score(X, y)
    assert "\n" not in str(caught.value)


def test_what_a_net_without_classes_cannot(images):
    with pytest.raises(ArgumentError, match="no classes"):
        images.predict_proba(X)
    with pytest.raises(ArgumentError, match=r"give score\(x\) alone"):
        images.score(X, [0] * 5)
    assert images.classes_.tolist() == []


# Names of classes


@pytest.fixture(scope="module")
def table():
    """Three kinds of flowers by three lengths in very different units."""
    rng = np.random.default_rng(4)
    kind = rng.integers(0, 3, 90)
    x = np.column_stack(
        [kind + 10 + rng.normal(0, 0.2, 90), rng.normal(5e4, 10, 90), kind * 1e-4 + rng.normal(0, 1e-5, 90)]
    )
    return x, np.array(["setosa", "iris", "Rose, red"])[kind]


FLOWERS = Net("flowers", (3,), (Linear(out_features=8), ReLU(), Linear(out_features=3)), wl.CrossEntropyLoss())
QUICK = wl.TrainConfig(epochs=30, batch_size=8, learning_rate=0.1)


def test_names_and_scaled_features_go_into_the_checkpoint_and_back(table, tmp_path):
    x, y = table
    made = wl.data.arrays(x[:60], y[:60], x[60:], y[60:], standardize=True)
    assert (
        made.class_names == ("Rose, red", "iris", "setosa")
        and made.train_y is not None
        and made.train_y.dtype == np.int32
    )
    run = wl.train(FLOWERS, made, QUICK)
    assert run.test_accuracy is not None and run.test_accuracy > 0.9, (
        "unscaled, the second feature would drown the others"
    )
    run.save(tmp_path / "flowers.safetensors")
    for model in (run, wl.load(tmp_path / "flowers.safetensors")):
        assert model.classes_.tolist() == ["Rose, red", "iris", "setosa"]
        assert (model.predict(x[60:]) == y[60:]).mean() == run.test_accuracy
        assert model.score(x[60:], y[60:]) == model.score(made.test_x, made.test_y) == run.test_accuracy
        assert model.predict_proba(x[60:]).argmax(axis=1).tolist() == [
            model.classes_.tolist().index(name) for name in model.predict(x[60:])
        ]
        with pytest.raises(
            DataError, match="y: 'tulip', the label of sample 1, is none of the classes Rose, red, iris, setosa"
        ):
            model.score(x[:2], ["iris", "tulip"])


def test_standardised_training_is_training_on_standardised_arrays(table):
    x, y = table
    x = x.astype(np.float32)
    made = wl.data.arrays(x[:60], y[:60], x[60:], y[60:], standardize=True)
    asked, seen = wl.train(FLOWERS, made, QUICK), made.standardized()
    mean, std = x[:60].astype(np.float64).mean(axis=0), x[:60].astype(np.float64).std(axis=0)
    close = bound("float64", 60)
    assert np.allclose(asked.checkpoint.data.mean, mean, rtol=close, atol=0) and np.allclose(
        asked.checkpoint.data.std, std, rtol=close * mean.max() / std.min(), atol=0
    )
    for part, rows in ((seen.train_x, x[:60]), (seen.test_x, x[60:])):
        truth = (rows - mean) / std
        assert part.dtype == np.float32 and np.linalg.norm(part - truth) <= bound("float32", 1) * np.linalg.norm(truth)
    plain = wl.train(FLOWERS, wl.data.arrays(seen.train_x, y[:60], seen.test_x, y[60:]), QUICK)
    assert all(np.array_equal(array, plain.params[name]) for name, array in asked.params.items())


def test_names_without_a_net_for_them(table):
    x, y = table
    fewer = Net("two", (3,), (Linear(out_features=2),), wl.CrossEntropyLoss())
    with pytest.raises(DataError, match="has 2 outputs, but arrays has labels up to 2"):
        wl.train(fewer, wl.data.arrays(x, y, x, y))
    more = Net("five", (3,), (Linear(out_features=5),), wl.CrossEntropyLoss())
    assert wl.train(more, wl.data.arrays(x, y, x, y), QUICK.but(epochs=0)).classes_.tolist() == [
        "Rose, red",
        "iris",
        "setosa",
        "3",
        "4",
    ]


def test_a_trainer_takes_no_data_that_are_still_to_be_standardised(table):
    x, y = table
    made = wl.data.arrays(x, y, x, y, standardize=True)
    run = wl.train(FLOWERS, made, QUICK.but(epochs=0))
    with restore(run.checkpoint) as trainer, pytest.raises(DataError, match=r"give dataset.standardized\(\)"):
        trainer.load(made)


def test_a_run_goes_on_with_the_same_names_and_scales_alone(table, tmp_path):
    x, y = table
    made, file = wl.data.arrays(x, y, x, y, standardize=True), tmp_path / "half.safetensors"
    wl.train(FLOWERS, made, QUICK.but(epochs=2)).save(file)
    whole = wl.train(FLOWERS, made, QUICK.but(epochs=4))
    resumed = wl.train(FLOWERS, made, QUICK.but(epochs=4), resume=file)
    assert all(np.array_equal(resumed.params[name], array) for name, array in whole.params.items())
    renamed = wl.data.arrays(x, np.char.add("a ", y), x, np.char.add("a ", y), standardize=True)
    for other, words in (
        (renamed, "classes are 'Rose, red, iris, setosa' there"),
        (made.but(standard=None), "samples are standardised by other"),
    ):
        with pytest.raises(CheckpointError, match=words):
            wl.train(FLOWERS, other, QUICK.but(epochs=4), resume=file)


def test_one_number_for_each_channel_of_an_image():
    x = np.random.default_rng(0).integers(0, 256, (9, 3, 5, 4), np.uint8)
    x[:, 1] = 7
    standard = Standard.fit(x)
    flat = x.astype(np.float64).transpose(1, 0, 2, 3).reshape(3, -1)
    close = bound("float64", flat.size)
    assert np.allclose(standard.mean, flat.mean(axis=1), rtol=close) and np.allclose(
        standard.std, [flat[0].std(), 1, flat[2].std()], rtol=close
    )
    seen = standard.apply(x)
    assert seen.dtype == np.float32 and seen.shape == x.shape and not seen[:, 1].any()
    close = bound("float32", flat.shape[1])
    assert abs(seen[:, 0].mean(dtype=np.float64)) <= close and abs(seen[:, 0].std(dtype=np.float64) - 1) <= close
    with pytest.raises(DataError, match="have 2 features or channels, but 3 were standardised"):
        standard.apply(x[:, :2])


def test_a_constant_that_rounding_spreads_is_no_deviation():
    assert Standard.fit(np.full((1000, 2), 0.1, np.float64)).std == (1.0, 1.0)


@pytest.mark.parametrize(
    ("mean", "std"), [((), ()), ((1.0,), (1.0, 1.0)), ((1.0,), (0.0,)), ((float("nan"),), (1.0,)), ((1.0,), (-1.0,))]
)
def test_standards_that_cannot_be(mean, std):
    with pytest.raises(DataError, match="standardisation wants"):
        Standard(mean, std)


def test_an_empty_test_part_is_standardised_to_an_empty_one(table):
    x, y = table
    made = wl.data.arrays(x, y, x[:0], None, standardize=True).standardized()
    assert made.test_x.shape == (0, 3) and made.standard is None and made.scale == 1.0


@pytest.mark.parametrize("values", [(-1, 1), (1, 2), (1.0, 2.0), (False, True), ("a", "b")])
def test_labels_of_the_data_set_itself_are_scored_as_the_users(values):
    x = np.random.default_rng(0).normal(size=(120, 2))
    y = np.array(values)[(x[:, 0] > 0).astype(int)]
    made = wl.data.arrays(x[:80], y[:80], x[80:], y[80:])
    run = wl.train("mlp", made, QUICK, rung="numpy")
    assert made.test_y is not None and run.test_accuracy is not None and run.test_accuracy > 0.9
    assert run.score(made.test_x, made.test_y) == run.score(x[80:], y[80:]) == run.test_accuracy
    second = made.test_y == 1
    assert run.score(made.test_x[second], made.test_y[second]) == run.score(x[80:][second], y[80:][second]) > 0.8
