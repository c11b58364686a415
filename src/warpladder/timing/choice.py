"""Default rungs and peers of a climb, and the order in which a quick climb begins them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..config import TrainConfig
from ..errors import RungError
from ..errors.arguments import shown
from ..ladder import LADDER, PEERS, find, is_peer, outside
from ..nets import Net
from ..rungs.base import Rung
from ..trainers.kernelwise.where import why_not

#: Choices of a climb's peers: the strongest variant of each on this machine, none, or every variant of `ladder.PEERS`.
PEER_CHOICES = ("best", "none", "all")

#: Variants of each peer in the ladder's precision, fp32, from the fastest down: benchmarks/h200/reports.json and
#: peers.json; on a CPU oneDNN's convolutions prefer channels last.
FASTEST_FIRST = (
    "torch:device=cuda:mode=compile",
    "torch:device=cuda:mode=graph",
    "torch:device=cuda",
    "torch:images=last",
    "torch",
    "jax:device=cuda",
    "jax",
    "sklearn",
)

#: Variants that take a minute or two to compile: a quick climb times the next variant, a whole climb both.
SLOW_TO_START = ("torch:device=cuda:mode=compile",)


#: Rungs that train on the CPU.
ON_CPU = ("loops", "numpy", "native")


def contenders(net: Net, config: TrainConfig, peers: str = "best", quick: bool = False) -> list[Rung]:
    """List the rungs of the ladder, from the first up, and then peers.

    Parameters
    ----------
    net, config
        Net and settings: a peer's variant is listed only if it can train them on this machine.
    peers : {"best", "none", "all"}
    quick : bool
        True leaves out variants that start slowly; False lists the next variant too.
    """
    if peers not in PEER_CHOICES:
        raise RungError(f"peers wants {', '.join(PEER_CHOICES)}, got {shown(peers)}")
    if peers == "all":
        return [*LADDER, *PEERS]
    variants = [find(name) for name in FASTEST_FIRST if not (quick and is_slow_to_start(find(name)))]
    kinds = dict.fromkeys(peer.base for peer in PEERS) if peers == "best" else {}
    strongest = (_strongest([each for each in variants if each.base is kind], net, config) for kind in kinds)
    return [*LADDER, *(each for some in strongest for each in some)]


def is_slow_to_start(rung: Rung) -> bool:
    """True if a variant takes a minute or more to compile."""
    return rung.name in SLOW_TO_START


def is_late(rung: Rung, is_proven: bool) -> bool:
    """True if a first look takes peers before this rung: one of the CPU where there is a GPU, elsewhere a slow one that
    is still to be proven.
    """
    return rung.base.name in ON_CPU if why_not(None) is None else math.isfinite(rung.proof_flops) and not is_proven


def _strongest(variants: list[Rung], net: Net, config: TrainConfig) -> list[Rung]:
    """List of the first variant that can train here, and of the next one if the first starts slowly.

    If no variant can train, the last one, so that a climb lists its reason.
    """
    able = [each for each in variants if _can_train(each, net, config)]
    return able[: 1 + is_slow_to_start(able[0])] if able else variants[-1:]


def _can_train(rung: Rung, net: Net, config: TrainConfig) -> bool:
    try:
        return rung.unsupported(net, config) is None
    except Exception:  # a broken package: the climb lists the peer with this error
        return False


def from_the_fastest(rungs: Iterable[Rung]) -> list[Rung]:
    """List of rungs: first those from user files, then those that choose by a clock, from the lowest up, whose kernels
    the next one needs too; the ladder from its top down, emulated rungs, and peers from the fastest down.

    While a rung chooses by a clock nothing else is proven: it has its row early, and the others wait once.
    """

    def place(rung: Rung) -> tuple[bool, bool, int, int]:
        emulated = rung.options.chosen().get("device") == "emulated"
        known = [known.name for known in LADDER]
        at = len(known) if outside(rung) or rung.base.name not in known else known.index(rung.base.name)
        if is_peer(rung):
            at = FASTEST_FIRST.index(rung.name) if rung.name in FASTEST_FIRST else len(FASTEST_FIRST)
            return True, emulated, 0, at
        return False, emulated, 0 if at == len(known) else 1 if rung.tunes else 2, at if rung.tunes else -at

    return sorted(rungs, key=place)
