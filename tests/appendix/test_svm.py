"""The support vector machine: scikit-learn's labels and decisions from blocks of classes, its memory foretold, and the
sentences for what cannot be.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import warpladder as wl
import warpladder.appendix.svm.run as svm_run
from warpladder.appendix import svm
from warpladder.appendix.features import extract, write_features
from warpladder.appendix.svm.fitted import Fitted, pairs_of
from warpladder.appendix.svm.gram import Gram
from warpladder.appendix.svm.kernel import CpuRbf, TorchRbf
from warpladder.appendix.svm.memory import chosen_method, gram_bytes, memory_of
from warpladder.appendix.svm.pairs import fit_pairs
from warpladder.appendix.svm.results import SvmResults
from warpladder.appendix.svm.scaling import fit_scaler, gamma_of, scale
from warpladder.errors import ArgumentError, ConfigError, DataError, DeviceError, OutOfMemoryError, ResultsError
from warpladder.results.classes import ClassScores, class_scores

#: libsvm stops where no sample breaks the conditions of the solution by more than this; decisions that differ by less
#: are the same solution.
TOLERANCE = 1e-3


def noisy(samples, width, classes, seed=0, dead=0.3, spread=0.2, shares=None):
    """Features as a ReLU leaves them, some of which are always 0, of classes that overlap: (samples, width) float32,
    and labels.
    """
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(0, spread, (classes, width))
    labels = rng.choice(classes, samples, p=shares)
    x = np.maximum(centres[labels] + rng.normal(size=(samples, width)), 0).astype(np.float32)
    x[:, np.random.default_rng(98).random(width) < dead] = 0
    return x, labels


def by_sklearn(x, y, tests, C=10.0):
    """The decisions (one against one) and labels of scikit-learn's own scaler and SVC, and its gamma."""
    scaler = StandardScaler().fit(x)
    machine = SVC(C=C, decision_function_shape="ovo").fit(scaler.transform(x), y)
    scaled = scaler.transform(tests)
    decisions = machine.decision_function(scaled)
    return (decisions if decisions.ndim == 2 else -decisions[:, None]), machine.predict(scaled), machine


def by_blocks(x, y, tests, C=10.0, precision="float64", workers=2):
    """The same by warpladder's own parts."""
    classes, numbers = np.unique(y, return_inverse=True)
    scaled, others = x[np.argsort(numbers, kind="stable")], tests.copy()
    scaler = fit_scaler(scaled)
    scale(scaled, scaler)
    scale(others, scaler)
    gram = Gram(np.bincount(numbers).tolist())
    kernel = CpuRbf(scaled, gamma_of(scaled), precision, 2)
    gram.compute(kernel, lambda done, total: None)
    fitted = fit_pairs(gram, C, workers, lambda done, total: None)
    decisions = np.concatenate([each for _, each in svm_run.test_decisions(fitted, kernel, others)])
    kernel.close()
    return decisions, classes[fitted.votes(decisions)], fitted, gram, scaled


def same(x, y, tests, C=10.0):
    """Assert that both agree; returns what the blocks gave."""
    decisions, labels, machine = by_sklearn(x, y, tests, C)
    found, taken, fitted, gram, scaled = by_blocks(x, y, tests, C)
    assert gamma_of(scaled) == pytest.approx(machine._gamma, rel=1e-12)
    assert found.shape == decisions.shape
    assert np.abs(found - decisions).max() <= TOLERANCE
    assert (taken == labels).all()
    assert fitted.support_vectors == len(machine.support_)
    return found, fitted, gram


# The same as scikit-learn.


@pytest.mark.slow
def test_five_thousand_noisy_samples_in_ten_classes():
    x, y = noisy(5000, 64, 10)
    tests, _ = noisy(1000, 64, 10, seed=1)
    found, _, _ = same(x, y, tests)
    assert (np.sort(np.abs(found), axis=None)[:100] < 0.02).all()  # it was close


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_few_samples(classes, C):
    x, y = noisy(300, 20, classes, dead=0.4)
    same(x, y, noisy(100, 20, classes, seed=1)[0], C)


