"""Cache of proofs between climbs: a proof is valid until something that can change it has changed.

An entry's key is a hash of the sources, net, data, settings, plans of the tuner, threads, libraries and their BLAS, the
processor's features, driver and GPU. A rung, layer, optimizer or schedule from a user's file is proven every
time, since its code is not known.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoint import net_to_json
from ..device import gpu
from ..errors import ResultsError, WarpladderError
from ..files.cache import Cache, CacheLimits
from ..machine import facts as machine
from ..results import Checked
from ..results.reader import read, read_json
from ..rungs.base import Rung
from .own import is_own
from .task import ClimbTask, outsiders

PACKAGE = Path(__file__).resolve().parent.parent
SOURCES = (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp")

#: Prefixes of environment variables that are settings of libraries.
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

PROOFS = Cache(
    "proofs",
    "proofs",
    "the next climb proves again",
    mark=b"warpladder proof 1\n",
    suffix=".json",
    limits=CacheLimits(entries=1000),
)


class ProofCache:
    """Stored proofs of earlier climbs of one task.

    Create it before any rung is built, so that the same libraries are always loaded.
    """

    def __init__(self, task: ClimbTask) -> None:
        device = _gpu()
        self.is_gpu_known = not isinstance(device, str)
        self.has_foreign = bool(outsiders(task.net, task.config))
        self.ground = _digest([_sources(), _task(task), _libraries(), _processor(), device])

    def find(self, rung: Rung) -> Checked | None:
        """Stored proof that this rung passed, or None if it is missing or damaged."""
        if self.has_foreign or not is_own(rung):
            return None
        content = PROOFS.read(self._key(rung))
        if content is None:
            return None
        try:
            checked: Checked = read(Checked, read_json(content), "")
        except ResultsError:
            return None
        error, bound = checked.error, checked.bound
        is_sound = checked.passed and error is not None and bound is not None and error <= bound
        return replace(checked, kept=True) if is_sound else None

    def store(self, rung: Rung, checked: Checked, on_gpu: bool) -> None:
        """Store a passed proof, unless it was made on a GPU that could not be identified."""
        if not self.has_foreign and checked.passed and is_own(rung) and (self.is_gpu_known or not on_gpu):
            PROOFS.write(self._key(rung), json.dumps(asdict(checked)).encode())

    def _key(self, rung: Rung) -> str:
        plans = _plans() if rung.has("block_size") else ""
        own = [rung.name, rung.precision, rung.sums, rung.transforms, rung.deviations, plans]
        return _digest([self.ground, own])[:40]


def _digest(content: Any) -> str:
    return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


@cache
def _sources() -> str:
    """Hash of every source file of the package."""
    known = sha256()
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in SOURCES):
        content = path.read_bytes()
        known.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode() + content)
    return known.hexdigest()


def _task(task: ClimbTask) -> list[Any]:
    """Net, settings and training set, for the key; test samples do not change a proof."""
    data = task.data
    arrays = [array for array in (data.train_x, data.train_y, data.train_weight) if array is not None]
    content = [
        (array.shape, str(array.dtype), sha256(np.ascontiguousarray(array).data).hexdigest()) for array in arrays
    ]
    config = task.config if task.config.schedule.by_epochs else task.config.but(epochs=1)
    return [net_to_json(task.net), config.as_dict(), content, data.scale, data.classes]


def _libraries() -> list[Any]:
    """Versions of installed packages, BLAS and its kernels, and their settings in the environment, for the key."""
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    pools = [
        each for each in threadpool_info() if each["user_api"] == "blas" and "numpy" in each["filepath"]
    ]  # other packages may be installed or removed
    blas = sorted(
        [str(each.get(name)) for name in ("internal_api", "version", "architecture", "num_threads")] for each in pools
    )
    settings = {name: value for name, value in os.environ.items() if name.startswith(SETTINGS)}
    return [sys.version, sys.platform, _installed(), blas, settings]


@cache
def _installed() -> list[str]:
    """Names and versions of all installed packages."""
    return sorted({f"{each.metadata['Name']} {each.version}" for each in metadata.distributions()})


def _processor() -> list[Any]:
    return [machine.host(), machine.cores()]


def _gpu() -> dict[str, Any] | str:
    """GPU and driver, or the reason why the package's kernels cannot use a GPU, for the key."""
    try:
        found = gpu.facts()
    except (WarpladderError, ImportError, OSError) as error:
        return str(error)
    return {
        name: found[name]
        for name in ("name", "capability", "multiprocessors", "memory_bytes", "cuda", "nvrtc", "driver")
    }


def _plans() -> list[str]:
    """Hashes of the tuner's plans on this machine, for the key: a proof is valid for these plans."""
    from ..trainers.tuning import plan_cache

    place = plan_cache.PLANS.place()
    return (
        [f"{path.name} {sha256(path.read_bytes()).hexdigest()}" for path in sorted(place.glob("*.plan"))]
        if place.is_dir()
        else []
    )
