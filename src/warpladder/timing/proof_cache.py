"""Proofs kept between climbs: what was proven need not be proven again while nothing that bears on it has changed.

A proof is kept in the user's cache folder under a hash of the sources, net, data, settings, plans of the tuner,
threads, libraries and their BLAS, the processor's features, driver and GPU. A rung, layer, optimizer or schedule from
outside the package is proven every time: what its code reaches is not known.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache, partial
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from .. import ladder
from ..checkpoint import net_to_json
from ..device import gpu
from ..errors import ResultsError, WarpladderError
from ..files.atomic import write_atomically
from ..machine import facts as machine
from ..results import Checked
from ..results.reader import read, read_json
from ..rungs.base import Rung
from .task import Task, outsiders

PACKAGE = Path(__file__).resolve().parent.parent
SOURCES = (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp")

#: Settings of libraries that reach them through the environment.
SETTINGS = (
    "OPENBLAS",
    "OMP",
    "MKL",
    "BLIS",
    "NUMBA",
    "XLA",
    "JAX",
    "TF_",
    "TORCH",
    "PYTORCH",
    "CUDA",
    "CUBLAS",
    "CUDNN",
    "NVIDIA",
    "CUPY",
    "ATEN",
)

#: Proofs that are kept; the oldest go first.
MOST = 1000


def folder() -> Path:
    """Where the files are. It may be deleted at any time: climbs that begin afterwards prove anew."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("warpladder")) / "proofs"


class Kept:
    """The proofs of earlier climbs of one task. Made before any rung is built, so that the libraries which are loaded
    are always the same.
    """

    def __init__(self, task: Task) -> None:
        device = _gpu()
        self.gpu_known = not isinstance(device, str)
        self.foreign = bool(outsiders(task.net, task.config))
        self.ground = _digest([_sources(), _task(task), _libraries(), _processor(), device])

    def find(self, rung: Rung) -> Checked | None:
        """The proof that this rung passed, or None where there is none or its file is damaged."""
        if self.foreign or not ours(rung):
            return None
        try:
            checked: Checked = read(Checked, read_json(self._path(rung).read_bytes()), "")
        except (OSError, ResultsError):
            return None
        sound = (
            checked.passed
            and checked.error is not None
            and checked.bound is not None
            and checked.error <= checked.bound
        )
        return replace(checked, kept=True) if sound else None

    def keep(self, rung: Rung, checked: Checked, on_gpu: bool) -> None:
        """Keep a proof that was passed, not on a GPU that could not be told; a folder that cannot be written is told in
        a warning.
        """
        if self.foreign or not (checked.passed and ours(rung)) or (on_gpu and not self.gpu_known):
            return
        path = self._path(rung)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(asdict(checked)).encode())
            _prune(path.parent)
        except OSError as error:
            warnings.warn(
                f"proofs cannot be kept in {path.parent} ({error.strerror}): the next climb proves again", stacklevel=2
            )

    def _path(self, rung: Rung) -> Path:
        own = [
            rung.name,
            rung.precision,
            rung.sums,
            rung.transforms,
            rung.deviations,
            _plans() if rung.has("block_size") else "",
        ]
        return folder() / f"{_digest([self.ground, own])[:40]}.json"


def ours(rung: Rung) -> bool:
    """Whether a rung is the package's own, and so is what builds its trainer."""
    build: Callable[..., Any] = rung.build
    while isinstance(build, partial):
        build = build.func
    return not ladder.outside(rung) and getattr(build, "__module__", "").startswith(f"{__package__.partition('.')[0]}.")


def _digest(told: Any) -> str:
    return sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


@cache
def _sources() -> str:
    """A hash of every source of the package: what a rung's code reaches is not asked."""
    known = sha256()
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in SOURCES):
        content = path.read_bytes()
        known.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode() + content)
    return known.hexdigest()


def _task(task: Task) -> list[Any]:
    """Net, settings and training set; samples to test on take no part in a proof."""
    data = task.data
    arrays = [data.train_x, *(() if data.train_y is None else (data.train_y,))]
    content = [
        (array.shape, str(array.dtype), sha256(np.ascontiguousarray(array).data).hexdigest()) for array in arrays
    ]
    config = task.config if task.config.schedule.by_epochs else task.config.but(epochs=1)
    return [net_to_json(task.net), config.as_dict(), content, data.scale, data.classes]


def _libraries() -> list[Any]:
    """Versions of all that is installed, BLAS and its kind of core, and what the environment tells them."""
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    installed = sorted({f"{each.metadata['Name']} {each.version}" for each in metadata.distributions()})
    pools = [
        each for each in threadpool_info() if each["user_api"] == "blas" and "numpy" in each["filepath"]
    ]  # others may come and go
    blas = sorted(
        [str(each.get(name)) for name in ("internal_api", "version", "architecture", "num_threads")] for each in pools
    )
    told = {name: value for name, value in os.environ.items() if name.startswith(SETTINGS)}
    return [sys.version, sys.platform, installed, blas, told]


def _processor() -> list[Any]:
    return [machine.host(), machine.cores()]


def _gpu() -> dict[str, Any] | str:
    """The GPU and its driver, or why there is none that our kernels can use."""
    try:
        found = gpu.facts()
    except (WarpladderError, ImportError, OSError) as error:
        return str(error)
    return {
        name: found[name]
        for name in ("name", "capability", "multiprocessors", "memory_bytes", "cuda", "nvrtc", "driver")
    }


def _plans() -> list[str]:
    """Hashes of what the tuner has chosen here so far: a rung that follows a plan is proven as that plan has it."""
    from ..trainers.tuning import plan_cache

    place = plan_cache.PLANS.place()
    return (
        [f"{path.name} {sha256(path.read_bytes()).hexdigest()}" for path in sorted(place.glob("*.plan"))]
        if place.is_dir()
        else []
    )


def _prune(place: Path) -> None:
    found = sorted(place.glob("*.json"), key=lambda path: path.stat().st_mtime)
    for path in found[: max(0, len(found) - MOST)]:
        with suppress(OSError):
            path.unlink()
