"""The numpy rung."""

from __future__ import annotations

from functools import partial

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import ThreadOptions
from .reasons import of_arrays


def build(net: Net, config: TrainConfig, state: State, options: ThreadOptions = ThreadOptions()) -> Trainer:
    from ..ops.array import TABLE
    from ..trainers.layerwise import LayerwiseTrainer

    if options.threads is None:
        return LayerwiseTrainer(net, config, state, TABLE)

    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    limit = partial(ThreadpoolController().limit, limits=options.threads, user_api="blas")
    return LayerwiseTrainer(net, config, state, TABLE, around=limit)


RUNG = Rung(
    name="numpy",
    title="array expressions on BLAS",
    idea="The same sums as whole-array expressions: matrix products go to BLAS, convolutions become matrix products.",
    build=build,
    unsupported=of_arrays,
    options=ThreadOptions(),
)