def test_unequal_classes_one_of_them_of_one_sample():
    x, y = noisy(400, 30, 4, shares=[0.8, 0.15, 0.04, 0.01])
    y[y == 3] = 2
    y[7] = 3
    same(x, y, noisy(100, 30, 4, seed=1)[0])


def test_labels_with_gaps():
    x, y = noisy(200, 10, 3)
    same(x, np.array([2, 5, 40])[y], noisy(50, 10, 3, seed=1)[0])


def test_features_that_are_dead_make_gamma_larger():
    x, y = noisy(200, 40, 3, dead=0.9)
    alive = int((x != 0).any(axis=0).sum())
    assert alive < 10
    _, _, _, _, scaled = by_blocks(x, y, x[:5])
    assert gamma_of(scaled) == pytest.approx(1 / alive, rel=1e-2)
    same(x, y, noisy(50, 40, 3, seed=1, dead=0.9)[0])


def test_features_that_are_all_dead():
    x, y = np.zeros((20, 5), np.float32), np.arange(20) % 2
    same(x, y, np.zeros((3, 5), np.float32))


def test_samples_that_are_there_twice_with_different_labels():
    x, y = noisy(150, 8, 3)
    same(np.concatenate([x, x]), np.concatenate([y, (y + 1) % 3]), x[:40])


def test_features_in_large_units():
    x, y = noisy(300, 20, 4)
    same(x * 1e4 + 3e4, y, noisy(60, 20, 4, seed=1)[0] * np.float32(1e4) + np.float32(3e4))


def test_training_samples_are_decided_by_the_blocks():
    x, y = noisy(300, 20, 4, shares=[0.5, 0.2, 0.2, 0.1])
    x, y = x[np.argsort(y, kind="stable")], np.sort(y)
    decisions, labels, _ = by_sklearn(x, y, x)
    _, _, fitted, gram, _ = by_blocks(x, y, x[:1])
    own = svm_run.train_decisions(fitted, gram, 2)
    assert np.abs(own - decisions).max() <= TOLERANCE and (fitted.votes(own) == labels).all()


def test_products_in_float32_stay_within_the_solvers_tolerance():
    x, y = noisy(600, 40, 5)
    decisions, _, _ = by_sklearn(x, y, x)
    assert np.abs(by_blocks(x, y, x, precision="float32")[0] - decisions).max() <= 3 * TOLERANCE


def test_the_number_of_workers_changes_no_bit():
    x, y = noisy(300, 20, 6)
    assert (by_blocks(x, y, x[:50], workers=1)[0] == by_blocks(x, y, x[:50], workers=5)[0]).all()


# Votes.


def votes_for(decisions, classes):
    fitted = Fitted(
        [slice(c, c + 1) for c in range(classes)],
        [np.ones((1, classes - 1))] * classes,
        np.zeros(len(pairs_of(classes))),
    )
    return fitted.votes(np.array(decisions, float)).tolist()


def test_a_tie_takes_the_first_class():
    assert pairs_of(3) == [(0, 1), (0, 2), (1, 2)]
    assert votes_for([[1, -1, 1], [-1, 1, -1]], 3) == [0, 0]  # each class has one vote
    assert votes_for([[-1, -1, 1, -1, 1, -1]], 4) == [1]  # 1 and 3 have two each


def test_a_decision_of_zero_is_the_second_classes():
    assert votes_for([[0.0], [-0.0], [1e-300]], 2) == [1, 1, 0]


def test_votes_and_not_the_largest_sum_of_decisions():
    assert votes_for([[0.1, 0.1, 90.0]], 3) == [0]


