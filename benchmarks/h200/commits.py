"""Two states of the sources on the training workloads, in turns on one GPU: what a change has cost, and what another
optimizer costs.

    git worktree add /tmp/old COMMIT
    # about two minutes on an H200
    python benchmarks/h200/commits.py --old /tmp/old --data-dir DIR

Each state has a process of its own, with its own `src` and `benchmarks/h200/speed.py`; they take turns, repetition by
repetition, and never train at the same time. The ratio is that of the medians. With --optimizers, this state's other
optimizers take turns with its SGD.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
OPTIMIZERS = {
    "SGD with momentum": {"momentum": 0.9},
    "Adam": {"optimizer": "adam"},
    "AdamW with a cosine": {"optimizer": "adamw", "schedule": "cosine"},
}


class Side:
    """A process that times a rung on one state of the sources when it is asked to."""

    def __init__(
        self,
        title: str,
        root: Path,
        workload: str,
        name: str,
        data_dir: str | None,
        seconds: float,
        settings: dict[str, Any],
    ) -> None:
        self.title, self.times = title, list[float]()
        path = os.pathsep.join([str(root / "src"), str(root / "benchmarks" / "h200"), os.environ.get("PYTHONPATH", "")])
        job = json.dumps(
            {"workload": workload, "name": name, "data_dir": data_dir, "seconds": seconds, "settings": settings}
        )
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, "--side", job],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        self.facts = self._told()

    def _told(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.title}: it ended without a result")
        found: dict[str, Any] = json.loads(line)
        return found

    def turn(self, number: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        self.times.append(self._told()["seconds"])

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def serve(job: dict[str, Any]) -> None:
    """What a side does: set up, say what it holds, and time a repetition for each number that it reads."""
    from dataclasses import replace

    import speed  # of this side's state of the sources

    workload = next(each for each in speed.WORKLOADS if each.name == job["workload"])
    settings = dict(job["settings"])
    if "optimizer" in settings or "schedule" in settings:
        from warpladder.config import named
        from warpladder.optimizers import Optimizer
        from warpladder.optimizers.schedules import Schedule

        for key, kind in (("optimizer", Optimizer), ("schedule", Schedule)):
            if key in settings:
                settings[key] = named(kind, settings[key], {})
    workload = replace(workload, config=workload.config.but(**settings))
    train, _ = speed.dataset(workload, job["data_dir"], False)
    runner = speed.Runner(job["name"], workload, train)
    runner.warm(job["seconds"])
    scale = 1e6 if workload.epoch is None else 1e3 * (workload.epoch // (workload.config.batch_size or 1))
    held = sum(runner.trainer.memory().values())
    print(
        json.dumps({"setup": runner.setup, "spans": runner.trainer.spans(), "held": held, "loss": runner.loss}),
        flush=True,
    )
    for line in sys.stdin:
        runner.turn(int(line))
        print(json.dumps({"seconds": runner.seconds[-1] * scale}), flush=True)


def compared(sides: list[Side], rounds: int) -> dict[str, Any]:
    """Medians and spreads of all sides, and each one's ratio to the first."""
    for number in range(rounds):
        for side in sides if number % 2 == 0 else sides[::-1]:
            side.turn(number + 1)
    out: dict[str, Any] = {}
    first = statistics.median(sides[0].times)
    for side in sides:
        median = statistics.median(side.times)
        out[side.title] = side.facts | {
            "median": median,
            "least": min(side.times),
            "most": max(side.times),
            "ratio": median / first,
        }
        print(
            f"  {side.title:22} {median:10.3f}  ({min(side.times):.3f} to {max(side.times):.3f})  {median / first:.4f}  holds {side.facts['held'] / 1e6:.2f} MB, "
            f"set up in {side.facts['setup']:.1f} s, first loss {side.facts['loss']:.6f}", flush=True,
        )  # fmt: skip
        side.close()
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, help="a checkout of the other state")
    parser.add_argument("--data-dir")
    parser.add_argument("--workloads", default="W1,W2,W3,W4,W5-64,W5-256")
    parser.add_argument("--rungs", default="graph")
    parser.add_argument("--optimizers", action="store_true", help="also compare this state's optimizers on W2 and W4")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT") or Path(__file__).parent))
    parser.add_argument("--side", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        serve(json.loads(args.side))
        return
    found: dict[str, Any] = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    for rung in args.rungs.split(","):
        for workload in args.workloads.split(",") if args.old else ():
            print(f"{workload}, {rung}: old and new", flush=True)
            roots = (("old", args.old.resolve()), ("new", HERE))
            sides = [Side(title, root, workload, rung, args.data_dir, args.seconds, {}) for title, root in roots]
            found[f"{workload} {rung}"] = compared(sides, args.rounds)
        for workload in ("W2", "W3", "W4") if args.optimizers else ():
            print(f"{workload}, {rung}: optimizers", flush=True)
            sides = [
                Side(title, HERE, workload, rung, args.data_dir, args.seconds, how) for title, how in OPTIMIZERS.items()
            ]
            found[f"{workload} {rung} optimizers"] = compared(sides, args.rounds)
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "commits.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"stored {args.out / 'commits.json'}")


if __name__ == "__main__":
    main()
