"""Training to the end on tensor cores, paired: each precision beside plain float32 (the rung graph), from the same
seeds on the same batches.

    # DIR has mnist/, fashion/ and cifar10/
    python benchmarks/h200/tensor_training.py --data-dir DIR
    python benchmarks/h200/tensor_training.py --data-dir DIR --only mlp-mnist --seeds 100
    # as many processes share the seeds, and the GPU
    python benchmarks/h200/tensor_training.py --data-dir DIR --together 12
    # error against time of what is stored; trains nothing
    python benchmarks/h200/tensor_training.py --picture error.svg

A seed draws the initial weights and the order of the samples, and all rungs train from it in turn, so that a
difference between two of them is that of their arithmetic and of what training makes of it. What is stored is kept
after every seed: the same command goes on where it was stopped, or where --budget ended. Seconds are kept of trainings
that had the GPU for themselves. It ends with an error where a loss is not finite, or where a precision misses its mark:

    tensor in fp32 (split)     cannot be told from graph: by chance alone the mean difference would be as large in 1 % of the cases at least
    tensor in tf32, bf16, fp16 0.15 points of accuracy, or 2 % of the mean squared error, from graph at most, two standard errors included
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warpladder import data, nets, train
from warpladder.config import RECIPES, TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.errors import DataError
from warpladder.files.atomic import write_atomically
from warpladder.ladder import find
from warpladder.machine import facts as machine
from warpladder.nets import MSELoss, Net
from warpladder.optimizers import Adam
from warpladder.rungs.base import Rung
from warpladder.rungs.tensor import PRECISIONS

if TYPE_CHECKING:
    from warpladder.results.report.figures.svg import Canvas

BASE = "graph"
#: What a coarse precision may differ from BASE: points of accuracy, and per cent of the mean squared error.
POINTS, PERCENT = 0.15, 2.0
#: Of tensor in fp32: how probable by chance a difference must be, at least; ways to change signs that are drawn for
#: that; and seeds below which none can say it.
CHANCE, FLIPS, LEAST = 0.01, 20_000, 8


@dataclass(frozen=True)
class Case:
    """What is trained. seeds: how many, if not said."""

    name: str
    net: Net
    data: str
    config: TrainConfig
    seeds: int = 100

    @property
    def unit(self) -> str:
        return "% of the MSE" if isinstance(self.net.loss, MSELoss) else "points"

    @property
    def limit(self) -> float:
        return PERCENT if isinstance(self.net.loss, MSELoss) else POINTS


CASES = (
    Case("mlp-mnist", nets.mlp(), "mnist", RECIPES["mlp"]),
    Case("mlp-fashion", nets.mlp(), "fashion", RECIPES["mlp"]),
    Case("cnn-mnist", nets.cnn(), "mnist", RECIPES["cnn"]),
    Case("cnn-fashion", nets.cnn(), "fashion", RECIPES["cnn"]),
    Case(
        "autoencoder-cifar10",
        nets.autoencoder(),
        "cifar10",
        TrainConfig(epochs=5, batch_size=256, optimizer=Adam(1e-3)),
        seeds=5,
    ),
)


def contenders(device: str | None) -> dict[str, Rung]:
    """BASE, and the rung tensor in each precision, by the names that are stored."""
    options: dict[str, Any] = {} if device is None else {"device": device}
    return {
        BASE: find(BASE, **options),
        **{f"tensor-{each}": find("tensor", precision=each, **options) for each in PRECISIONS},
    }


def trained(case: Case, rung: Rung, train_on: Dataset, seed: int, alone: bool = True) -> dict[str, float | None]:
    """A whole training: the score on the test part, accuracy in per cent or mean squared error, and the seconds of its
    epochs where it was alone.
    """
    run = train(case.net, train_on, case.config.but(seed=seed), rung=rung, progress=False)
    score = (
        run.test_loss
        if isinstance(case.net.loss, MSELoss)
        else None
        if run.test_accuracy is None
        else 100 * run.test_accuracy
    )
    losses = [log.train_loss for log in run.history]
    if score is None or not all(math.isfinite(value) for value in (score, *losses)):
        raise ArithmeticError(
            f"{case.name}, {rung.name}, seed {seed}: the loss or the score is not finite (losses {losses}, score {score})"
        )
    return {"score": score, "loss": losses[-1], "seconds": sum(log.seconds for log in run.history) if alone else None}


def differences(case: Case, runs: dict[str, dict[str, Any]], name: str) -> np.ndarray:
    """By seed, what a contender is off BASE: points of accuracy, or per cent of BASE's mean squared error."""
    seeds = [seed for seed in runs.get(BASE, {}) if seed in runs.get(name, {})]
    base, found = (np.array([runs[each][seed]["score"] for seed in seeds], float) for each in (BASE, name))
    return 100 * (found - base) / base if isinstance(case.net.loss, MSELoss) else found - base


