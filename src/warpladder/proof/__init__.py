"""Proof of a trainer: its steps against the float64 reference, at identical states, tensor by tensor.

It may import trainers/, ops/ and all that these may import. Begin with `verify`: cases.py has the data and states,
prove.py the checks, verdict.py the result; docs/verify.md states what is checked and why.
"""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import replace
from functools import cache

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..errors import ArgumentError
from ..errors.arguments import called_by_name, kind_of, shown, wanted
from ..machine.precision import Precision, named
from ..nets import Net
from ..trainers.base import check_fit
from .case_maker import NoReferenceStep
from .cases import Cases, one_thread
from .context import Build, ProofContext
from .own.finite_differences import contradiction
from .prove import REQUIRED, prove
from .verdict import Ledger, Refuted, Verdict, VerdictRow, cannot_judge, conclude

__all__ = ["Shared", "Verdict", "VerdictRow", "verify"]

#: Environment variable with the seed of proofs.
SEED = "WARPLADDER_PROOF_SEED"

#: Cases of proofs of one net on one data set, by settings, seed, precision and whether convolutions are transformed.
Shared = dict[tuple[TrainConfig, int, Precision, bool], Cases]


@called_by_name
def verify(
    build: Build, net: Net, config: TrainConfig, *,
    seed: int | None = None, dataset: Dataset | None = None, bitwise: bool = True, precision: str = "fp32",
    sums: str = "fp32", transforms: bool = False, shared: Shared | None = None, reach: int | None = None,
) -> Verdict:  # fmt: skip
    """Prove that the trainer of `build` trains this net with these settings, or report where it does not.

    Parameters
    ----------
    build : callable
        From (net, config, state) to a `Trainer`, also at other learning rates, clip values, weight decays and eps.
    net, config : Net, TrainConfig
    seed : int or None
        Seed of states, samples, orders, and the number of each. None for the seed of all proofs of this process:
        WARPLADDER_PROOF_SEED if it is set, else a random number drawn when the process began.
        The verdict has it.
    dataset : Dataset or None
        Training data: one case has as many samples, and some cases use its samples.
    bitwise : bool
        True if the trainer must repeat itself bit for bit; False if a repetition need only be within the bounds.
    precision : {"fp64", "fp32", "tf32", "bf16", "fp16"}
        Precision of the trainer's products, a `Rung`'s `precision`, from which the bounds follow. State and outputs
        are float64 for fp64, else float32. The reference always computes in float64.
    sums : {"fp32", "fp64"}
        Precision of the sums of the gradients of a batch's samples, a `Rung`'s `sums`.
    transforms : bool
        True if the trainer may compute convolutions by Winograd's or Fourier's algorithm, a `Rung`'s `transforms`.
        Sums on a grid are then not exact: data away from kinks replace grid data.
    shared : dict or None
        Cases of earlier proofs of this net on this data set; this proof's are added if it passes.
    reach : int or None
        Steps of a long call; None for as many as the trainer makes in a small share of the proof's seconds. The
        verdict has the number, so that the proof can be repeated.

    Returns
    -------
    Verdict
        Every outcome, exceptions of the trainer included. `judged` is False if the net has no step that can judge a
        trainer.

    Raises
    ------
    ArgumentError, ValueError
        An argument has another type, or precision or sums are unknown.
    RungError, DataError
        `build` cannot train this net here, or the net cannot be trained on `dataset`.
    """
    began = time.perf_counter()
    _check_arguments(build, net, config, dataset)
    seed = run_seed() if seed is None else seed
    kind = named(precision).summing(sums)
    if fault := contradiction(net, seed):
        return cannot_judge(fault, time.perf_counter() - began)
    key = config, seed, kind, transforms
    cases = None if shared is None else shared.pop(key, None)
    try:
        if cases is None:
            with one_thread():
                cases = Cases(net, config, np.random.default_rng(seed), dataset, kind, transforms)
    except NoReferenceStep as error:
        return cannot_judge(str(error), time.perf_counter() - began)
    context = ProofContext(build, net, config, cases, np.random.default_rng([seed, 1]), bitwise, Ledger(), reach or 0)
    verdict = _judge(context, began)
    verdict = replace(verdict, seed=seed, reason=f"{verdict.reason} (seed {seed}, reach {verdict.reach})")
    if shared is not None and verdict.passed:
        shared[key] = cases
    return verdict


@cache
def run_seed() -> int:
    """Seed of this process's proofs: WARPLADDER_PROOF_SEED, or a random number."""
    given = os.environ.get(SEED, "")
    if not given:
        return secrets.randbelow(2**31)
    if not (given.isascii() and given.isdigit() and int(given) < 2**63):
        raise ArgumentError(f"{SEED} wants a whole number of at least 0, got {shown(given)}")
    return int(given)


def _check_arguments(build: object, net: object, config: object, dataset: object) -> None:
    """Raise an error for an argument of another type, or for data on which the net cannot be trained."""
    if not callable(build):
        raise ArgumentError(f"build wants what makes a trainer, got {kind_of(build)}: give wl.ladder.find(name).build")
    wanted("net", net, Net, "a Net")
    wanted("config", config, TrainConfig, "a TrainConfig")
    if dataset is not None:
        wanted("dataset", dataset, Dataset, "a Dataset")
        check_fit(net, dataset)  # type: ignore[arg-type]


def _judge(context: ProofContext, began: float) -> Verdict:
    """Verdict of a proof, whose trainers it closes."""
    refuted: Refuted | None = None
    try:
        try:
            with np.errstate(all="ignore"):  # some cases hold huge numbers, NaN and infinity
                prove(context)
        finally:
            context.close()
    except Refuted as error:
        refuted = error
    required = REQUIRED if context.config.loss_every == 1 else (*REQUIRED, "no loss")
    verdict = conclude(context.ledger, required, refuted, time.perf_counter() - began)
    return replace(verdict, reach=context.reach)
