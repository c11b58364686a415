"""Native rung: a whole epoch in compiled code on all CPU cores."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import ThreadOptions
from .reasons import of_native


def build(net: Net, config: TrainConfig, state: State, options: ThreadOptions = ThreadOptions()) -> Trainer:
    from ..trainers.native.trainer import NativeTrainer

    return NativeTrainer(net, config, state, options.threads)


RUNG = Rung(
    name="native",
    title="fused, vectorised, all cores",
    idea="A whole epoch in compiled code: register tiles of vector arithmetic, layers fused, samples in "
    "blocks that stay in the cache, all cores.",
    build=build,
    unsupported=of_native,
    options=ThreadOptions(),
)