def error_of(differing: np.ndarray) -> float:
    """The standard error of the mean difference; NaN of fewer than two."""
    return float(np.std(differing, ddof=1) / math.sqrt(len(differing))) if len(differing) > 1 else math.nan


def chance(differing: np.ndarray) -> float:
    """How often the mean is as far from zero where the sign of each difference is drawn: what two equal contenders
    would show.
    """
    signs = np.random.default_rng(0).choice((-1.0, 1.0), (FLIPS, len(differing)))
    return float(np.mean(abs(signs @ differing) >= abs(differing.sum()) * (1 - 1e-12)))


def judged(case: Case, name: str, differing: np.ndarray) -> tuple[bool, str]:
    """Whether a contender keeps its mark, and the words for it. What is NaN, or too few, keeps none."""
    mean, error = float(np.mean(differing)) if len(differing) else math.nan, error_of(differing)
    if name == "tensor-fp32":
        if len(differing) < LEAST:
            return (
                False,
                f"{len(differing)} seeds cannot tell it from {BASE}, nor say that it is the same: {LEAST} or more can",
            )
        share = chance(differing)
        return (
            (True, f"cannot be told from {BASE} (chance {share:.2f})")
            if share >= CHANCE
            else (False, f"differs from {BASE} (chance {share:.4f})")
        )
    if abs(mean) + 2 * error <= case.limit:
        return True, f"within {case.limit:g} {case.unit}"
    if abs(mean) <= case.limit:
        return (
            False,
            f"within {case.limit:g} {case.unit} on average, but not two standard errors further: more seeds would tell",
        )
    return False, f"not within {case.limit:g} {case.unit}"


def timed(runs: dict[str, Any]) -> list[float]:
    """Seconds of a contender's trainings that had the GPU for themselves."""
    return [each["seconds"] for each in runs.values() if each["seconds"] is not None]


def shown(case: Case, kept: dict[str, Any]) -> bool:
    """Print a case's table; whether all marks are kept."""
    runs, fine = kept["runs"], BASE in kept["runs"]
    print(
        f"{case.name}: {kept['samples']:,} samples, {case.config.epochs} epochs, batch {case.config.batch_size}, {len(runs.get(BASE, {}))} seeds"
    )
    for name in runs:
        scores, seconds = [each["score"] for each in runs[name].values()], timed(runs[name])
        spread = statistics.stdev(scores) if len(scores) > 1 else math.nan
        line = f"  {name:12} {statistics.fmean(scores):9.4f} +- {spread:.4f}   {statistics.median(seconds) if seconds else math.nan:7.3f} s"
        if name != BASE:
            differing = differences(case, runs, name)
            kept_mark, said = judged(case, name, differing)
            fine &= kept_mark
            line += f"   {np.mean(differing) if len(differing) else math.nan:+.4f} (standard error {error_of(differing):.4f}) {case.unit}: {said}"
        print(line)
    for name, reason in kept["refused"].items():
        print(f"  {name:12} did not run: {reason}")
    sys.stdout.flush()
    return fine


