"""Proofs made concurrently, in processes of their own, while nothing is timed.

A process that passes a rung has proven the same code on the same data as this one would. Any other outcome is no
verdict, since several processes share a device's memory: such a rung is proven again, alone.
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
from ..proof import SEED, run_seed, verify
from ..results import Checked
from ..results.reader import read, read_json
from ..rungs.base import Rung
from .task import ClimbTask, kinds, proven_with

LIMIT = 180.0  # seconds that a process may take
MOST = 16  # concurrent processes: each holds a copy of the data, and those of GPU rungs a context

#: Waiting threads of BLAS and OpenMP sleep at once and leave the cores to other processes. It changes no bit.
ASLEEP = {"OPENBLAS_THREAD_TIMEOUT": "4", "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}


def child_environment() -> dict[str, str]:
    """Environment of a process that runs concurrently with others. Variables that the user has set stay."""
    return {**ASLEEP, **os.environ}


def prove_concurrently(
    rungs: Sequence[Rung], task: ClimbTask, at_a_time: int, until: float, report: Callable[[str, Checked | None], None]
) -> None:
    """Prove rungs of the package in processes of their own.

    until : time of `perf_counter` at which the processes are ended.
    report : called with the name of each rung whose process has ended, and its verdict, or None if the process did not
    pass the rung.
    """
    children: set[subprocess.Popen[str]] = set()
    with TemporaryDirectory(prefix="warpladder-") as folder:
        path = Path(folder, "data.npz")
        labels: dict[str, Any] = {} if task.data.train_y is None else {"y": task.data.train_y}
        np.savez(path, x=task.data.train_x, scale=np.float64(task.data.scale), **labels)
        pool = ThreadPoolExecutor(at_a_time, thread_name_prefix="proving")
        try:
            futures = {pool.submit(_prove, rung, task, path, until, children): rung for rung in rungs}
            for future in as_completed(futures):
                checked = future.result()
                report(futures[future].name, checked if checked is not None and checked.passed else None)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in tuple(children):
                child.kill()
            pool.shutdown()


def _prove(
    rung: Rung, task: ClimbTask, path: Path, until: float, children: set[subprocess.Popen[str]]
) -> Checked | None:
    """The verdict of a process of its own about a rung; None if there is none."""
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
            command,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**child_environment(), SEED: str(run_seed())},
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
    """Make the proof that standard input describes, and print the verdict."""
    order = json.load(sys.stdin)
    bring(order["outside"])
    rung, config = ladder.find(order["rung"]), TrainConfig.from_dict(order["config"])
    with np.load(order["data"], allow_pickle=False) as arrays:
        x, y, scale = arrays["x"], arrays.get("y"), float(arrays["scale"])
    data = Dataset("the climb's", x, y, x[:1].copy(), None, scale)
    verdict = verify(
        rung.build, net_from_json(order["net"]), config,
        dataset=data, bitwise=not rung.deviations, precision=rung.precision, sums=rung.sums, transforms=rung.transforms,
    )  # fmt: skip
    error, bound = (value if np.isfinite(value) else None for value in map(float, (verdict.error, verdict.bound)))
    print(
        json.dumps(
            asdict(Checked(verdict.passed, error, bound, " ".join(verdict.reason.split())[:400], verdict.seconds))
        )
    )
