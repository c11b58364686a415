"""The witness: plain array code in the trainer's precision, which says whether a step is fit to judge by.

A sum whose terms cancel has a large relative error whoever computes it, and no bound is widened for
that. Where the witness itself comes near a bound, other samples are drawn. It only chooses: what it gets
wrong it gets wrong on every draw, and then there is no proof at all.
"""

from __future__ import annotations

import itertools

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..machine.precision import Precision, named
from ..nets import Net
from ..nets.params import views
from ..ops.tables.array import TABLE
from ..ops.tables.reference import with_references
from ..trainers.base import State
from ..trainers.layerwise import LayerwiseTrainer
from .bias_sums import Sums
from .bounds import loss_bound, output_bound, update_bounds
from .reference import ReferenceTrainer
from .reference_cases import Specimen, truth
from .verdict import distance

RESERVE = 3.0  # times the witness's error must fit into each bound
ALONE = 64  # samples that are tried alone, at most
SHARE = 0.8  # of those that have to fit alone: where fewer do, it was luck that these came so near
#: RESERVE of a coarser format than fp32: there nearly all of any program's error is the rounding of the same factors.
COARSE_RESERVE = 1.5
# SHARE of a coarser format, whose bound is a few roundings of one number: half of all samples do not fit alone
COARSE_SHARE = 0.25

#: At rate 0 and from a momentum of zero, the momentum after one step is the gradient.
SETTINGS = TrainConfig(batch_size=None, learning_rate=0.0, momentum=0.5, shuffle=False)


class Witness(LayerwiseTrainer):
    """Plain code in fp32, or in fp64, at these parameters, (param_count,); `sums` is told the terms of its gradients."""

    def __init__(
        self, net: Net, params: np.ndarray, precision: str | Precision = "fp32", sums: Sums | None = None
    ) -> None:
        kind = named(precision)
        super().__init__(
            net,
            SETTINGS,
            State(params),
            with_references(TABLE, net),
            dtype=kind.element,
            sums="float64" if kind.wide else None,
        )
        self.sums, self.passed = sums, 0

    def _pass(self, n: int, has_loss: bool) -> None:
        super()._pass(n, has_loss)
        assert self.batch is not None
        for layer in () if self.sums is None else self.sums.truth:
            dy = self.batch.gradients[layer + 1]
            assert self.sums is not None and dy is not None
            self.sums.meet(self.passed, layer, dy[:n])
        self.passed += n


def misfit(
    net: Net, dataset: Dataset, specimen: Specimen, precision: Precision, sums: Sums | None
) -> tuple[str, list[np.ndarray]]:
    """Where a format that is not coarse does not come well within the bounds on this batch, a whole data set, empty
    where it does; and the gradient found.

    sums : has been told the truth of the batch's terms; None where only the bound of the loss counts. Where these alone
    say that the batch is not fit,
        the witness, which takes longer, is not asked, and no gradient is found.
    """
    bounds = update_bounds(net, specimen.size, precision)
    if sums is not None and (beyond := sums.cancel(specimen.gradient, bounds, RESERVE)):
        return f"plain {precision.name} code itself: {beyond}", []
    trainer = Witness(net, specimen.state.params, precision, sums)
    trainer.load(dataset)
    log = trainer.run(Order(0, 0, len(dataset.train_x), shuffle=False), 0, 1)
    gradient = trainer.state().slots["momentum_buffer"]
    beyond = _beyond(net, specimen, float(log.loss[0]), gradient, RESERVE, precision, sums is not None)
    if sums is not None and not beyond:
        beyond = sums.unfit(specimen.gradient, bounds, RESERVE)
    return f"plain {precision.name} code itself: {beyond}" if beyond else "", [gradient]


def misfit_coarsely(
    net: Net,
    x: np.ndarray,
    y: np.ndarray,
    counts: np.ndarray,
    specimen: Specimen,
    precision: Precision,
    updates: bool = True,
) -> tuple[str, list[np.ndarray]]:
    """Where a format coarser than fp32 does not come well within the bounds, in words, and the gradient of each
    witness.

    Sample i of x (n, *in_shape), float64, occurs counts[i] times in the batch.
    """
    gradients = []
    for witness in _coarse(net, specimen.state.params, precision):
        loss, _, gradient = truth(witness, x, y, counts)
        if against := _beyond(net, specimen, loss, gradient, COARSE_RESERVE, precision, updates):
            return f"plain {precision.name} code itself: {against}", []
        gradients.append(gradient)
    return "", gradients


