"""Every rung and peer with every optimizer and schedule: proven. By day each pair of rung, net, optimizer, schedule and
batch; at night all of them.
"""

from __future__ import annotations

from itertools import product

import pytest
from rungs_here import CPU_PEERS, HERE, TEMPLATED
from strategies import NARROW, ZOO

from warpladder.config import TrainConfig
from warpladder.nets import Net
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer
from warpladder.optimizers.schedules import Constant, Cosine, Schedule, StepDecay
from warpladder.proof import verify
from warpladder.rungs.base import Rung

RUNGS = (*HERE, *TEMPLATED, *CPU_PEERS)
NETS = (*ZOO[:-1], NARROW)
OPTIMIZERS: tuple[Optimizer, ...] = (
    SGD(0.05, momentum=0.9, weight_decay=1e-3),
    SGD(0.05, momentum=0.9, nesterov=True),
    Adam(1e-3),
    Adam(1e-2, betas=(0.8, 0.95), eps=1e-4, weight_decay=1e-2),
    AdamW(1e-3, weight_decay=0.1),
)
SCHEDULES: tuple[Schedule, ...] = (Constant(), Cosine(warmup=1), StepDecay(every=1, gamma=0.5))
BATCHES = (8, 1, None)


def cases() -> list:
    """Every combination; those beyond the first of each pair are marked for the night."""
    out, met = [], set()
    for i, rung in enumerate(RUNGS):
        for j, net in enumerate(NETS):
            by_day = {(j + i) % len(OPTIMIZERS): ((i + 2 * j) % len(SCHEDULES), (i + j) % len(BATCHES))}
            for o, s, b in product(range(len(OPTIMIZERS)), range(len(SCHEDULES)), range(len(BATCHES))):
                day = by_day.get(o) == (s, b) and (rung not in TEMPLATED or net in (NETS[0], NETS[2]))
                if day:
                    met |= {("rung", rung.name, o), ("schedule", rung.name, s), ("both", o, s)}
                marks = [] if day else [pytest.mark.nightly]
                name = f"{rung.name}-{net.name}-{OPTIMIZERS[o].name}{o}-{type(SCHEDULES[s]).__name__.lower()}-{BATCHES[b] or 'full'}"
                out.append(pytest.param(rung, net, OPTIMIZERS[o], SCHEDULES[s], BATCHES[b], id=name, marks=marks))
    assert {("both", o, s) for o, s in product(range(len(OPTIMIZERS)), range(len(SCHEDULES)))} <= met
    assert {("rung", rung.name, o) for rung in (*HERE, *CPU_PEERS) for o in range(len(OPTIMIZERS))} <= met
    return out


@pytest.mark.pairs
@pytest.mark.parametrize(("rung", "net", "optimizer", "schedule", "batch"), cases())
def test_proven(rung: Rung, net: Net, optimizer: Optimizer, schedule: Schedule, batch: int | None) -> None:
    config = TrainConfig(batch_size=batch, epochs=5, optimizer=optimizer, schedule=schedule)
    if reason := rung.unsupported(net, config):
        pytest.skip(reason)
    verdict = verify(rung.build, net, config, precision=rung.precision, transforms=rung.transforms)
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound
