"""Fit and score of a machine: read, scale, compute the kernel matrix, fit the pairs of classes, predict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ...data.subset import permutation
from ...device.gpu.support import found_gpu
from ...errors import ArgumentError, DataError, OutOfMemoryError
from ...errors.arguments import shown
from ...machine.facts import cores, facts
from ...machine.memory import resident_peak
from ...results import Machine
from ...results.classes import class_scores
from .fitted import OWN, TESTS, Fitted, slices
from .gram import Gram
from .inputs import FeaturePart, check_pair
from .kernel import Rbf, gpu_free, gpu_library, rbf
from .memory import SvmMemory, chosen_method, gpu_bytes, memory_of
from .pairs import fit_pairs
from .results import SvmResults
from .scaling import fit_scaler, gamma_of, read_rows, scale
from .settings import SvmSettings

#: Called with the present activity, the number of finished parts, of all parts, and the estimated seconds left.
Progress = Callable[[str, int, int, float], None]


@dataclass
class Stages:
    """Seconds of each stage by name; progress is reported meanwhile."""

    progress: Progress | None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, what: str) -> Iterator[Callable[[int, int], None]]:
        """Context that times a stage; it yields a function to call with the number of finished parts and of all."""
        start = time.perf_counter()

        def report(done: int, total: int) -> None:
            if self.progress is not None:
                self.progress(what, done, total, (time.perf_counter() - start) / done * (total - done) if done else 0.0)

        report(0, 1)
        try:
            yield report
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def classify(
    train: FeaturePart,
    test: FeaturePart,
    settings: SvmSettings = SvmSettings(),
    *,
    limit: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    command: str = "",
) -> SvmResults:
    """Fit a support vector machine on training features, and score it on them and on test features.

    Parameters
    ----------
    train, test : FeaturePart
        Features from `of_arrays`, `of_file` or `of_extraction`.
    settings : SvmSettings
    limit : int or None
        Number of training samples, drawn by the seed as in `data.load`; None for all.
    seed : int
    progress : callable or None
        Called with the present activity, the number of finished parts, of all parts, and the estimated seconds left.
    command : str
        Command that repeats it, for the results.

    Returns
    -------
    SvmResults

    Raises
    ------
    DataError
        Features do not go together, are not finite, or are all of one class.
    ConfigError, DeviceError, OutOfMemoryError
        A setting is impossible; there is no GPU; memory is too small.
    """
    if not (isinstance(train, FeaturePart) and isinstance(test, FeaturePart)):
        raise ArgumentError("classify wants two FeatureParts: svm.of_arrays(features, labels, 'train') makes one")
    check_pair(train, test)
    plan = _plan(train, test, settings, limit, seed)
    machine = Machine(**facts(plan.threads))
    stages = Stages(progress)
    with _one_blas_thread():
        x, tests = _read(train, test, plan, stages)
        gamma = _scale(x, tests, settings, stages)
        own, predicted, vectors, where = _fit(x, tests, plan, settings, gamma, stages)
    truth = np.repeat(np.arange(len(plan.classes)), plan.counts)
    if plan.library != "numpy":
        machine = replace(machine, gpu=found_gpu())
    names = train.class_names or test.class_names
    scores = class_scores(test.labels, plan.classes[predicted], names, int(plan.classes[-1]) + 1)
    return SvmResults(
        SvmResults.SCHEMA, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), command, machine,
        train.what, test.what, len(plan.rows), len(test.labels), train.width, len(plan.classes),
        float(settings.C), gamma, str(settings.gamma), plan.method, settings.precision, where,
        plan.threads, plan.needed.workers, vectors, float((own == truth).mean()), scores.accuracy, scores,
        stages.seconds, plan.needed.total, resident_peak(), settings.scaling,
    )  # fmt: skip


class FitPlan(NamedTuple):
    """Plan of a fit, made before features are read.

    rows : indices of the training samples to use, in order. labels : index of each one's class in `classes`.
    counts : samples of each class. library : "numpy", "cupy" or "torch". needed : memory of the fit.
    """

    rows: np.ndarray
    classes: np.ndarray
    labels: np.ndarray
    counts: list[int]
    method: str
    threads: int
    library: str
    needed: SvmMemory


def _plan(train: FeaturePart, test: FeaturePart, settings: SvmSettings, limit: int | None, seed: int) -> FitPlan:
    rows = _rows(train, limit, seed)
    classes, labels = np.unique(train.labels[rows], return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"{train.what}: the samples that are taken have the label {classes[0]} alone, "
            "and a classifier needs at least two classes"
        )
    counts = np.bincount(labels).tolist()
    method = chosen_method(settings.method, settings.device, len(rows), len(test.labels), train.width)
    threads = settings.threads or cores()
    library = "numpy" if settings.device == "cpu" else gpu_library()
    needed = memory_of(counts, len(test.labels), train.width, method, threads, settings.memory)
    if library != "numpy":
        _check_gpu(library, gpu_bytes(len(rows), train.width))
    return FitPlan(rows, classes, labels, counts, method, threads, library, needed)


def _read(train: FeaturePart, test: FeaturePart, plan: FitPlan, stages: Stages) -> tuple[np.ndarray, np.ndarray]:
    """Training samples, class after class, and test samples, as arrays (samples, width) float32."""
    place = np.full(len(train.labels), -1)
    place[plan.rows[np.argsort(plan.labels, kind="stable")]] = np.arange(len(plan.rows))
    with stages.stage("read", "training features") as report:
        x = read_rows(train, place, len(plan.rows), report)
    with stages.stage("read", "test features") as report:
        tests = read_rows(test, np.arange(len(test.labels)), len(test.labels), report)
    return x, tests


def _rows(train: FeaturePart, limit: int | None, seed: int) -> np.ndarray:
    """Indices of the training samples to use, in order."""
    samples = len(train.labels)
    if limit is None:
        return np.arange(samples)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 2 <= limit <= samples:
        raise DataError(f"{train.what}: limit must be 2 to {samples:,} (the training samples), got {shown(limit)}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise DataError(f"seed must be 0 to 2^32 - 1, got {shown(seed)}")
    return np.sort(permutation(samples, seed)[:limit])


def _scale(x: np.ndarray, tests: np.ndarray, settings: SvmSettings, stages: Stages) -> float:
    """Scale training and test samples in place, as the settings require; return the kernel's gamma."""
    with stages.stage("scale", "scaling"):
        if settings.scaling == "standard":
            scaler = fit_scaler(x)
            scale(x, scaler)
            scale(tests, scaler)
        return gamma_of(x) if settings.gamma == "scale" else float(settings.gamma)