def test_ties_as_sklearn_takes_them():
    """Three classes around a middle that is as far from each: its votes are one for each."""
    corners = np.array([[0, 1], [np.sqrt(3) / 2, -0.5], [-np.sqrt(3) / 2, -0.5]])
    rng = np.random.default_rng(0)
    x = np.concatenate([corner + rng.normal(0, 0.9, (40, 2)) for corner in corners]).astype(np.float32)
    y = np.repeat([0, 1, 2], 40)
    grid = np.stack(np.meshgrid(*[np.linspace(-1.5, 1.5, 60, dtype=np.float32)] * 2), axis=-1).reshape(-1, 2)
    found, fitted, _ = same(x, y, grid)
    counts = np.stack([(found[:, 0] > 0) * 1 + (found[:, 1] > 0), (found[:, 0] <= 0) * 1 + (found[:, 2] > 0)])
    assert ((counts == 1).all(axis=0)).sum() > 3  # there are ties among them
    assert (fitted.votes(found)[(counts == 1).all(axis=0)] == 0).all()


# The kernel.


@pytest.mark.parametrize("shape", [(3, 5), (600, 1100)])
def test_a_kernels_tiles_meet(shape):
    """Sizes below one tile, and beyond some, by the formula in float64."""
    rng = np.random.default_rng(0)
    train, x = (rng.normal(size=(rows, 7)).astype(np.float32) for rows in (shape[1], shape[0]))
    out = np.full(shape, np.nan, np.float32)
    kernel = CpuRbf(train, 0.3, "float64", 2)
    kernel.run(kernel.between(x, out))
    truth = np.exp(-0.3 * np.square(x[:, None, :].astype(float) - train).sum(axis=2))
    assert np.abs(out - truth).max() <= 2.0**-24


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_pytorch_computes_the_same_kernel(precision):
    x, y = noisy(700, 30, 3)
    x = x[np.argsort(y, kind="stable")]
    matrices = []
    for kernel in (CpuRbf(x, 0.02, precision, 2), TorchRbf(x, 0.02, precision, "cpu")):
        gram = Gram(np.bincount(y).tolist())
        gram.compute(kernel, lambda done, total: None)
        out = np.empty((9, 700), np.float32)
        kernel.run(kernel.between(x[:9] + 1, out))
        matrices.append((gram.pair(0, 2, np.empty(700**2)), out))
        kernel.close()
    for ours, theirs in zip(*matrices, strict=True):
        assert np.abs(ours - theirs).max() <= (2.0**-23 if precision == "float64" else 2e-6)


def test_a_pairs_matrix_is_whole_and_symmetric():
    x, y = noisy(900, 12, 3, shares=[0.6, 0.1, 0.3])
    x = x[np.argsort(y, kind="stable")]
    gram = Gram(np.bincount(y).tolist())
    kernel = CpuRbf(x, 0.1, "float64", 2)
    gram.compute(kernel, lambda done, total: None)
    own = np.concatenate([x[gram.ranges[0]], x[gram.ranges[2]]]).astype(float)
    truth = np.exp(-0.1 * np.square(own[:, None] - own).sum(axis=2))
    matrix = gram.pair(0, 2, np.full(900**2, np.nan))
    assert (matrix == matrix.T).all() and (np.diag(matrix) == 1).all()
    assert np.abs(matrix - truth).max() <= 2.0**-23


# All of it.


def test_both_methods_classify_alike():
    x, y = noisy(400, 20, 5)
    tests, truth = noisy(100, 20, 5, seed=1)
    parts = svm.of_arrays(x, y, "train"), svm.of_arrays(tests, truth, "test")
    told = []
    found = [
        svm.classify(*parts, svm.SvmSettings(method=method), progress=lambda *a: told.append(a))
        for method in ("sklearn", "blocks")
    ]
    taken = StandardScaler().fit(x)
    machine = SVC(C=10).fit(taken.transform(x), y)
    for each in found:
        assert each.test_accuracy == machine.score(taken.transform(tests), truth)
        assert each.train_accuracy == machine.score(taken.transform(x), y)
        assert each.scores == found[0].scores and each.support_vectors == found[0].support_vectors
    assert found[0].method == "sklearn" and set(found[1].seconds) == {"read", "scale", "gram", "fit", "predict"}
    assert {"pairs of classes", "scaling", "predicting"} <= {what for what, *_ in told}


