"""What a step's last product asks memory for: each line of the next step's samples that its thread gathers, once, and
nothing behind the last.
"""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.nets import Net
from warpladder.optimizers import SGD, Adam, Optimizer
from warpladder.trainers.native.kernels.prefetch import next_samples, prefetch_lines
from warpladder.trainers.native.program.job import ALL, NOTHING, OWN, VIEWS, Call
from warpladder.trainers.native.program.plan import Plan
from warpladder.trainers.native.program.views import FIELDS
from warpladder.trainers.native.threads.run import _opened
from warpladder.trainers.native.threads.workers import Workers
from warpladder.trainers.native.trainer import NativeTrainer

BATCH, SAMPLES, TILES = 5, 13, 7
MLP = nets.mlp((1, 9, 9))
LINES = {"bytes": (0, 64), "floats": (0, 16, 32, 48, 64, 80)}  # where lines of 64 bytes begin in a sample of 81 pixels


@njit
def asked(job, part, parts, first, n, asks):
    """Indices of the samples that a part asks for, how many lines behind each tile, and where it stands behind each
    line: (TILES * lines, 2).
    """
    _, _, memory, settings = _opened(part, job)
    pixels_u8, pixels_f32, samples, lines = next_samples(
        asks, memory, Call(0, part, part, parts, first, n, 0, 0, np.float32(1), settings), TILES
    )
    at = np.zeros((TILES * lines + 1, 2), np.int64)
    for i in range(TILES * lines):
        at[i + 1] = prefetch_lines((pixels_u8, pixels_f32, samples, 1), at[i, 0], at[i, 1])
    return samples.copy(), lines, at


@pytest.mark.parametrize("pixels", LINES)
@pytest.mark.parametrize(
    ("asks", "part", "first", "n", "wanted"),
    [
        (ALL, 0, 0, BATCH, range(5, 10)),
        (ALL, 1, 5, BATCH, range(10, 13)),
        (OWN, 0, 0, BATCH, range(5, 8)),
        (OWN, 1, 0, BATCH, range(8, 10)),
        (OWN, 0, 5, BATCH, range(10, 12)),
        (OWN, 1, 10, 3, range(0)),
        (NOTHING, 0, 0, BATCH, range(0)),
    ],
)
def test_the_next_steps_samples_are_asked_for_once(
    pixels: str, asks: int, part: int, first: int, n: int, wanted: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = case(MLP, TrainConfig(batch_size=BATCH), seed=1, samples=SAMPLES, as_bytes=pixels == "bytes")
    found = []

    def train(_: object, entry: object, job: np.ndarray, sync: np.ndarray, steps: int) -> None:
        found.append(asked(job.ctypes.data, part, 2, first, n, asks))

    with NativeTrainer(MLP, drawn.config, drawn.state, 2) as trainer:
        trainer.load(drawn.dataset)
        monkeypatch.setattr(Workers, "train", train)
        trainer.run(drawn.order, 0, 3)
        monkeypatch.undo()
    ((samples, lines, at),) = found
    assert samples.tolist() == drawn.order.indices(0, SAMPLES)[wanted.start : wanted.stop].tolist()
    starts = [(sample, start) for sample in range(len(wanted)) for start in LINES[pixels]]
    assert (lines - 1) * TILES < len(starts) <= lines * TILES
    assert [tuple(line) for line in at[: len(starts)].tolist()] == starts
    assert (at[len(starts) :] == (len(wanted), 0)).all()


MNIST, CIFAR = (1, 28, 28), (3, 32, 32)


@pytest.mark.parametrize("optimizer", [SGD(0.1), Adam(0.01)], ids=["sgd", "adam"])
@pytest.mark.parametrize(
    ("net", "batch", "asking"),
    [
        (nets.mlp(MNIST), 64, [ALL]),
        (nets.mlp(CIFAR), 128, [OWN]),
        (nets.mlp(MNIST), 192, []),
        (nets.mlp10(MNIST), 64, []),
        (nets.cnn(MNIST), 64, []),
    ],
)
def test_the_first_layers_gradient_alone_asks(net: Net, batch: int, asking: list[int], optimizer: Optimizer) -> None:
    """Each thread gathers a small batch whole, and half of a large one; where a gradient goes through memory, and where
    samples are read in place, nobody asks.
    """
    plan = Plan(net, TrainConfig(batch_size=batch, optimizer=optimizer), 2, batch)
    operand = {"weight_gradient": 9, "weight_step": 4}
    asks = [row[VIEWS * FIELDS + operand[name]] for name, row in plan.rows if name in operand]
    assert [kind for kind in asks if kind != NOTHING] == asking
