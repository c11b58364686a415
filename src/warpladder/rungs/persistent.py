"""Persistent rung: whole epochs in one launch."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import DEVICE, OneOf, Options, Whole, option
from .reasons import of_kernels


@dataclass(frozen=True)
class PersistentOptions(Options):
    """Options of the persistent rung.

    device : "emulated" runs the kernel on the CPU; None is the GPU.
    wait : "cluster", up to 16 blocks with fast waits; "grid", a block for each multiprocessor;
    "both", clusters that divide the batch, and all blocks for the weight gradients. None takes the fastest by
    estimate.
    cluster : blocks of a cluster with wait=both, which may be 1. None takes the fastest by estimate.
    weights : "global", each phase reads the weights from global memory; "shared", with wait=both each block reads its
    part of them into shared memory once a step, and stores activations in it; "registers", with wait=cluster the
    weights of one or two layers stay in registers, and tensor cores multiply, in two halves of 16 bits. None takes the
    fastest by estimate.
    exchange : "stored", blocks of a cluster store results in each other's shared memory and wait at the cluster's
    barrier; "sent", they send them to barriers there, and wait for their bytes. None takes the faster by measurement.
    multiply : "fma", phases with weights in global memory multiply and add in float32; "tensor", on tensor cores, each
    float as two numbers in tf32. None takes the fastest by estimate.
    blocks : blocks of the launch; None takes as many as possible.
    """

    device: str | None = option(*DEVICE)
    wait: str | None = option(
        OneOf(("cluster", "grid", "both")), "how blocks wait for each other; by an estimate if not given"
    )
    cluster: int | None = option(Whole(1, 16), "blocks of a cluster with wait=both; by an estimate if not given")
    weights: str | None = option(
        OneOf(("global", "shared", "registers")), "memory that phases read weights from; by an estimate if not given"
    )
    exchange: str | None = option(
        OneOf(("stored", "sent")), "how blocks of a cluster with weights=shared pass on results"
    )
    multiply: str | None = option(
        OneOf(("fma", "tensor")), "how phases multiply with weights=global; by an estimate if not given"
    )
    blocks: int | None = option(Whole(1, 1024), "blocks of the launch; as many as there can be if not given")


def build(net: Net, config: TrainConfig, state: State, options: PersistentOptions = PersistentOptions()) -> Trainer:
    from ..trainers.kernelwise.where import open_device
    from ..trainers.persistent.trainer import PersistentTrainer

    device = open_device(options.device)
    return PersistentTrainer(
        net, config, state, device, options.blocks, options.wait, options.cluster, options.weights, options.exchange,
        options.multiply,
    )  # fmt: skip


def unsupported(net: Net, config: TrainConfig, options: PersistentOptions = PersistentOptions()) -> str | None:
    """Reason why the persistent rung cannot train, such as a layer or loss without a phase; None if it can."""
    from ..trainers.persistent.plan import layers, why_not
    from ..trainers.persistent.registers.choice import why_not_registers

    if config.clip_norm is not None:
        return (
            "it updates each weight with its gradient, before the norm of all gradients is known: graph takes clip_norm"
        )
    if options.weights == "registers" and why_not(net) is None:
        chain = layers(net)
        assert not isinstance(chain, str)
        if reason := why_not_registers(net, chain, config.batch_size):
            return reason
    return why_not(net) or of_kernels(net, config, options) or _no_clusters(options)  # type: ignore[arg-type]


def _no_clusters(options: PersistentOptions) -> str | None:
    """Reason if the size of clusters is given for another wait, or the GPU has no clusters; None otherwise."""
    from ..trainers.kernelwise.where import peaks
    from ..trainers.persistent.plan import TENSOR_CAPABILITY

    if options.weights == "shared" and options.wait not in (None, "both"):
        return f"weights=shared is for clusters that divide the batch, and wait={options.wait} is not: leave wait out"
    if options.weights == "registers" and options.wait not in (None, "cluster"):
        return f"weights=registers is for one cluster, and wait={options.wait} is not: leave wait out"
    if options.weights == "registers" and options.exchange == "stored":
        return "blocks with weights=registers send their results: leave exchange out"
    if options.exchange == "sent" and options.weights not in ("shared", "registers"):
        return "exchange=sent is for weights in shared memory: give weights=shared as well"
    if options.multiply is not None and options.weights in ("shared", "registers"):
        return f"multiply={options.multiply} is for weights in global memory: leave weights={options.weights} out"
    if options.cluster is not None and options.wait != "both":
        return f"cluster={options.cluster} divides a batch with wait=both: give wait=both as well"
    gpu = peaks(options.device)
    old = gpu and options.multiply == "tensor" and gpu.precedes(TENSOR_CAPABILITY, "multiply=tensor needs")
    if old:
        return f"{old}: multiply=fma runs on this one"
    requested, instead = "wait=cluster", "wait=grid"
    if (options.cluster or 1) > 1:
        requested, instead = f"cluster={options.cluster}", "cluster=1"
    elif options.weights == "registers":
        requested, instead = "weights=registers", "weights=global"
    elif options.wait != "cluster":
        return None
    reason = None if gpu is None else gpu.precedes((9, 0), f"{requested} needs")
    return f"{reason}: {instead} runs on this one" if reason else None


RUNG = Rung(
    name="persistent",
    title="whole epochs in one launch",
    idea="One kernel, assembled for the net, trains whole epochs: blocks stay on the chip, divide each phase of a step "
    "among them, and wait for each other where others send the next launch.",
    build=build,
    unsupported=unsupported,
    options=PersistentOptions(),
    weighs_samples=False,
)