def _fit(
    x: np.ndarray, tests: np.ndarray, plan: FitPlan, settings: SvmSettings, gamma: float, stages: Stages
) -> tuple[np.ndarray, np.ndarray, int, str]:
    """Predictions for training and test samples, the number of support vectors, and the device of the computation."""
    if plan.method == "sklearn":
        truth = np.repeat(np.arange(len(plan.classes)), plan.counts)
        return *_plain(x, truth, tests, settings.C, gamma, stages), "cpu"
    with closing(rbf(x, gamma, plan.library, settings.precision, plan.threads)) as kernel:
        return *_blocks(kernel, tests, plan, settings.C, stages), kernel.device


def _plain(
    x: np.ndarray, y: np.ndarray, tests: np.ndarray, C: float, gamma: float, stages: Stages
) -> tuple[np.ndarray, np.ndarray, int]:
    """Fit scikit-learn's SVC: predictions for training and test samples, and the number of support vectors."""
    from sklearn.svm import SVC

    machine = SVC(C=C, gamma=gamma)
    with stages.stage("fit", "fitting"):
        machine.fit(x, y)
    with stages.stage("predict", "predicting"):
        return machine.predict(x), machine.predict(tests), len(machine.support_)


def _blocks(
    kernel: Rbf, tests: np.ndarray, plan: FitPlan, C: float, stages: Stages
) -> tuple[np.ndarray, np.ndarray, int]:
    """Fit by blocks of classes: predictions for training and test samples, and the number of support vectors."""
    gram = Gram(plan.counts)
    with stages.stage("gram", "kernel, in blocks of classes") as report:
        gram.compute(kernel, report)
    with stages.stage("fit", "pairs of classes") as report:
        fitted = fit_pairs(gram, C, plan.needed.workers, report)
    with stages.stage("predict", "predicting") as report:
        own = fitted.votes(train_decisions(fitted, gram, plan.threads))
        predicted = np.empty(len(tests), np.int64)
        for rows, decisions in test_decisions(fitted, kernel, tests):
            predicted[rows] = fitted.votes(decisions)
            report(rows.stop, len(tests))
        return own, predicted, fitted.support_vectors


def train_decisions(fitted: Fitted, gram: Gram, threads: int) -> np.ndarray:
    """Decisions (samples, pairs) float64 for training samples, class after class; above 0 for a pair's first class."""
    out = np.tile(fitted.intercepts, (gram.ranges[-1].stop, 1))

    def add(c: int, rows: slice) -> None:
        start = gram.ranges[c].start
        for i in range(gram.classes):
            fitted.add(out[start + rows.start : start + rows.stop], gram.block(c, i)[rows], i)

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(add, c, rows) for c in range(gram.classes) for rows in slices(gram.count(c), OWN)]:
            done.result()
    return out


def test_decisions(fitted: Fitted, kernel: Rbf, tests: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Ranges of test samples with their decisions, (rows, pairs) float64. Test samples are scaled like training
    samples.
    """
    space = np.empty((min(TESTS, len(tests)), fitted.ranges[-1].stop), np.float32)
    for rows in slices(len(tests), TESTS):
        values = space[: rows.stop - rows.start]
        kernel.run(kernel.between(tests[rows], values))
        decisions = np.tile(fitted.intercepts, (len(values), 1))
        for i, columns in enumerate(fitted.ranges):
            fitted.add(decisions, values[:, columns], i)
        yield rows, decisions


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread in this context: several of our threads call it, and its own threads would wait for
    each other.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(limits=1, user_api="blas"):
        yield


def _check_gpu(library: str, needed: int) -> None:
    """Raise `OutOfMemoryError` if the training samples and one block do not fit the GPU."""
    if needed > (free := gpu_free(library)):
        raise OutOfMemoryError(
            f"the GPU has {free / 1e9:.3g} GB free, and the training features and a block of the kernel "
            f"take {needed / 1e9:.3g} GB: "
            "take fewer samples with --limit, or leave --device out"
        )
