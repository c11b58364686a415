"""Proof of a climb's rung: `verify` with what the rung states about itself, at little cost."""

from __future__ import annotations

from collections.abc import Callable

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..ladder import is_peer
from ..nets import Net
from ..proof import Shared, Verdict, verify
from ..proof.cases import one_thread
from ..rungs.base import Rung
from ..trainers.base import State, Trainer
from .own import is_own


def prove_rung(rung: Rung, net: Net, config: TrainConfig, data: Dataset, shared: Shared | None = None) -> Verdict:
    """Verdict about a rung.

    BLAS has one thread: products are the same sums in another order, and of more threads each would wait for the
    others, which takes most of the time where other programs need the cores. shared : as in `verify`.
    """
    with one_thread():
        return verify(
            _built(rung), net, config,
            dataset=data, bitwise=not rung.deviations, precision=rung.precision, sums=rung.sums,
            transforms=rung.transforms, shared=shared,
        )  # fmt: skip


def _built(rung: Rung) -> Callable[[Net, TrainConfig, State], Trainer]:
    """Function that builds a rung's trainer. A peer's makes each program at its first use: a proof loads dozens of data
    sets, and trains a whole epoch of few.
    """
    if not is_peer(rung) or not is_own(rung):
        return rung.build

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        trainer = rung.build(net, config, state)
        trainer.is_ready_early = False
        return trainer

    return build
