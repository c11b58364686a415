"""`fastest`: the rung that should train a net in the shortest time on this machine, with its start and compilation.

The estimate depends on the net, the batch, the amount of work and the machine, but on no clock and no cache: the same
run takes the same rung again, and so repeats its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import ladder
from ..config import TrainConfig
from ..machine.cores import cores
from ..nets import Conv2d, Net

AUTO = "auto"


@dataclass(frozen=True)
class Cost:
    """Measured costs of a rung in seconds: its start without compiled code, a step, a FLOP, the update of a parameter,
    and a FLOP of a net with convolutions. docs/notes/auto.md has the measurements.
    """

    rung: str
    start: float
    step: float
    flop: float
    parameter: float
    convolution: float = 0.0

    def seconds(self, net: Net, steps: int, samples: int) -> float:
        """Estimated seconds of `steps` steps over `samples` samples in total."""
        flop = self.convolution if any(isinstance(layer, Conv2d) for layer in net.layers) else self.flop
        return self.start + steps * (self.step + self.parameter * net.param_count) + samples * net.train_flops * flop


def costs() -> tuple[Cost, ...]:
    """Costs of the rungs from which `fastest` chooses."""
    return (
        Cost("numpy", 0.03, 3e-4, 1.1e-11, 5e-9, 5e-11),
        Cost("native", 10.0, 3e-5, 6.5e-12 / cores(), 0.0, 1.3e-11 / cores()),
        Cost("graph", 4.0, 3e-5, 4e-13, 0.0, 4e-13),
    )


def fastest(
    net: Net, config: TrainConfig, samples: int, epochs: int | None = None, others: Sequence[Cost] = ()
) -> tuple[str, str]:
    """Name of the rung with the smallest estimated time, and the reason in one line.

    epochs : epochs of the run; by default `config.epochs`.
    others : costs of further programs to choose from, which can train this net.
    """
    epochs = config.epochs if epochs is None else epochs
    steps = epochs * config.steps(samples)
    rungs = {rung.name: rung for rung in ladder.LADDER}
    ours = [each for each in costs() if each.rung in rungs and rungs[each.rung].unsupported(net, config) is None]
    found = [(cost.seconds(net, steps, epochs * samples), cost.rung) for cost in (*ours, *others)]
    if not found:
        return "numpy", "no other rung can train this net here"
    (seconds, rung), *slower = sorted(found)
    rest = "".join(f"; {name} {_about(time)}" for time, name in slower)
    return rung, f"{_about(seconds)} by estimate, cold start included{rest}"


def _about(seconds: float) -> str:
    return "below 0.1 s" if seconds < 0.1 else f"about {seconds:.1g} s" if seconds < 10 else f"about {seconds:,.0f} s"