@pytest.mark.parametrize("method", ["sklearn", "blocks"])
def test_features_as_they_are(method, tmp_path):
    x, y = noisy(400, 20, 5, dead=0.3)
    x *= np.geomspace(1, 100, 20, dtype=np.float32)  # scaling makes a difference
    tests, truth = noisy(100, 20, 5, seed=1, dead=0.3)
    tests *= np.geomspace(1, 100, 20, dtype=np.float32)
    parts = svm.of_arrays(x, y, "train"), svm.of_arrays(tests, truth, "test")
    found = svm.classify(*parts, svm.SvmSettings(method=method, scaling="none"))
    machine = SVC(C=10).fit(x, y)
    assert found.gamma == pytest.approx(machine._gamma, rel=1e-6)
    assert (found.train_accuracy, found.test_accuracy) == (machine.score(x, y), machine.score(tests, truth))
    assert found.support_vectors == len(machine.support_)
    assert svm.classify(*parts, svm.SvmSettings(method=method)).test_accuracy != found.test_accuracy
    found.save(tmp_path / "r.json")
    assert SvmResults.load(tmp_path / "r.json").scaling == "none"
    older = (tmp_path / "r.json").read_text().replace(',\n "scaling": "none"', "")
    (tmp_path / "r.json").write_text(older)
    assert SvmResults.load(tmp_path / "r.json").scaling == "standard", "files from before the option were scaled"


def test_a_limit_takes_rows_as_data_sets_do():
    digits = wl.data.load("digits")
    limited = wl.data.load("digits", limit=200, seed=3)

    def flat(x):
        return x.reshape(len(x), -1)

    test = svm.of_arrays(flat(digits.test_x), digits.test_y, "test")
    found = svm.classify(svm.of_arrays(flat(digits.train_x), digits.train_y, "train"), test, limit=200, seed=3)
    assert found.scores == svm.classify(svm.of_arrays(flat(limited.train_x), limited.train_y, "train"), test).scores
    assert found.train_samples == 200 and found.test_accuracy > 0.85


def test_names_of_classes():
    x, y = noisy(90, 5, 2)
    names = np.array(["cat", "dog"])[y]
    found = svm.classify(svm.of_arrays(x, names, "train"), svm.of_arrays(x, names, "test", ("cat", "dog")))
    assert found.scores.names == ("cat", "dog") and sum(found.scores.support) == 90


def test_results_are_kept(tmp_path):
    x, y = noisy(60, 5, 3)
    found = svm.classify(svm.of_arrays(x, y, "train"), svm.of_arrays(x, y, "test"))
    found.save(tmp_path / "r.json")
    assert SvmResults.load(tmp_path / "r.json") == found
    (tmp_path / "r.json").write_text((tmp_path / "r.json").read_text().replace('"schema": 1', '"schema": 7'))
    with pytest.raises(ResultsError, match="has schema 7, this warpladder reads 1"):
        SvmResults.load(tmp_path / "r.json")
    with pytest.raises(ResultsError, match=r"none\.json: No such file"):
        SvmResults.load(tmp_path / "none.json")


def test_class_scores_by_hand():
    scores = class_scores(np.array([0, 0, 1, 1, 3]), np.array([0, 1, 1, 1, 0]), ("a", "b", "c", "d"))
    assert scores.confusion == ((1, 1, 0, 0), (0, 2, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0))
    assert scores.precision == pytest.approx((1 / 2, 2 / 3, 0, 0)) and scores.recall == pytest.approx((1 / 2, 1, 0, 0))
    assert scores.support == (2, 2, 0, 1)
    assert scores.f1 == pytest.approx((1 / 2, 4 / 5, 0, 0)) and scores.accuracy == 3 / 5
    with pytest.raises(ResultsError):
        ClassScores(("a",), (1.0,), (1.0,), (1.0,), (2,), ((1,),))


# Memory.


