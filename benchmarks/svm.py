"""The support vector machine by blocks of classes beside scikit-learn's SVC: seconds, memory, and whether decisions
and labels are the same.

    warpladder features autoencoder.safetensors --layer 5 --data cifar10 --limit 5000 -o f.safetensors
    python benchmarks/svm.py f.safetensors [--tests 2000]

Each is fitted in a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from warpladder.appendix import svm
from warpladder.appendix.features import FeatureFile, open_features
from warpladder.appendix.svm import run as svm_run
from warpladder.appendix.svm.fitted import Fitted
from warpladder.files.atomic import write_atomically
from warpladder.machine import facts as machine
from warpladder.machine import memory

WAYS = ("sklearn", "blocks float64", "blocks float32")


@click.command(help=__doc__.split("\n")[0])
@click.argument("features", type=click.Path(path_type=Path))
@click.option(
    "--tests", default=2000, show_default=True, help="Test samples to decide; scikit-learn takes long over each."
)
@click.option("--way", type=click.Choice(WAYS), hidden=True)
@click.option("--into", type=click.Path(path_type=Path), hidden=True)
def main(features: Path, tests: int, way: str | None, into: Path | None) -> None:
    if way is not None and into is not None:
        start = time.process_time()
        found, decisions, labels = (_plain if way == "sklearn" else _blocks)(
            open_features(features), tests, way.partition(" ")[2]
        )
        found["cpu_seconds"] = time.process_time() - start - found.pop("other_cpu_seconds", 0.0)
        np.savez(into, decisions=decisions, labels=labels)
        print(json.dumps({**found, "peak_bytes": memory.resident_peak()}))
        return
    rows, kept = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for each in WAYS:
            place = Path(folder) / f"{each}.npz"
            command = [
                sys.executable,
                __file__,
                str(features),
                "--tests",
                str(tests),
                "--way",
                each,
                "--into",
                str(place),
            ]
            rows[each] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            with np.load(place) as arrays:
                kept[each] = arrays["decisions"], arrays["labels"]
            rows[each]["decisions_apart"] = float(np.abs(kept[each][0] - kept["sklearn"][0]).max())
            rows[each]["labels_apart"] = int((kept[each][1] != kept["sklearn"][1]).sum())
            print(each, rows[each])
    file = open_features(features)
    report = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "features": file.document,
        "train": file.parts["train"],
        "tests": tests,
        "machine": machine.facts(),
        "ways": rows,
    }
    path = Path(__file__).parent / "results" / "svm.json"
    write_atomically(path, json.dumps(report, indent=1) + "\n")
    print(f"stored {path}")


def _plain(file: FeatureFile, tests: int, _: str) -> tuple[dict, np.ndarray, np.ndarray]:
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    x, other = np.concatenate(list(file.batches("train"))), np.concatenate(list(file.batches("test")))[:tests]
    seconds, start = {}, time.perf_counter()
    scaler = StandardScaler().fit(x)
    x, other = scaler.transform(x), scaler.transform(other)
    seconds["scale"], start = time.perf_counter() - start, time.perf_counter()
    found = SVC(C=10, decision_function_shape="ovo").fit(x, file.labels["train"])
    seconds["fit"], start = time.perf_counter() - start, time.perf_counter()
    labels = found.predict(other)
    seconds["predict"] = time.perf_counter() - start
    accuracy, start = float((labels == file.labels["test"][:tests]).mean()), time.process_time()
    decisions = found.decision_function(other)  # which predicting does not need
    return (
        {"seconds": seconds, "test_accuracy": accuracy, "other_cpu_seconds": time.process_time() - start},
        decisions,
        labels,
    )


def _blocks(file: FeatureFile, tests: int, precision: str) -> tuple[dict, np.ndarray, np.ndarray]:
    kept: list[tuple[Fitted, np.ndarray]] = []
    decide = svm_run.test_decisions

    def keeping(fitted, kernel, samples):
        for rows, decisions in decide(fitted, kernel, samples):
            kept.append((fitted, decisions))
            yield rows, decisions

    svm_run.test_decisions = keeping
    other = np.concatenate(list(file.batches("test")))[:tests]
    test = svm.of_arrays(other, file.labels["test"][:tests], "test")
    found = svm.classify(svm.of_file(file, "train"), test, svm.SvmSettings(method="blocks", precision=precision))
    decisions = np.concatenate([each for _, each in kept])
    labels = np.unique(file.labels["train"])[kept[0][0].votes(decisions)]
    figures = {"seconds": found.seconds, "test_accuracy": found.test_accuracy, "train_accuracy": found.train_accuracy}
    return (
        {**figures, "workers": found.workers, "threads": found.threads, "predicted_bytes": found.predicted_bytes},
        decisions,
        labels,
    )


if __name__ == "__main__":
    main()
