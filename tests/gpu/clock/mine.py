"""A rung from outside: softmax regression by CuPy, by cuda-core or on the emulator, honest or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cheats import IN_VAIN, REFUSED
from honest import HONEST
from runtimes import RUNTIMES

from warpladder import CrossEntropyLoss, Flatten, Linear
from warpladder.ladder import OneOf, Options, Rung, option
from warpladder.optimizers import SGD

WAYS: dict[str, Any] = {**HONEST, **REFUSED, **IN_VAIN}


@dataclass(frozen=True)
class WayOptions(Options):
    way: str | None = option(OneOf(tuple(WAYS)), "how it trains")
    by: str | None = option(OneOf(RUNTIMES), "what runs its kernels")


def build(net: Any, config: Any, state: Any, options: WayOptions = WayOptions()) -> Any:
    return WAYS[options.way or "plain"](net, config, state, options.by or "cupy")


def unsupported(net: Any, config: Any, options: WayOptions = WayOptions()) -> str | None:
    if tuple(map(type, net.layers)) != (Flatten, Linear) or net.loss != CrossEntropyLoss():
        return "it knows softmax regression only"
    if not isinstance(config.optimizer, SGD) or config.optimizer.momentum or config.optimizer.weight_decay:
        return "it knows plain SGD only"
    return (
        "it neither clips nor leaves losses out"
        if config.clip_value or config.clip_norm or config.loss_every > 1
        else None
    )


RUNG = Rung(
    "mine", "softmax regression of my own", "A kernel for each formula.", build, unsupported, options=WayOptions()
)