def test_what_fifty_thousand_samples_take():
    """The sizes of CIFAR-10 and 8,192 features: within 16 GB, with several pairs at a time."""
    counts = [5000] * 10
    assert gram_bytes(counts) == 5_500_000_000
    found = memory_of(counts, 10_000, 8192, "blocks", 16, 16 * 10**9)
    assert found.total <= 16 * 10**9 and found.workers >= 4
    assert memory_of(counts, 10_000, 8192, "blocks", 2, 10**12).workers == 2
    assert (
        chosen_method("auto", "cpu", 50_000, 10_000, 8192) == "blocks"
        and chosen_method("auto", "cpu", 300, 100, 64) == "sklearn"
    )


@pytest.mark.parametrize("method", ["sklearn", "blocks"])
def test_too_little_memory_is_told_before_any_is_taken(method):
    _, y = noisy(200, 10, 2)

    def batches():
        raise AssertionError("nothing may be read")

    train, test = (svm.FeaturePart(what, 8192, np.tile(y, 100), batches) for what in ("train", "test"))
    with pytest.raises(
        OutOfMemoryError,
        match=r"20,000 training samples of 8,192 features take .* GB, and 3 GB is allowed: .* --limit \d+00$",
    ):
        svm.classify(train, test, svm.SvmSettings(method=method, memory=3 * 10**9))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's largest size")
@pytest.mark.slow
def test_it_takes_no_more_than_was_foretold():
    body = """
import numpy as np
from warpladder.appendix import svm
from warpladder.machine import facts as machine, memory
import sklearn.svm
rng = np.random.default_rng(0)
x, y = rng.normal(size=(5000, 300)).astype(np.float32), rng.integers(0, 2, 5000)
parts = svm.of_arrays(x, y, "train"), svm.of_arrays(x[:100], y[:100], "test")
machine.facts(2)
before = memory.resident_peak()
found = svm.classify(*parts, svm.SvmSettings(method="blocks", threads=1))
print(found.predicted_bytes, found.peak_bytes - before)
"""
    told, taken = map(
        int, subprocess.run([sys.executable, "-c", body], check=True, capture_output=True, text=True).stdout.split()
    )
    assert 50e6 < taken <= told


# What cannot be.


def parts_of(train, test=None):
    """The parts of a call, of (features, labels) each; the test part is the training part again if none is given."""
    (x, y), (other, truth) = train, test or train
    return svm.of_arrays(x, y, "train"), svm.of_arrays(other, truth, "test")


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e39])
@pytest.mark.by_day("nan", "-inf")
def test_features_that_are_not_finite(odd):
    x, y = noisy(30, 4, 2)
    wild = x.astype(float)
    wild[17, 2] = odd
    with pytest.raises(DataError, match=r"train: the features of sample 17 hold (nan|inf|-inf)"):
        svm.classify(*parts_of((wild, y), (x, y)))
    with pytest.raises(DataError, match=r"test: the features of sample 17"):
        svm.classify(*parts_of((x, y), (wild, y)))


def test_what_does_not_go_together():
    x, y = noisy(30, 4, 2)
    with pytest.raises(DataError, match="train has 4 features a sample, test has 3"):
        svm.classify(*parts_of((x, y), (x[:, :3], y)))
    with pytest.raises(DataError, match="all samples have the label 1, a classifier needs two classes"):
        svm.classify(*parts_of((x, np.ones(30, int)), (x, y)))
    with pytest.raises(DataError, match="label -1 is below 0"):
        svm.classify(*parts_of((x, y - 1), (x, y)))
    for wrong, words in (
        ((x, y[:5]), "as many whole numbers"),
        ((x, y / 2), "as many whole numbers"),
        ((x[0], y), "features are numbers"),
    ):
        with pytest.raises(DataError, match=words):
            svm.of_arrays(wrong[0], wrong[1], "train")
    with pytest.raises(DataError, match="limit must be 2 to 30"):
        svm.classify(*parts_of((x, y)), limit=31)
    with pytest.raises(ArgumentError, match="wants two FeatureParts"):
        svm.classify(x, y)