def unsteady(
    net: Net, config: TrainConfig, specimen: Specimen, gradients: list[np.ndarray], precision: Precision
) -> str:
    """Where the optimizer makes more of the witnesses' errors in the gradient than fits into the bounds, in words;
    empty where it does not.

    A sum of gradient, momentum and decay makes nothing of them; a gradient that is divided by its own size may turn its
    sign over them.
    """
    config = config.but(learning_rate=1.0)
    reserve = COARSE_RESERVE if precision.coarse else RESERVE
    limits = update_bounds(net, specimen.size, precision, config.optimizer.roundings)
    (after, slots), (change, scales) = specimen.after(config), specimen.sizes(config)
    wanted, scales = {"update": after, **slots}, {"update": change, **scales}
    for gradient in gradients:
        moved, held = specimen.after(config, gradient.astype(np.float64))
        for what, found in {"update": moved, **held}.items():
            off, sizes = views(net, found - wanted[what]), views(net, scales[what])
            for name, limit in limits.items():
                error = distance(off[name], np.zeros(off[name].shape), sizes[name])
                if not error * reserve <= limit:
                    return f"{what} of {name} is off by {error:.1e} for the gradient's rounding, more than 1/{reserve:g} of the bound of {limit:.1e}"
    return ""


def _beyond(
    net: Net, specimen: Specimen, loss: float, gradient: np.ndarray, reserve: float, precision: Precision, updates: bool
) -> str:
    """The first bound into which the witness's error does not fit `reserve` times, in words; empty where it fits into
    all.
    """
    found, wanted = views(net, gradient), views(net, specimen.gradient)
    errors = {
        "the loss": (distance(np.array([loss]), np.array([specimen.loss])), loss_bound(net, specimen.size, precision))
    }
    for name, limit in update_bounds(net, specimen.size, precision).items() if updates else ():
        errors[f"the gradient of {name}"] = (distance(found[name], wanted[name]), limit)
    for what, (error, limit) in errors.items():
        if not error * reserve <= limit:
            return f"{what} is off by {error:.1e}, more than 1/{reserve:g} of the bound of {limit:.1e}"
    return ""


def fit_to_predict(
    net: Net, x: np.ndarray, scale: float, params: np.ndarray, truth: np.ndarray, precision: Precision
) -> np.ndarray:
    """Which of the first samples of these, whose outputs are `truth`, are fit to be predicted alone; none where they
    are not fit together.

    Every witness has to come well within the bound, on all the samples and on each of those that are returned. One
    sample is judged number by number, of many the columns are.

    Returns
    -------
    ndarray
        (fit,) int64, at most ALONE numbers of samples.
    """
    size = np.full(truth.shape, np.sqrt(np.mean(truth**2)))
    limit = output_bound(net, precision)
    witnesses = _storing(net, params, precision) if precision.coarse else [Witness(net, params, precision)]
    reserve, share = (COARSE_RESERVE, COARSE_SHARE) if precision.coarse else (RESERVE, SHARE)
    outputs = [witness.predict(x, scale) for witness in witnesses]

    def fits(some: slice) -> bool:
        return all(distance(got[some], truth[some], size[some]) * reserve <= limit for got in outputs)

    tried = min(len(x), ALONE) if fits(slice(None)) else 0
    found = np.array([i for i in range(tried) if fits(slice(i, i + 1))], np.int64)
    return found if len(found) >= share * tried else found[:0]


def _storing(net: Net, params: np.ndarray, precision: Precision) -> list[ReferenceTrainer]:
    """Honest programs of a coarser format that predict: where it is stored, one for each choice of what is rounded
    there, since one alone may be lucky.
    """
    parts = ("bias", "product", "sum") if precision.stored else ()
    choices = itertools.chain.from_iterable(itertools.combinations(parts, count) for count in range(len(parts) + 1))
    return [ReferenceTrainer(net, SETTINGS, State(params), precision.name, stores) for stores in choices]


def _coarse(net: Net, params: np.ndarray, precision: Precision) -> list[ReferenceTrainer]:
    """Honest programs of a coarser format that train; where it is stored too, there are two kinds of them."""
    state, once, twice = State(params), ("bias", "sum"), ("bias", "product", "sum")
    return [
        ReferenceTrainer(net, SETTINGS, state, precision.name, stores)
        for stores in ((once, twice) if precision.stored else (once,))
    ]
