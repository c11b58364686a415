"""Ops of a vendor's library: plans that share one workspace, made once for each number of samples."""

from abc import abstractmethod

import numpy as np

from ...device import Call, Device
from ...device.gpu.library import MOST_WORKSPACE, LibraryCall, LibraryPlan
from .chain import Subgraph
from .segments import Operands, Segment


class PlannedOp(Segment):
    """Segment whose matrix products are plans of a library; the workspace is what a full batch's plans need."""

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers = operands.buffers
        capacity = len(buffers.x)
        wanted = {"y": True, "dw": buffers.dy is not None, "dx": buffers.dx is not None}
        plans = {name: self.plan(name, capacity, MOST_WORKSPACE) for name, needed in wanted.items() if needed}
        self.most = max(plan.workspace for plan in plans.values())
        self.held = self.scratch((self.most,), np.uint8) if self.most else None
        self.calls = {(name, capacity): self._call(plan) for name, plan in plans.items()}

    @abstractmethod
    def plan(self, name: str, n: int, workspace: int) -> LibraryPlan:
        """Plan that computes "y", "dw" or "dx" of n samples with at most `workspace` bytes of workspace."""

    def call(self, name: str, n: int) -> Call:
        """Call that computes "y", "dw" or "dx" of n samples."""
        if (name, n) not in self.calls:
            self.calls[name, n] = self._call(self.plan(name, n, self.most))
        return self.calls[name, n]

    def _call(self, plan: LibraryPlan) -> LibraryCall:
        return LibraryCall(self.device, plan, self.held)