@pytest.mark.parametrize(
    "settings",
    [
        {"C": 0}, {"C": float("nan")}, {"C": "10"}, {"gamma": -1.0}, {"gamma": "auto"}, {"method": "fast"}, {"device": "tpu"}, {"precision": "tf32"},
        {"scaling": "minmax"}, {"threads": 0}, {"threads": 10**6}, {"memory": 0}, {"device": "cuda", "method": "sklearn"},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(settings):
    with pytest.raises(ConfigError) as caught:
        svm.SvmSettings(**settings)
    assert "\n" not in str(caught.value)


def test_a_gpu_that_is_not_there(monkeypatch):
    monkeypatch.setattr("warpladder.appendix.svm.kernel.find_spec", lambda name: None)
    with pytest.raises(DeviceError, match="CuPy or PyTorch"):
        train, test = parts_of(noisy(30, 4, 2))
        svm.classify(train, test, svm.SvmSettings(device="cuda"))


def test_an_error_in_a_worker_is_told(monkeypatch):
    monkeypatch.setattr("warpladder.appendix.svm.pairs._fit", lambda *a: (_ for _ in ()).throw(MemoryError("a pair")))
    with pytest.raises(MemoryError, match="a pair"):
        x, y = noisy(60, 4, 3)
        by_blocks(x, y, x[:1])


# The command.


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with a checkpoint, features of two of its layers and of another net, one without labels."""
    folder = tmp_path_factory.mktemp("kept")
    digits = wl.data.load("digits", limit=300)
    for name, seed in (("a", 0), ("b", 1)):
        run = wl.train("mlp10", digits, wl.TrainConfig(epochs=1, seed=seed))
        run.save(folder / f"{name}.safetensors")
        with extract(run.checkpoint, 1, digits, "numpy") as source:
            write_features(folder / f"{name}1.safetensors", source)
            write_features(folder / f"{name}-test.safetensors", source, ("test",))
            write_features(folder / f"{name}-train.npy", source, ("train",))
            write_features(folder / f"{name}-test.npy", source, ("test",))
    (folder / "b-train.labels.npy").unlink()
    with extract(run.checkpoint, 0, digits, "numpy") as source:
        write_features(folder / "wide-test.safetensors", source, ("test",))
    whole = (folder / "a1.safetensors").read_bytes()
    (folder / "short.safetensors").write_bytes(whole[:-9])
    (folder / "flipped.safetensors").write_bytes(whole[:-9] + b"\x01" + whole[-8:])
    return folder


def test_the_command_scores_a_file(run, kept):
    code, out, err = run("svm", str(kept / "a1.safetensors"), "--out", "s")
    assert (code, err) == (0, "")
    for words in (
        "precision",
        "Confusion: rows are what samples are",
        "of 300 training samples",
        "of 360 test samples",
        "Seconds: read",
        "Memory: ",
    ):
        assert words in out
    assert sorted(path.name for path in Path("s").iterdir()) == ["confusion.png", "confusion.svg", "results.json"]
    assert (
        Path("s/confusion.png").read_bytes().startswith(b"\x89PNG") and b"<svg" in Path("s/confusion.svg").read_bytes()
    )
    found = SvmResults.load("s/results.json")
    digits, trained = wl.data.load("digits", limit=300), wl.load(kept / "a.safetensors")
    x, tests = trained.features(digits.train_x, 1), trained.features(digits.test_x, 1)
    _, labels, _ = by_sklearn(x, digits.train_y, tests)
    assert found.test_accuracy == (labels == digits.test_y).mean()
    assert (
        found.scores.names == tuple("0123456789")
        and found.command.startswith("warpladder svm ")
        and found.machine.cores >= 1
    )


@pytest.mark.slow
def test_features_at_once_and_from_files_are_the_same(run, kept):
    a = str(kept / "a.safetensors")
    given = ["--checkpoint", a, "--layer", "1", "--data", "digits", "--limit", "300"]
    for out, words in (
        ("one", given),
        ("two", [str(kept / "a-train.npy"), str(kept / "a-test.npy")]),
        ("three", [str(kept / "a1.safetensors")]),
    ):
        assert run("svm", *words, "--out", out)[0] == 0
    assert SvmResults.load("one/results.json").scores.confusion == SvmResults.load("two/results.json").scores.confusion
    assert (
        SvmResults.load("one/results.json").scores.confusion == SvmResults.load("three/results.json").scores.confusion
    )


WRONG = {
    "nothing": ([], "name a file of features, or --checkpoint, --layer, --data"),
    "half of it": (["--checkpoint", "{k}/a.safetensors"], "name a file of features, or --layer, --data"),
    "both": (["{k}/a1.safetensors", "--layer", "1"], "leave out"),
    "a file that is not there": (["none.safetensors"], "there is no such file"),
    "a file that is short": (["{k}/short.safetensors"], "not a whole file of features"),
    "a file with a wrong bit": (["{k}/flipped.safetensors"], "is damaged"),
    "a checkpoint as features": (["{k}/a.safetensors"], "but none of features"),
    "no training features": (["{k}/a-test.safetensors"], "holds no train features"),
    "no test features": (["{k}/a-train.npy"], "holds no test features"),
    "no labels": (["{k}/b-train.npy", "{k}/a-test.npy"], "has no train labels"),
    "another width": (["{k}/a1.safetensors", "{k}/wide-test.safetensors"], "has 10 features a sample"),
    "another net": (["{k}/a1.safetensors", "{k}/b-test.safetensors"], "come from different nets"),
    "too little memory": (
        ["{k}/a1.safetensors", "--method", "blocks", "--memory", "0.01"],
        "0.01 GB is allowed: take fewer samples with --limit",
    ),
    "a wrong C": (["{k}/a1.safetensors", "--C", "-1"], "C wants a finite number above 0"),
    "a wrong gamma": (["{k}/a1.safetensors", "--gamma", "auto"], "--gamma wants a number above 0 or 'scale'"),
    "a wrong method": (["{k}/a1.safetensors", "--method", "fast"], "'auto', 'sklearn', 'blocks'"),
    "a wrong memory": (["{k}/a1.safetensors", "--memory", "nan"], "--memory wants GB above 0"),
    "too many threads": (["{k}/a1.safetensors", "--threads", "100000"], "threads wants a whole number from 1 to"),
    "a limit of 1": (["{k}/a1.safetensors", "--limit", "1"], "limit must be 2 to 300"),
    "a layer that is not there": (
        ["--checkpoint", "{k}/a.safetensors", "--layer", "7", "--data", "digits"],
        "has layers 0 to 3",
    ),
    "results that are there": (["{k}/a1.safetensors", "--out", "there"], "insist with --overwrite"),
    "a folder that is a file": (["{k}/a1.safetensors", "--out", "text"], "text: cannot be made"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_one_line_and_code_2(run, kept, arguments, words):
    Path("there").mkdir()
    Path("there/results.json").write_text("mine")
    Path("text").write_text("mine")
    code, _, err = run("svm", *(each.format(k=kept) for each in arguments))
    assert code == 2 and err.startswith("warpladder: ") and err.count("\n") == 1, err
    assert words in err
    assert Path("there/results.json").read_text() == "mine" and not list(Path("runs").rglob("*"))


def test_one_class(run, kept):
    np.save("x.npy", np.ones((5, 10), np.float32))
    np.save("x.labels.npy", np.zeros(5, np.int32))
    code, _, err = run("svm", "x.npy", str(kept / "a-test.npy"))
    assert code == 2 and "all samples have the label 0" in err and err.count("\n") == 1


@pytest.mark.parametrize("where", ["fit_pairs", "read_rows", "train_decisions"])
def test_ctrl_c_leaves_nothing(run, kept, monkeypatch, where):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(svm_run, where, stop)
    code, _, err = run("svm", str(kept / "a1.safetensors"), "--method", "blocks")
    assert (code, err.strip()) == (130, "warpladder: interrupted")
    assert not [path for path in Path().rglob("*") if path.is_file()]


def _stopped(inside: str, signum: int) -> subprocess.CompletedProcess[str]:
    """The command, half a second after the first pair's fit began, which is what `inside` says."""
    rng = np.random.default_rng(0)
    for name, samples in (("train", 6000), ("test", 10)):
        np.save(f"{name}.npy", rng.normal(size=(samples, 40)).astype(np.float32))
        np.save(f"{name}.labels.npy", np.arange(samples) % 2)
    body = (
        "import os, sys, threading, numpy as np, warpladder.appendix.svm.pairs as p; from warpladder.__main__ import run\n"
        f"def stopped(*a): threading.Timer(0.5, os.kill, (os.getpid(), {int(signum)})).start(); {inside}\n"
        "fit = p._fit; p._fit = stopped; sys.argv[1:] = ['svm', 'train.npy', 'test.npy', '--method', 'blocks', '--C', '1e6', '--out', 's']; run()"
    )
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=False)
    assert time.monotonic() - start < 60
    assert not Path("s").exists()
    return done


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_while_libsvm_computes(signum, code):
    """libsvm hears of no signal: the command must not wait for its threads, nor end in their memory's fault."""
    done = _stopped("return fit(*a)", signum)
    assert done.returncode == code and len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.slow
def test_ctrl_c_while_numpy_computes():
    """A thread that Python's own end would meet in `np.unique` aborts the process: the command ends without that."""
    done = _stopped("any(np.unique(np.arange(100) % 2).size > 2 for _ in iter(int, 1))", signal.SIGINT)
    assert (done.returncode, done.stderr.strip()) == (130, "warpladder: interrupted")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_ctrl_c_in_a_program_of_ones_own_while_pairs_are_fitted():
    """Without the command line: the threads are out of NumPy's code before Python ends."""
    body = (
        "import os, threading, time, numpy as np, warpladder.appendix.svm.pairs as p\n"
        "class Gram: classes, ranges = 10, ()\n"
        "Gram.count = lambda self, i: 50\n"
        "def fit(*a):\n"
        "    until = time.monotonic() + 0.02\n"
        "    while time.monotonic() < until: np.unique(np.arange(100) % 2)\n"
        "    return 0, 0, 0\n"
        "p._fit = fit\n"
        "threading.Timer(0.2, os.kill, (os.getpid(), 2)).start()\n"
        "p.fit_pairs(Gram(), 1.0, 2, lambda *a: None)"
    )
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT and done.stderr.strip().endswith("KeyboardInterrupt"), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="folders are closed otherwise there")
@pytest.mark.parametrize("home", ["read-only", pytest.param("missing", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_pictures_without_a_home(home):
    place = Path("home").resolve()
    if home == "read-only":
        place.mkdir(mode=0o500)
    hidden = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "MPL"))}
    body = (
        "import sys, numpy as np; from warpladder.results.classes import class_scores; from warpladder.results.report.confusion import draw_confusion\n"
        "scores = class_scores(np.array([0, 1, 1]), np.array([0, 1, 0]), ('a $b$', 'c_d'))\n"
        "open('c.svg', 'wb').write(draw_confusion(scores, '$ 1', 'svg')); open('c.png', 'wb').write(draw_confusion(scores, '$ 1', 'png'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", body], env=hidden | {"HOME": str(place)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert b"a $b$" in Path("c.svg").read_bytes() and Path("c.png").read_bytes().startswith(b"\x89PNG")
    assert not place.exists() or not list(place.iterdir())


def test_scores_of_each_class_of_a_classifier(run, kept):
    code, out, err = run("evaluate", str(kept / "a.safetensors"), "--data", "digits", "--per-class")
    assert (code, err) == (0, "")
    assert "precision" in out and "Confusion" in out and "mlp10 on digits: loss" in out
    digits, trained = wl.data.load("digits"), wl.load(kept / "a.safetensors")
    scores = class_scores(digits.test_y, trained.predict(digits.test_x))
    assert f"{100 * scores.precision[3]:.1f} %" in out


def test_a_net_without_classes_has_no_scores_of_them(run):
    digits = wl.data.load("digits", limit=50)
    wl.train("autoencoder", digits, wl.TrainConfig(epochs=0)).save("e.safetensors")
    code, _, err = run("evaluate", "e.safetensors", "--data", "digits", "--per-class")
    assert code == 2 and "has no classes" in err and err.count("\n") == 1
