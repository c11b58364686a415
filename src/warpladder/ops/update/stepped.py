"""Base of segments that make any optimizer's step where its formula is a struct in CUDA (`rule.rule_name`)."""

from __future__ import annotations

from ...device import Array
from ...optimizers import Optimizer
from ...optimizers.base import NUMBERS
from ..engine.chain import Slice, Subgraph
from ..engine.segments import Segment
from .cuda import limit
from .rule import rule_name


class StepsInPlace(Segment):
    """Base of segments whose last launch of the backward pass finishes all gradients, and makes the optimizer's step.

    optimizer : the optimizer whose step is made, or None if none is made here. row : (1, NUMBERS) float32, its numbers
    for the present step, if each step has its own: the forward launch copies them, since the loss counts the step.
    """

    updates_all_biases = False
    optimizer: Optimizer | None
    row: Array | None

    def bind_step(self) -> None:
        """Set optimizer and row."""
        config = None if self.update is None else self.update.config
        assert config is None or self.operands.numbers is not None
        self.optimizer = None if config is None else config.optimizer
        self.row = None if config is None or config.steady else self.scratch((1, NUMBERS))

    @classmethod
    def updates_in_place(cls, subgraph: Subgraph) -> bool:
        config = subgraph.config
        return config is not None and config.clip_norm is None and rule_name(config.optimizer) is not None

    def step(self, part: Slice) -> tuple[object, ...]:
        """Arguments of the optimizer's step; its parameters are None if the slice is not the whole batch."""
        update, row = self.update, self.operands.numbers if self.row is None else self.row
        if update is None:
            return ()
        slots = (*update.slots, None, None)[:2]
        return update.grads, update.params if part.is_whole else None, *slots, limit(update.config), row
