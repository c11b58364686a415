"""Mean squared error as array expressions of NumPy or CuPy."""

from ..engine.base import LossOp, module_of


class ArrayMSE(LossOp):
    """Mean squared error: loss = mean of (x - target)^2 over n * size elements; dx = 2 (x - target) / (n * size)."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        dx = self.dx[:n]
        difference = module_of(dx).subtract(self.x[:n], self.target[:n].reshape(dx.shape), out=dx).reshape(-1)
        if has_loss:
            self.loss[0] = difference.dot(difference) / difference.size
            self.correct[0] = 0

    def backward(self, n: int) -> None:
        dx = self.dx[:n]
        dx *= dx.dtype.type(2 / dx.size)