def opened(path: Path) -> dict[str, Any]:
    """What is stored, or the beginning of a new file."""
    if not path.exists():
        commit = subprocess.run(
            ("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=False
        ).stdout.strip()
        return {
            "machine": facts(),
            "commit": commit,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "cases": {},
        }
    try:
        kept = json.loads(path.read_text())
        if not isinstance(kept["cases"], dict):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise SystemExit(f"{path} holds no trainings: move it away, or name another file with --out") from None
    return dict(kept)


def facts() -> dict[str, Any]:
    """The machine: its processor and, where there is one, its GPU."""
    query = (
        "nvidia-smi",
        "--query-gpu=name,driver_version,clocks.max.sm,power.limit,memory.total",
        "--format=csv,noheader",
    )
    try:
        told = subprocess.run(query, capture_output=True, text=True, timeout=30).stdout.strip().splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        told = [f"nvidia-smi: {error}"]
    return {"host": machine.facts(), "gpu": told}


def go_on(
    case: Case,
    train_on: Dataset,
    seeds: Sequence[int],
    rungs: dict[str, Rung],
    report: dict[str, Any],
    path: Path,
    until: float,
    alone: bool,
) -> None:
    """Train what is missing of a case, seed by seed, and keep each; no seed is begun after `until`."""
    asked = {"net": case.net.name, "data": train_on.name, "samples": len(train_on.train_x), "config": repr(case.config)}
    kept = report["cases"].setdefault(case.name, {**asked, "unit": case.unit, "refused": {}, "runs": {}})
    if other := [name for name, value in asked.items() if kept[name] != value]:
        raise SystemExit(f"{path} has {case.name} with another {' and '.join(other)}: name another file with --out")
    kept["refused"] = {
        name: reason for name, rung in rungs.items() if (reason := rung.unsupported(case.net, case.config))
    }
    taken = {name: rung for name, rung in rungs.items() if name not in kept["refused"]}
    for seed in seeds:
        missing = [name for name in taken if str(seed) not in kept["runs"].get(name, {})]
        if missing and time.monotonic() > until:
            print(
                f"{case.name}: no time for seed {seed} and later ones; the same command goes on with them",
                file=sys.stderr,
            )
            break
        found = {name: trained(case, taken[name], train_on, seed, alone) for name in missing}
        for name, each in found.items():
            kept["runs"].setdefault(name, {})[str(seed)] = each
        if found:
            write_atomically(path, json.dumps(report, indent=1, allow_nan=False) + "\n")


def part_of(path: Path, number: int) -> Path:
    """Where process `number` of several keeps its trainings, until they are joined."""
    return path.with_name(f"{path.stem}.part-{number}.json")


def shared(path: Path, together: int, command: Sequence[str]) -> bool:
    """Train in so many processes, each with a share of the seeds, and join what they keep; whether all of them ended by
    themselves.
    """
    parts = [part_of(path, number) for number in range(together)]
    for part in parts:
        if path.exists():
            part.write_bytes(path.read_bytes())
    workers = [
        subprocess.Popen(
            (sys.executable, __file__, *command, "--out", str(part), "--share", f"{number}/{together}"),
            stdout=subprocess.DEVNULL,
        )
        for number, part in enumerate(parts)
    ]
    try:
        ended = [worker.wait() in (0, 1) for worker in workers]  # 1: a mark is missed, which fewer seeds may
    finally:
        for worker in workers:
            worker.kill()
        joined(path, parts)
    return all(ended)


def share_of(words: str) -> tuple[int, int]:
    """K and N of "K/N"."""
    number, _, of = words.partition("/")
    if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
        raise argparse.ArgumentTypeError(f"wants K/N, with K from 0 to N - 1, got {words!r}")
    return int(number), int(of)


def joined(path: Path, parts: Sequence[Path]) -> None:
    """Keep in one file what several have, and remove them."""
    found = [json.loads(part.read_text()) for part in parts if part.exists()]
    if found:
        report = found[0]
        for other in found[1:]:
            for case, kept in other["cases"].items():
                into = report["cases"].setdefault(case, kept)["runs"]
                for name, runs in kept["runs"].items():
                    into[name] = dict(sorted((into.get(name, {}) | runs).items(), key=lambda run: int(run[0])))
        write_atomically(path, json.dumps(report, indent=1, allow_nan=False) + "\n")
    for part in parts:
        part.unlink(missing_ok=True)


def picture(report: dict[str, Any], cases: Sequence[Case]) -> tuple[str, Callable[[Canvas], None]]:
    """Error against time: the words for it, and what draws it. A mark is the mean error of a contender's seeds and
    their median of seconds.

    Its bars are the standard deviation of errors, and the least and most seconds. Cases of which no training had the
    GPU for itself are left out.
    """
    from warpladder.results.report.figures.svg import PAPER, SERIES

    found = [(case, report["cases"].get(case.name, {}).get("runs", {})) for case in cases]
    stored = [(case, runs) for case, runs in found if any(timed(of_rung) for of_rung in runs.values())]
    if not stored:
        raise SystemExit(
            "nothing is stored that could be drawn: train first, one process alone, whose seconds are kept"
        )
    names = list(dict.fromkeys(name for _, runs in stored for name in runs))

    def points(case: Case, runs: dict[str, Any], name: str) -> tuple[np.ndarray, np.ndarray]:
        scores = np.array([each["score"] for each in runs[name].values()])
        return np.array(timed(runs[name]) or [math.nan]), 1000 * scores if isinstance(
            case.net.loss, MSELoss
        ) else 100 - scores

    def draw(canvas: Canvas) -> None:
        rows = len(stored)
        for (case, runs), ax in zip(stored, axes := canvas.column(rows, 250 * rows + 60, 70), strict=True):
            for name, colour, mark in zip(names, SERIES, "osD^vPX*", strict=False):
                if name in runs:
                    seconds, errors = points(case, runs, name)
                    ax.errorbar(
                        middle := np.median(seconds), errors.mean(), xerr=[[middle - seconds.min()], [seconds.max() - middle]], yerr=errors.std(),
                        fmt=mark, color=colour, markersize=8, markeredgecolor=PAPER, elinewidth=1, label=name,
                    )  # fmt: skip
            ax.set_title(
                f"{case.name}: {'1,000 x MSE' if isinstance(case.net.loss, MSELoss) else '% wrong'}, by seconds of training",
                loc="left",
            )
            ax.set_xlim(left=0)
        handles, labels = axes[0].get_legend_handles_labels()
        canvas.figure.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 0), ncols=2)

    ends = [
        f"{case.name}, {name}: {errors.mean():.3g} after {np.median(seconds):.3g} s"
        for case, runs in stored
        for name in runs
        for seconds, errors in [points(case, runs, name)]
    ]
    return (
        f"Error on the test part, per cent wrong or thousandths of the MSE, against seconds of training, in each precision. {'; '.join(ends)}.",
        draw,
    )


