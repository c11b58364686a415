"""The rungs and peers of a climb that names none, and the order in which a first look begins them."""

from __future__ import annotations

from collections.abc import Iterable

from ..config import TrainConfig
from ..errors import RungError
from ..errors.arguments import shown
from ..ladder import LADDER, PEERS, find, is_peer, outside
from ..nets import Net
from ..rungs.base import Rung

#: Choices of the peers that a climb times: of each the strongest variant here, none, or every variant of
#: `ladder.PEERS`.
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

#: Variants that take most of a minute to compile: a first look times the next one.
SLOW_TO_START = ("torch:device=cuda:mode=compile",)


def contenders(net: Net, config: TrainConfig, peers: str = "best", quick: bool = False) -> list[Rung]:
    """The whole ladder, from its first rung up, then peers.

    Parameters
    ----------
    net, config
        What is trained: a peer's variant counts only if it can train this here.
    peers : {"best", "none", "all"}
    quick : bool
        True leaves variants out that take long to start.
    """
    if peers not in PEER_CHOICES:
        raise RungError(f"peers wants {', '.join(PEER_CHOICES)}, got {shown(peers)}")
    if peers == "all":
        return [*LADDER, *PEERS]
    variants = [find(name) for name in FASTEST_FIRST if not (quick and name in SLOW_TO_START)]
    kinds = dict.fromkeys(peer.base for peer in PEERS) if peers == "best" else {}
    return [*LADDER, *(_strongest([each for each in variants if each.base is kind], net, config) for kind in kinds)]


def _strongest(variants: list[Rung], net: Net, config: TrainConfig) -> Rung:
    """The first variant that can train here; the last where none can, so that a climb lists its reason."""
    return next((each for each in variants if _can_train(each, net, config)), variants[-1])


def _can_train(rung: Rung, net: Net, config: TrainConfig) -> bool:
    try:
        return rung.unsupported(net, config) is None
    except Exception:  # a broken package: the climb lists the peer with this error
        return False


def from_the_fastest(rungs: Iterable[Rung]) -> list[Rung]:
    """Rungs from outside, the ladder from its top down, emulated rungs, and peers from the fastest down."""

    def place(rung: Rung) -> tuple[bool, bool, int]:
        emulated = rung.options.chosen().get("device") == "emulated"
        known = [known.name for known in LADDER]
        at = len(known) if outside(rung) or rung.base.name not in known else known.index(rung.base.name)
        if is_peer(rung):
            return True, emulated, FASTEST_FIRST.index(rung.name) if rung.name in FASTEST_FIRST else len(FASTEST_FIRST)
        return False, emulated, -at

    return sorted(rungs, key=place)
