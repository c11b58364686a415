"""Base of segments that are linear layers, functions of one number and a loss, and update their parameters."""

from __future__ import annotations

import numpy as np

from ...device import Array
from ...optimizers.base import NUMBERS
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Log
from ..engine.segments import Segment
from ..loss import scalar
from ..update.cuda import limit
from ..update.rule import rule_name
from .links import Links


class ChainSegment(Segment):
    """Base of segments whose second launch finishes all gradients, and makes any optimizer's step that has a rule.

    setting : the loss's number for each output, or None. row : the optimizer's settings at the running step, which the
    first launch copies, if each step has its own: the second one counts the step.
    """

    cost = 2
    updates_all_biases = False
    links: Links
    log: Log

    def bind_settings(self, found: Links) -> None:
        """Set links, log, setting and row."""
        log, config = self.operands.log, None if self.update is None else self.update.config
        assert log is not None and (self.update is None or self.operands.numbers is not None)
        self.links, self.log = found, log
        numbers = scalar.settings(found.loss, found.outputs).astype(np.float32)
        self.setting = self.device.array(numbers, "workspace") if found.has_settings else None
        self.workspace += numbers.nbytes if found.has_settings else 0
        self.optimizer = None if config is None else config.optimizer
        self.row = None if config is None or config.steady else self.scratch((1, NUMBERS))

    @classmethod
    def updates_in_place(cls, subgraph: Subgraph) -> bool:
        config = subgraph.config
        return config is not None and config.clip_norm is None and rule_name(config.optimizer) is not None

    def step(self, part: Slice) -> tuple[object, ...]:
        """Arguments of the optimizer's step; none if the slice is not the whole batch."""
        update, row = self.update, self.operands.numbers if self.row is None else self.row
        if update is None:
            return ()
        slots = (*update.slots, None, None)[:2]
        params = update.params if part.is_whole else None
        return update.grads, params, *slots, limit(update.config), row

    def trained(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Arrays of the layers' weights and biases without those of biases that are not there."""
        has = [each for has_bias in self.links.has_bias[1:] for each in (True, has_bias)]
        return tuple(array for array, there in zip(arrays, has, strict=True) if there)
