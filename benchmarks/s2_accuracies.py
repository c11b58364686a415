"""S2's two accuracies: the gap that its report puts down to floating point is a factor of 64 in the learning rate.

    python benchmarks/s2_accuracies.py --data-dir DIR [--rung native] [--seeds 3]

S2's GPU program averages the gradient over a batch of 64, its CPU program sums it: at a rate of 0.01 the one steps
by 0.01, the other by 0.64. Both are trained here on mnist, ten epochs, from several seeds.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import click

from warpladder import TrainConfig, data, nets, train
from warpladder.files.atomic import write_atomically
from warpladder.machine import facts as machine

#: learning rate: (what S2 reports, the test accuracy that a rerun of its arithmetic gave, in percent)
EXPECTED = {0.01: (93.86, 94.1), 0.64: (97.93, 98.1)}


@click.command(help=__doc__.split("\n")[0])
@click.option("--data-dir", help="Folder with mnist's files.")
@click.option("--rung", default="native", show_default=True)
@click.option("--seeds", default=3, show_default=True)
def main(data_dir: str | None, rung: str, seeds: int) -> None:
    mnist = data.load("mnist", data_dir=data_dir, progress=False)
    rows = []
    for rate, (reported, expected) in EXPECTED.items():
        runs = []
        for seed in range(seeds):
            run = train(
                nets.mlp(), mnist, TrainConfig(epochs=10, batch_size=64, learning_rate=rate, seed=seed), rung=rung
            )
            losses = [epoch.train_loss for epoch in run.history]
            runs.append({"seed": seed, "test_accuracy": run.test_accuracy, "train_losses": losses})
        found = [100 * run["test_accuracy"] for run in runs]
        rows.append({"learning_rate": rate, "reported_percent": reported, "expected_percent": expected, "runs": runs})
        print(
            f"rate {rate}: {statistics.mean(found):.2f} % ({min(found):.2f} to {max(found):.2f}), expected about {expected} %, S2 says {reported} %"
        )
    report = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "rung": rung,
        "machine": machine.facts(),
        "rates": rows,
    }
    path = Path(__file__).parent / "results" / "s2-accuracies.json"
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, json.dumps(report, indent=1) + "\n")
    print(f"stored {path}")


if __name__ == "__main__":
    main()
