"""Experiments that classify: a support vector machine on the outputs of a layer of a trained net."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ....checkpoint import load
from ....errors import DeviceError
from ...features import extract
from ...svm import SvmSettings, classify, of_extraction
from ...svm.kernel import gpu_library
from ...svm.results import SvmResults
from ..experiments import Bench, Experiment, Found, file_of, keep, no_measure, with_tests
from ..results import Classified, Value
from .stored_weights import absent, weights_of

#: Name of the machine in rows of a report's file: "EXPERIMENT/svm".
NAME = "svm"


@dataclass(frozen=True)
class Svm(Experiment):
    """Experiment that fits a support vector machine with an RBF kernel on features.

    checkpoint : "TRAINING/RUNG", whose stored weights of the first seed are used.
    layer : index of the layer whose outputs are the features.
    data : name of a data set. limit, tests : number of training samples, drawn with seed 0, and of first test samples;
    None takes all.
    C : cost of a sample on the wrong side. scaling : scaling of the features, one of `svm.settings.SCALINGS`.
    """

    kind: ClassVar[str] = "svms"
    checkpoint: str
    layer: int
    data: str
    limit: int | None = None
    tests: int | None = None
    C: float = 10.0
    scaling: str = "standard"

    def measure(self, name: str, bench: Bench) -> None:
        place = weights_of(self.checkpoint, bench.folder)
        if isinstance(place, str):
            keep({"absent": place}, f"{name}.absent", bench.folder)
            bench.watcher.news(f"no features to classify: {place}")
            return
        data = with_tests(bench.data(self.data, self.limit), self.tests)
        settings = SvmSettings(C=self.C, scaling=self.scaling, device=_device())
        with extract(load(place), self.layer, data) as source:
            parts = of_extraction(source, "train"), of_extraction(source, "test")
            found = classify(*parts, settings, progress=bench.watcher.progress)
        found.save(file_of(name, bench.folder))
        file_of(f"{name}.absent", bench.folder).unlink(missing_ok=True)
        bench.watcher.news(
            f"{found.train_samples:,} samples of {found.width:,} features classified in {found.total_seconds:.3g} s: "
            f"{found.train_accuracy:.2%} of them right, and {found.test_accuracy:.2%} of {found.test_samples:,} others"
        )

    def found(self, name: str, folder: Path) -> Found | None:
        if file_of(name, folder).exists():
            return Machined(SvmResults.load(file_of(name, folder)))
        return absent(file_of(f"{name}.absent", folder))

    def summary(self) -> str:
        part = f", {self.limit:,} samples" if self.limit else ""
        scaled = "" if self.scaling == "standard" else ", features as they are"
        return f"{self.kind}: on layer {self.layer} of {self.checkpoint}, {self.data}{part}{scaled}"

    def check(self, rung: str, measure: str) -> None:
        if rung != NAME:
            raise no_measure(f"{rung}/{measure}", (f"{NAME}/MEASURE",))
        _check(measure)


def _device() -> str:
    """Device of the kernel's products: "cuda" if this machine has a GPU and a library for it, else "cpu"."""
    try:
        gpu_library()
    except DeviceError:
        return "cpu"
    return "cuda"


@dataclass(frozen=True)
class Machined(Found):
    """Figures of a fitted support vector machine."""

    results: SvmResults

    def value(self, rung: str, measure: str) -> Value | None:
        """Figure: a field of `SvmResults`, "stage:fit" for the seconds of a stage, "stage:gram+fit" for several, or
        "recall:CAT" for the share of a class that is found.
        """
        _check(measure)
        what, _, rest = measure.partition(":")
        if what == "stage":
            taken = [seconds for stage, seconds in self.results.seconds.items() if stage in rest.split("+")]
            return Value(here=sum(taken)) if taken else None
        if what == "recall":
            scores = self.results.scores
            return Value(here=scores.recall[scores.names.index(rest)]) if rest in scores.names else None
        return Value(here=float(getattr(self.results, what)))

    def is_time(self, measure: str) -> bool:
        return measure.startswith("stage:") or "seconds" in measure

    def classified(self, which: str) -> Classified | None:
        """Scores of each class, and the confusion matrix of the test samples."""
        return Classified("", self.results.scores)


_FIELDS = (
    "train_accuracy",
    "test_accuracy",
    "total_seconds",
    "support_vectors",
    "width",
    "train_samples",
    "test_samples",
    "peak_bytes",
)


def _check(measure: str) -> None:
    what, _, rest = measure.partition(":")
    if not (measure in _FIELDS or (what in ("stage", "recall") and rest)):
        raise no_measure(measure, (*_FIELDS, "stage:NAME", "recall:CLASS"))
