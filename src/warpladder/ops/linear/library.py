"""Linear layer as three products of cuBLASLt; the bias is added as y is written."""

from ...device import Device
from ...device.gpu.cublas import CublasProduct, cublas
from ...device.gpu.library import LibraryPlan
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches
from ..engine.library_op import PlannedOp
from ..engine.segments import Operands
from ..sums.cuda import ColumnSums


class LibraryLinear(PlannedOp):
    """Linear layer by cuBLASLt: y = x w' + b; dw = dy' x; dx = dy w. The project's kernels sum db.

    Shapes: x (n, in), y (n, out), w (out, in).
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        buffers = operands.buffers
        if buffers.dy is not None:
            self.bias_sums = ColumnSums(device, len(buffers.x), buffers.y.shape[1], block_size)
            self.workspace += self.bias_sums.workspace

    def plan(self, name: str, n: int, workspace: int) -> LibraryPlan:
        t, library = self.buffers, cublas(self.device)
        inputs, outputs = t.x.shape[1], t.y.shape[1]
        if name == "y":
            shape = n, outputs, inputs
            return CublasProduct(library, name, t.x, t.w, t.y, *shape, turn_b=True, bias=t.b, workspace=workspace)
        if name == "dw":
            return CublasProduct(library, name, t.dy, t.x, t.dw, outputs, inputs, n, turn_a=True, workspace=workspace)
        return CublasProduct(library, name, t.dy, t.w, t.dx, n, inputs, outputs, workspace=workspace)

    def forward(self, part: Slice) -> Launches:
        return [self.call("y", part.n)]

    def backward(self, part: Slice) -> Launches:
        t, n = self.buffers, part.n
        found = [self.call("dw", n), *self.bias_sums.launches(t.dy, n, t.db)]
        return found if t.dx is None else [*found, self.call("dx", n)]
