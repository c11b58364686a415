"""Library rung: products by cuBLASLt and cuDNN."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import BLOCK_SIZE, FEED, Options, SomeOf, YesNo, option
from .reasons import of_kernels

#: Operations that cuBLASLt and cuDNN can do.
OPERATIONS = ("linear", "conv2d", "cross_entropy")


@dataclass(frozen=True)
class LibraryOptions(Options):
    """Options of the library rung.

    feed, block_size : as in `KernelOptions`, for the project's own kernels.
    operations : operations among "linear", "conv2d" and "cross_entropy" by cuBLASLt and cuDNN; None is all of them.
    graph : True records the steps' calls in CUDA graphs, as the graph rung; None queues them one by one.
    """

    feed: str | None = option(*FEED)
    block_size: int | None = option(*BLOCK_SIZE)
    operations: tuple[str, ...] | None = option(
        SomeOf(OPERATIONS), "work of cuBLASLt and cuDNN; all of it if not given"
    )
    graph: bool | None = option(YesNo(), "whether CUDA graphs record the steps; one call after the other if not given")


def build(net: Net, config: TrainConfig, state: State, options: LibraryOptions = LibraryOptions()) -> Trainer:
    from ..ops.tables.library import table
    from ..trainers.graphed import GraphedTrainer
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    device, some = open_device(None), table(options.operations or OPERATIONS)
    if options.graph:
        return GraphedTrainer(net, config, state, device, some, options.block_size)
    return KernelTrainer(net, config, state, device, some, options.feed or "resident", options.block_size)


def unsupported(net: Net, config: TrainConfig, options: LibraryOptions = LibraryOptions()) -> str | None:
    """Reason why the library rung cannot train, such as a missing GPU or package; None if it can."""
    from ..ops.tables import library

    if options.graph and options.feed not in (None, "resident"):
        return f"a graph's steps are alike, with samples on the GPU: leave feed={options.feed} out, or graph=yes"
    return of_kernels(net, config) or library.why_not(options.operations or OPERATIONS)


def vary(rung: Rung, options: LibraryOptions) -> dict[str, str]:
    """Title and idea of the rung with these options, as fields of `Rung`."""
    if not options.graph:
        return {}
    return {
        "title": f"{rung.title}, in a CUDA graph",
        "idea": "The calls of cuBLASLt and cuDNN and the kernels between them, recorded for many steps and sent by one "
        "call: the GPU never waits for the host.",
    }


RUNG = Rung(
    name="library",
    title="cuBLAS and cuDNN",
    idea="The vendor's libraries: cuBLASLt multiplies matrices, cuDNN convolves and takes the softmax; "
    "each can be given back to the resident rung's kernels.",
    build=build,
    unsupported=unsupported,
    options=LibraryOptions(),
    vary=vary,
)
