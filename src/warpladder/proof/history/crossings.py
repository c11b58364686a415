"""`Crossings`: kinks of a history's steps that rounding may cross, and the gradients on their other side.

If an input of a ReLU is closer to 0 than rounding reaches, one honest program passes its gradient on and another does
not. Samples of a history cannot be screened for this: its weights move, and with them the inputs. Logits of 10^5 are
off by tenths: next to a tie of two of them the probabilities of two honest programs differ, as at a kink.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...machine.precision import Precision
from ...nets import RESIDUAL_PARTS, BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, Net
from ...ops.loss import reference as losses
from ...ops.tables import reference as layers
from ..bounds import distance_bound, output_bound, probabilities, products, roundings
from ..places import Places
from ..reference import ReferenceTrainer

#: Least share of a tensor's update that a crossing changes for a twin of its own; the tolerance has a quarter of the
#: smallest update.
SEEN = 1 / 32
# reach of rounding in logits, and change of a probability, from which on twins are asked in each step
STEEP = 2.0**-10


def differ(reference: ReferenceTrainer, found: np.ndarray, true: np.ndarray, share: float = 1.0) -> bool:
    """True if a tensor of `found`, a gradient or an update (param_count,), differs from the true one by more than SEEN
    of it, times `share`.
    """
    off, sizes = (reference.norms(values) for values in (found - true, true))
    return any(off[name] > SEEN * share * sizes[name] for name in off)


class Crossings:
    """Kinks of a net in a precision, and how far rounding moves each layer's inputs in the present step.

    off : by number of a layer, root mean square of the difference of its inputs in a twin, the largest of all twins:
        those whose errors are the largest that honest steps may have, and the one that has crossed kinks already.
    """

    def __init__(self, net: Net, precision: Precision) -> None:
        self.net = net
        kinks = (
            i
            for i, layer in enumerate(net.layers)
            if i > net.first_trained and layers.switches(layer) and not layer.param_shapes(net.shapes[i])
        )
        self.limits = {i: distance_bound(precision, roundings(net, i), products(net, i, precision)) for i in kinks}
        self.last = len(net.layers)
        if isinstance(net.loss, L1Loss | CrossEntropyLoss | BCEWithLogitsLoss):
            self.limits[self.last] = output_bound(net, precision)
        self.off = dict.fromkeys(self.limits, 0.0)

    def measure(self, entering: Sequence[np.ndarray], of_twins: Sequence[Sequence[np.ndarray]]) -> None:
        """Note for each layer the root-mean-square distance of the farthest twin's inputs from the true ones.

        entering, of_twins : `activations` of the true trainer and of each twin, in the same step.
        """
        self.off = {
            i: max(float(np.sqrt(np.mean(np.square(twin[i] - entering[i])))) for twin in of_twins) for i in self.limits
        }

    def is_steep(self, out: np.ndarray) -> bool:
        """True if rounding reaches so far in logits (n, *out_shape) that probabilities change with it."""
        if isinstance(self.net.loss, CrossEntropyLoss | BCEWithLogitsLoss):
            return bool(self.limits[self.last] * np.abs(out).max() > STEEP)
        return False

    def gradient(
        self, reference: ReferenceTrainer, entering: list[np.ndarray], target: np.ndarray, shares: np.ndarray,
        places: Places | None,
    ) -> np.ndarray | None:  # fmt: skip
        """Gradient (param_count,) with all kinks crossed that rounding may cross; None if there are none.

        entering : `activations` of the samples. target, shares : of the samples.
        """
        crossed: dict[int, np.ndarray] = {}  # inputs of layers, moved, or after a moved one
        crosses = False
        for i in range(min(self.limits, default=len(entering)), len(entering)):
            before = crossed.get(i - 1)
            if before is not None and self._is_plain(i - 1):
                crossed[i] = reference.leaving(i - 1, before, places)
            moved = self._crossed(i, crossed.get(i, entering[i]), target) if i in self.limits else None
            if moved is not None:
                crossed[i], crosses = moved, True
        if not crosses:
            return None
        crossed = {i: a for i, a in crossed.items() if i in self.limits}
        out = crossed.get(self.last, entering[-1])
        d = losses.backward(self.net.loss, out, target, shares)
        return reference.pulled_back([crossed.get(i, a) for i, a in enumerate(entering)], d, places=places)

    def _is_plain(self, i: int) -> bool:
        """True for a layer by which a moved input changes the next kink's: a unit before a pool that is no longer 0."""
        layer = self.net.layers[i]
        return not layer.param_shapes(self.net.shapes[i]) and not isinstance(layer, RESIDUAL_PARTS)

    def _crossed(self, i: int, a: np.ndarray, target: np.ndarray) -> np.ndarray | None:
        """Inputs of layer `i`, or the outputs, moved towards their kinks by what rounding reaches; None if none gets
        across.
        """
        size = np.sqrt(np.mean(np.square(a), axis=tuple(range(1, a.ndim)), keepdims=True))
        reach = self.limits[i] * size + self.off[i]
        if i == self.last:
            moved = self._crossed_outputs(a, target, reach)
            return moved if np.any(moved != a) else None
        layer = self.net.layers[i]
        share = np.divide(reach, size, out=np.zeros(size.shape), where=size > 0)
        if np.all(layers.margin(layer, a) > share.ravel()):
            return None
        ones = np.ones((len(a), *self.net.shapes[i + 1]))
        slope = layers.backward(layer, a, None, ones)[0]
        # A ReLU has the larger slope for inputs above 0, a pool at the argmax.
        is_high = slope > (slope.max() + slope.min()) / 2
        moved = a + np.where(a == 0, 0.0, np.where(is_high, -reach, reach))
        crosses = layers.backward(layer, moved, None, ones)[0] != slope
        return moved if np.any(crosses) else None

    def _crossed_outputs(self, a: np.ndarray, target: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Outputs (n, *out_shape), moved by reach (n, 1, ...) towards their targets under L1Loss, or towards a tie
        where that changes a probability by more than STEEP.
        """
        if isinstance(self.net.loss, L1Loss):
            off = a - target
            return np.where(np.abs(off) < reach, target - off, a)
        if not np.any(reach > STEEP):
            return a
        if isinstance(self.net.loss, CrossEntropyLoss):
            moved = a + np.where(a == a.max(axis=1, keepdims=True), -reach, reach)
            change = np.abs(probabilities(moved) - probabilities(a)).max(axis=1, keepdims=True)
        else:
            moved = a - np.sign(a) * reach
            change = np.abs(losses.sigmoid(moved) - losses.sigmoid(a))
        return np.where(change > STEEP, moved, a)
