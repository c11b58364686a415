"""What a first start costs: `warpladder train` in a fresh process with an empty HOME, and once more when what was
compiled and timed is kept.

    # DIR has mnist/, and cifar10/ or noise takes its place; half a minute on an H200
    python benchmarks/h200/cold.py --data-dir DIR

A time is that of the whole command, one epoch and the test score included. What the command says of compiling and
timing is printed with it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

CASES = (("mlp", "mnist", "64"), ("cnn", "mnist", "64"), ("autoencoder", "cifar10", "256"))
TARGETS = {"cnn": 6.0}  # seconds, cold


def noise(folder: Path) -> Path:
    """CIFAR-10's six files full of noise."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("test_batch", *(f"data_batch_{number}" for number in range(1, 6))):
        records = np.random.default_rng(0).integers(0, 256, (10_000, 3073), np.uint8)
        records[:, 0] %= 10
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return folder


def timed(net: str, data: str, batch: str, rung: str, data_dir: Path, home: str) -> dict[str, Any]:
    """Seconds of a command, and what it says."""
    words = [
        "train",
        net,
        "--data",
        data,
        "--data-dir",
        str(data_dir),
        "--rung",
        rung,
        "--epochs",
        "1",
        "--batch-size",
        batch,
        "--progress",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | {"HOME": home}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", "from warpladder.cli import main; main()", *words],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - begin
    said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    if done.returncode:
        raise RuntimeError(f"warpladder {' '.join(words)} ended with {done.returncode}: {' | '.join(said[-5:])}")
    return {"seconds": seconds, "said": [line for line in said if line.startswith(("Compil", "Tim", "test", "Test"))]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--rung", default="graph")
    parser.add_argument("--nets", default=",".join(net for net, _, _ in CASES))
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OUT") or Path(__file__).parent), help="where cold.json goes"
    )
    args = parser.parse_args()
    found: dict[str, Any] = {"rung": args.rung, "cores": len(os.sched_getaffinity(0)), "nets": {}}
    late = []
    with tempfile.TemporaryDirectory() as scratch:
        for net, data, batch in CASES:
            if net not in args.nets.split(","):
                continue
            folder = args.data_dir.resolve()
            if data == "cifar10" and not list(folder.rglob("data_batch_1.bin")):
                folder = noise(Path(scratch) / "cifar10")
            home = tempfile.mkdtemp(dir=scratch)
            turns = [timed(net, data, batch, args.rung, folder, home) for _ in range(2)]
            found["nets"][net] = {"batch": batch, "cold": turns[0], "warm": turns[1]}
            print(
                f"{net} batch {batch}, {args.rung}: cold {turns[0]['seconds']:.1f} s, warm {turns[1]['seconds']:.1f} s",
                flush=True,
            )
            for line in turns[0]["said"]:
                print(f"    {line}")
            if not turns[0]["seconds"] <= TARGETS.get(net, float("inf")):
                late.append(f"{net} takes {turns[0]['seconds']:.1f} s cold, and {TARGETS[net]:.0f} are wanted")
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "cold.json").write_text(json.dumps(found, indent=1) + "\n")
    for line in late:
        print(f"too slow: {line}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
