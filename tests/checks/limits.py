"""Limits of time and memory that users notice: start-up, and the peak memory of training on 60,000 images.

python tests/checks/limits.py [time] [memory]     one of them or both; time wants a machine that is quiet
"""

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


def holds(what: str, measured: float, limit: float, unit: str) -> bool:
    """True if a figure is below its limit; prints both."""
    below = measured < limit
    print(f"{what}: {measured:.3g} {unit}, limit {limit:g} {unit}{'' if below else '  TOO MUCH'}", flush=True)
    return below


def time_holds() -> bool:
    """True if start-up takes no longer than its limits."""
    importing = seconds([sys.executable, "-c", "import warpladder"])
    helping = seconds([str(BIN / "warpladder"), "--help"])
    return holds("import warpladder", importing, 0.25, "s") & holds("warpladder --help", helping, 0.4, "s")


def memory_holds() -> bool:
    """True if training on 60,000 images takes no more memory than its limits."""
    every = True
    with tempfile.TemporaryDirectory() as folder:
        write_mnist_like(Path(folder))
        for net, rung in (
            ("softmax", "native"), ("mlp", "numpy"), ("mlp", "native"), ("mlp10", "native"), ("cnn", "native"),
        ):  # fmt: skip
            words = f"train {net} --data mnist --rung {rung} --epochs 1 --no-progress".split()
            peak = peak_bytes([str(BIN / "warpladder"), *words, "--data-dir", folder]) / MEGABYTE
            every &= holds(f"peak memory of {net} on {rung}, 60,000 images", peak, 400, "MB")
    return every


LIMITS = {"time": time_holds, "memory": memory_holds}


def main(*names: str) -> int:
    """Check these limits, or all. Returns 1 if one does not hold."""
    wrong = [name for name in names or LIMITS if not LIMITS[name]()]
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
