"""Proofs made side by side, in processes of their own, while nothing is timed.

A process that passes a rung has proven the same code on the same data as this one would. Whatever else becomes of it
says nothing about the rung, since several share the memory of a device: such a rung is proven here, alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from .. import ladder
from ..checkpoint import net_from_json, net_to_json
from ..config import TrainConfig
from ..data.dataset import Dataset
from ..errors import ResultsError
from ..files.python import bring, origins
from ..proof import verify
from ..results import Checked
from ..results.reader import read, read_json
from ..rungs.base import Rung
from .task import Task, kinds, proven_with

LIMIT = 180.0  # seconds that a process may take
MOST = 16  # processes side by side: each holds a copy of the data, and those of GPU rungs a context

#: Has the threads of BLAS and OpenMP that wait for each other sleep at once: what they spun on are the cores of the
#: processes beside them. It changes no bit.
ASLEEP = {"OPENBLAS_THREAD_TIMEOUT": "4", "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}


def sleepy() -> dict[str, str]:
    """The environment of a process that works beside others; what the user has set stays."""
    return {**ASLEEP, **os.environ}


def passed_beside(
    rungs: Sequence[Rung], task: Task, at_a_time: int, until: float, told: Callable[[str, Checked | None], None]
) -> None:
    """Have processes of their own prove those of the package's own rungs.

    until : when, by `time.perf_counter`, nobody waits any longer.
    told : called with the name of each rung whose process has ended, and its verdict, or None where the process did not
    pass the rung.
    """
    children: set[subprocess.Popen[str]] = set()
    with TemporaryDirectory(prefix="warpladder-") as folder:
        path = Path(folder, "data.npz")
        labels: dict[str, Any] = {} if task.data.train_y is None else {"y": task.data.train_y}
        np.savez(path, x=task.data.train_x, scale=np.float64(task.data.scale), **labels)
        pool = ThreadPoolExecutor(at_a_time, thread_name_prefix="proving")
        try:
            asked = {pool.submit(_ask, rung, task, path, until, children): rung for rung in rungs}
            for future in as_completed(asked):
                checked = future.result()
                told(asked[future].name, checked if checked is not None and checked.passed else None)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in tuple(children):
                child.kill()
            pool.shutdown()


def _ask(rung: Rung, task: Task, path: Path, until: float, children: set[subprocess.Popen[str]]) -> Checked | None:
    """What a process of its own says of a rung; None where it says nothing."""
    config, cut = proven_with(rung, task)
    try:
        outside = origins(kinds(task.net, config))
    except ImportError:
        return None
    order = {
        "rung": rung.name,
        "net": net_to_json(task.net),
        "config": config.as_dict(),
        "data": str(path),
        "outside": outside,
    }
    package = str(Path(__file__).parents[2])
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {package!r}); from warpladder.timing.parallel_proofs import child; child()",
    ]
    if perf_counter() > until:
        return None
    try:
        with subprocess.Popen(
            command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=sleepy()
        ) as process:
            children.add(process)
            try:
                out, _ = process.communicate(json.dumps(order), timeout=min(LIMIT, until - perf_counter()))
            finally:
                process.kill()
                children.discard(process)
        checked: Checked = read(Checked, read_json(out.splitlines()[-1].encode() if out.strip() else b""), "")
    except (OSError, subprocess.TimeoutExpired, ResultsError):
        return None
    return Checked(checked.passed, checked.error, checked.bound, checked.reason + cut, checked.seconds)


def child() -> None:
    """Prove as standard input says, and print the verdict."""
    told = json.load(sys.stdin)
    bring(told["outside"])
    rung, config = ladder.find(told["rung"]), TrainConfig.from_dict(told["config"])
    with np.load(told["data"], allow_pickle=False) as arrays:
        x, y, scale = arrays["x"], arrays.get("y"), float(arrays["scale"])
    data = Dataset("the climb's", x, y, x[:1].copy(), None, scale)
    verdict = verify(
        rung.build, net_from_json(told["net"]), config,
        dataset=data, bitwise=not rung.deviations, precision=rung.precision, sums=rung.sums, transforms=rung.transforms,
    )  # fmt: skip
    error, bound = (value if np.isfinite(value) else None for value in map(float, (verdict.error, verdict.bound)))
    print(
        json.dumps(
            asdict(Checked(verdict.passed, error, bound, " ".join(verdict.reason.split())[:400], verdict.seconds))
        )
    )
