"""Large pages for the memory of a training, by Linux's own list of each range of memory: a request that Linux does not
grant raises no error.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data import reader
from warpladder.trainers.native.trainer import NativeTrainer

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MAPS = Path("/proc/self/smaps")
ENOUGH = 8 << 20  # bytes: NumPy requests large pages from 4 MB

pytestmark = pytest.mark.skipif(
    not hasattr(mmap, "MADV_HUGEPAGE") or not SETTING.exists() or "[never]" in SETTING.read_text(),
    reason="this system has no large pages for those who ask",
)


def may_be_large(array: np.ndarray) -> bool:
    """Whether the memory around an array's middle may lie on large pages; skips the test where Linux does not say."""
    middle, found = array.ctypes.data + array.nbytes // 2, False
    for line in MAPS.read_text().splitlines():
        name, *rest = line.split()
        if "-" in name:
            low, high = (int(word, 16) for word in name.split("-"))
            found = low <= middle < high
        elif found and name == "THPeligible:":
            return rest == ["1"]
    pytest.skip("this Linux does not say which memory may lie on large pages")


def test_a_trainers_buffers_may() -> None:
    """Memory that other processes could share may only if an administrator allows it, and nowhere by default."""
    drawn = case(nets.mlp(), TrainConfig(batch_size=64), seed=9, samples=64)
    with NativeTrainer(drawn.net, drawn.config, drawn.state) as trainer:
        for part in ("weights", "activations", "gradients"):
            assert may_be_large(getattr(trainer._memory, part)), part


def test_samples_from_a_file_may_where_numpy_asks_for_them() -> None:
    assert may_be_large(reader.from_bytes(bytes(ENOUGH)).take(ENOUGH)) == may_be_large(np.zeros(ENOUGH, np.uint8))
