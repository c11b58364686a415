"""The proof of a trainer: its steps against the float64 reference, at identical states, tensor by tensor.

`verify` takes whatever builds a trainer, ours or a peer's, and never a name. docs/verify.md says
what is checked and why.
"""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..errors import ArgumentError
from ..errors.arguments import kind_of, wanted
from ..machine.precision import Precision, named
from ..nets import Net
from ..trainers.base import check_fit
from .case_maker import NoSpecimen
from .cases import Cases
from .finite_differences import contradiction
from .guarded import Build
from .prove import REQUIRED, Proof
from .verdict import Ledger, Refuted, Row, Verdict, cannot_judge, conclude

__all__ = ["Row", "Shared", "Verdict", "verify"]

#: Cases of proofs of one net on one data set, by settings, seed, precision and whether convolutions are transformed.
Shared = dict[tuple[TrainConfig, int, Precision, bool], Cases]


def verify(
    build: Build, net: Net, config: TrainConfig, *,
    seed: int = 0, dataset: Dataset | None = None, bitwise: bool = True, precision: str = "fp32", sums: str = "fp32",
    transforms: bool = False, shared: Shared | None = None,
) -> Verdict:  # fmt: skip
    """Prove that what `build` makes trains this net with these settings, or say where it does not.

    Parameters
    ----------
    build : callable
        From (net, config, state) to a `Trainer`. It is called with these settings, and with settings
        that differ in learning rate, clip value, weight decay and eps alone, which make a fault visible.
    net : Net
    config : TrainConfig
        The settings to prove.
    seed : int
        Of states, samples and orders.
    dataset : Dataset or None
        What the trainer is going to train on. Samples are then taken from it, besides random ones, and one case has as
        many as it has.
    bitwise : bool
        Whether the trainer must repeat itself bit for bit; False for a peer that declares that it cannot: it is held to
        the bounds instead.
    precision : {"fp64", "fp32", "tf32", "bf16", "fp16"}
        What the trainer says that it computes products in: a `Rung`'s `precision`. The bounds are those of that format,
        and state and outputs want to be float64 for fp64, else float32. The reference computes in float64 always.
    sums : {"fp32", "fp64"}
        What it says that it adds the gradients of a batch's samples in: a `Rung`'s `sums`.
    transforms : bool
        Whether it may compute convolutions in Winograd's or Fourier's form: a `Rung`'s `transforms`. Data on which only
        direct sums are exact are then replaced by data that keep clear of every switch, where there are any.
    shared : dict or None
        What earlier proofs of this net on this data set were made with, and this one too where it is passed: making it
        takes long. After a proof that is not passed it is forgotten, because a trainer may have written into it.

    Returns
    -------
    Verdict
        Whatever the trainer does, exceptions included, ends in a verdict. Where the net offers no step to judge by,
        `judged` is False.

    Raises
    ------
    ArgumentError
        An argument is of another type.
    ValueError
        For a precision or sums that are none of these.
    RungError
        From `build`, where it cannot train this net here.
    DataError
        Where the net cannot be trained on `dataset`.
    """
    began = time.perf_counter()
    if not callable(build):
        raise ArgumentError(f"build wants what makes a trainer, got {kind_of(build)}: give wl.ladder.find(name).build")
    wanted("net", net, Net, "a Net")
    wanted("config", config, TrainConfig, "a TrainConfig")
    if dataset is not None:
        wanted("dataset", dataset, Dataset, "a Dataset")
    kind = named(precision).summing(sums)
    if dataset is not None:
        check_fit(net, dataset)
    if told := contradiction(net, seed):
        return cannot_judge(told, time.perf_counter() - began)
    ledger = Ledger()
    refuted: Refuted | None = None
    key = config, seed, kind, transforms
    cases = None if shared is None else shared.pop(key, None)
    try:
        if cases is None:
            # the reference multiplies many small matrices: threads would only wait for each other
            with ThreadpoolController().limit(limits=1, user_api="blas"):
                cases = Cases(net, config, np.random.default_rng(seed), dataset, kind, transforms)
    except NoSpecimen as error:
        return cannot_judge(str(error), time.perf_counter() - began)
    try:
        # numbers of its own, so that a proof is the same whether its cases were made for it or not
        proof = Proof(build, net, config, cases, np.random.default_rng([seed, 1]), bitwise, ledger)
        try:
            proof.run()
        finally:
            proof.close()
    except Refuted as error:
        refuted = error
    required = REQUIRED if config.loss_every == 1 else (*REQUIRED, "no loss")
    verdict = conclude(ledger, required, refuted, time.perf_counter() - began)
    if shared is not None and verdict.passed:
        shared[key] = cases
    return verdict
