"""Start-up seconds of a fresh process, with their limits, and its peak memory."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

#: Processes that must be quick or small: what is measured, its limit.
START_UP = {
    "import warpladder": (("-c", "import warpladder"), 0.25),
    "warpladder --help": (("-c", "from warpladder.cli import main; main()", "--help"), 0.4),
    **{
        f"train mlp on digits, {rung}": (
            ("-m", "warpladder", *f"train mlp --data digits --rung {rung} --no-checkpoint".split()),
            None,
        )
        for rung in ("numpy", "native")
    },
}
#: Limit of the seconds that a second start of native takes more than NumPy's.
WARM_LIMIT = 0.5
RSS_LIMIT_MB = 400


def start_up(rounds: int) -> dict[str, Any]:
    """Seconds of fresh processes, in turns; the first round, which may compile, does not count."""
    commands: dict[str, tuple[tuple[str, ...], float | None]] = {"python": (("-c", "pass"), None), **START_UP}
    out: dict[str, Any] = {what: {"seconds": [], "limit": limit} for what, (_, limit) in commands.items()}
    for number in range(-1, rounds):
        for what, (command, _) in commands.items():
            before = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if number >= 0:
                out[what]["seconds"].append(time.perf_counter() - before)
    return out


def native_after_numpy(found: dict[str, Any]) -> float:
    """Seconds that a second start of native takes more than one of NumPy's; found: from `start_up`."""
    native, numpy = (
        statistics.median(found[f"train mlp on digits, {rung}"]["seconds"]) for rung in ("native", "numpy")
    )
    return native - numpy


PEAK_RSS = """
import sys
from warpladder import data, nets, train, TrainConfig
mnist = data.load("mnist", data_dir=sys.argv[2] or None, progress=False)
train(nets.mlp(), mnist, TrainConfig(epochs=1), rung=sys.argv[1])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak_rss(data_dir: str | None) -> dict[str, float]:
    """Peak MB of a fresh process that trains mlp on mnist for an epoch and tests it, by rung.

    From /proc, so on Linux only: getrusage would count what this process held when it made the other one.
    """
    out = {}
    for name in ("numpy", "native"):
        found = subprocess.run([sys.executable, "-c", PEAK_RSS, name, data_dir or ""], capture_output=True, text=True)
        if found.returncode:
            print(f"peak memory of {name} is not known: {found.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        else:
            out[name] = int(found.stdout.split()[1]) / 1024
    return out