def drawn_to(path: Path, report: dict[str, Any], cases: Sequence[Case]) -> None:
    """Write the picture, SVG or PNG by its name's end."""
    from warpladder.results.report.figures.alone import alone, as_png

    words, draw = picture(report, cases)
    if path.suffix == ".png":
        path.write_bytes(as_png(draw))
    else:
        write_atomically(path, alone(words, draw))
    print(f"drawn: {path}")


def main(argv: Sequence[str] | None = None, cases: Sequence[Case] = CASES) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="folder with mnist/, fashion/ and cifar10/")
    parser.add_argument(
        "--only",
        default=",".join(case.name for case in cases),
        help="cases, with commas between them; they are trained in this order",
    )
    parser.add_argument("--seeds", type=int, help="of each case; 100 if not given, and 5 of the autoencoder")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no further seed is begun")
    parser.add_argument(
        "--together",
        type=int,
        default=1,
        metavar="N",
        help="processes that train side by side; their seconds are not kept",
    )
    parser.add_argument(
        "--share",
        metavar="K/N",
        type=share_of,
        default=(0, 1),
        help="only the seeds that leave K when divided by N, for one of several processes",
    )
    parser.add_argument("--device", choices=("emulated",), help="train on the emulator: shows that it works")
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OUT") or Path(__file__).parent) / "tensor_training.json"
    )
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw what is stored, .svg or .png, and train nothing"
    )
    args = parser.parse_args(argv)
    by_name = {case.name: case for case in cases}
    if unknown := set(args.only.split(",")) - set(by_name):
        parser.error(f"there is no case {', '.join(sorted(unknown))}: {', '.join(by_name)}")
    if args.seeds is not None and args.seeds < 1:
        parser.error("--seeds wants at least 1")
    if args.picture is not None and args.picture.suffix not in (".svg", ".png"):
        parser.error("--picture wants a name that ends with .svg or .png")
    chosen, report = [by_name[name] for name in args.only.split(",")], opened(args.out)
    if args.picture is not None:
        drawn_to(args.picture, report, chosen)
        return 0
    args.out.parent.mkdir(parents=True, exist_ok=True)
    if args.together > 1:
        asked = ("data-dir", "only", "seeds", "budget", "device")
        given = [(f"--{each}", getattr(args, each.replace("-", "_"))) for each in asked]
        fine = shared(args.out, args.together, [str(word) for pair in given if pair[1] is not None for word in pair])
        report = opened(args.out)
        for case in chosen:
            fine &= case.name in report["cases"] and shown(case, report["cases"][case.name])
        return 0 if fine else 1
    first, step = args.share
    until, fine = time.monotonic() + args.budget, True
    for case in chosen:
        try:
            train_on = data.load(case.data, data_dir=args.data_dir, progress=False)
        except DataError as error:
            print(f"{case.name} is left out: {error}", file=sys.stderr)
            fine = False
            continue
        seeds = range(first, args.seeds or case.seeds, step)
        go_on(case, train_on, seeds, contenders(args.device), report, args.out, until, alone=step == 1)
        fine &= shown(case, report["cases"][case.name])
    print(f"stored: {args.out}" if args.out.exists() else "nothing was trained, and nothing is stored")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
