"""The witness: plain float32 array code, which says whether a step is fit to judge by.

A sum whose terms cancel has a large relative error whoever computes it, and no bound is widened for
that. Where the witness itself comes near a bound, other samples are drawn. It only chooses: what it gets
wrong it gets wrong on every draw, and then there is no proof at all.
"""

from __future__ import annotations

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..nets import Net
from ..ops.array import TABLE
from ..order import Order
from ..params import views
from ..trainers.base import State
from ..trainers.layerwise import LayerwiseTrainer
from .bounds import loss_bound, output_bound, update_bounds
from .verdict import distance

RESERVE = 3.0  # times the witness's error must fit into each bound

#: At rate 0 and from zero velocity, the velocity after one step is the gradient.
SETTINGS = TrainConfig(batch_size=None, learning_rate=0.0, momentum=0.5, shuffle=False)


def fit(net: Net, dataset: Dataset, params: np.ndarray, loss: float, gradient: np.ndarray) -> bool:
    """Whether float32 comes well within the bounds on this batch, a whole data set, with truth (loss, gradient)."""
    n = len(dataset.train_x)
    trainer = _witness(net, params)
    trainer.load(dataset)
    log = trainer.run(Order(0, 0, n, shuffle=False), 0, 1)
    found, wanted = views(net, trainer.state().velocity), views(net, gradient)
    close = distance(log.loss, np.array([loss])) * RESERVE <= loss_bound(net, n)
    return close and all(distance(found[name], wanted[name]) * RESERVE <= limit for name, limit in update_bounds(net, n).items())


def fit_to_predict(net: Net, x: np.ndarray, scale: float, params: np.ndarray, truth: np.ndarray) -> bool:
    """Whether float32 comes well within the bound on every one of these samples, whose outputs are `truth`."""
    size = np.full(truth.shape, np.sqrt(np.mean(truth**2)))
    return distance(_witness(net, params).predict(x, scale), truth, size) * RESERVE <= output_bound(net)


def _witness(net: Net, params: np.ndarray) -> LayerwiseTrainer:
    return LayerwiseTrainer(net, SETTINGS, State(params, np.zeros_like(params)), TABLE)
