"""Limits of time and memory that users notice: start-up, and the peak memory of training on 60,000 images."""

import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BIN = Path(sys.executable).parent
REPEATS = 11
MEGABYTE = 10**6


def seconds(command: list[str]) -> float:
    """Median wall time of a whole process, its first run left out."""
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def peak_bytes(command: list[str]) -> int:
    """Largest resident set of a process that must succeed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def write_mnist_like(folder: Path) -> None:
    """Random images in MNIST's files and sizes."""
    random = np.random.default_rng(0)
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        images = random.integers(0, 256, (count, 28, 28), np.uint8)
        labels = random.integers(0, 10, count, np.uint8)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + images.tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + labels.tobytes())


def main() -> int:
    failed = 0

    def check(what: str, measured: float, limit: float, unit: str) -> None:
        nonlocal failed
        holds = measured < limit
        failed += not holds
        print(f"{what}: {measured:.3g} {unit}, limit {limit:g} {unit}{'' if holds else '  TOO MUCH'}", flush=True)

    check("import warpladder", seconds([sys.executable, "-c", "import warpladder"]), 0.25, "s")
    check("warpladder --help", seconds([str(BIN / "warpladder"), "--help"]), 0.4, "s")
    with tempfile.TemporaryDirectory() as folder:
        write_mnist_like(Path(folder))
        for net, rung in (
            ("softmax", "native"),
            ("mlp", "numpy"),
            ("mlp", "native"),
            ("mlp10", "native"),
            ("cnn", "native"),
        ):
            command = [
                "train",
                net,
                "--data",
                "mnist",
                "--data-dir",
                folder,
                "--rung",
                rung,
                "--epochs",
                "1",
                "--no-progress",
            ]
            peak = peak_bytes([str(BIN / "warpladder"), *command]) / MEGABYTE
            check(f"peak memory of {net} on {rung}, 60,000 images", peak, 400, "MB")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
