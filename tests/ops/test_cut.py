"""How a table cuts a chain into segments: the cheapest way, what it never does, and what it says where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from segments_here import boundaries

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Limits
from warpladder.errors import RungError
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, MaxPool2d, MSELoss, Net, ReLU, Upsample2d
from warpladder.ops.engine.chain import Gather, Slice, Subgraph, chain
from warpladder.ops.engine.kernels import Launches
from warpladder.ops.engine.segments import KernelTable, Segment
from warpladder.ops.tables import gemm, library, naive, resident, tiled
from warpladder.ops.tables import graph as graphed
from warpladder.ops.thin_chain.chain import ThinChain
from warpladder.rungs.library import OPERATIONS

LARGE = Limits("a large GPU", multiprocessors=132)


class Costing(Segment):
    """Computes nothing."""

    def forward(self, part: Slice) -> Launches:
        return []


class Costly(Costing):
    """As dear as three others."""

    cost = 9


def nodes_of(net: Net, batch: int = 64, gathers: bool = True) -> Subgraph:
    return chain(net, batch, batch, LARGE, TrainConfig(batch_size=batch), gathers)


def cut(table: KernelTable, nodes: Subgraph) -> list[str]:
    """The types of each segment's nodes, or nothing."""
    return ["+".join(type(node).__name__ for node in part.nodes) for part, _ in table.cut(nodes) or []]


def having(*keys: tuple[type, ...], dear: tuple[type, ...] = ()) -> KernelTable:
    """A table of segments for these nodes alone; the dear one costs as much as three."""
    return replace(naive.TABLE, segments={key: Costly if key == dear else Costing for key in keys})


def test_several_layers_in_one_segment_are_cheaper_than_in_several() -> None:
    table = replace(
        naive.TABLE, segments={**naive.TABLE.segments, (Conv2d, ReLU): Costing, (Conv2d, ReLU, MaxPool2d): Costing}
    )
    found = table.cut(nodes_of(nets.cnn()))
    assert found is not None
    assert [(part.numbers, kind) for part, kind in found[1:-1]] == [
        ((0, 1), Costing), ((2, 3, 4), Costing), ((6,), naive.TABLE.segments[Linear,]),
    ]  # fmt: skip
    assert [len(part.nodes) for part, _ in naive.TABLE.cut_net(nodes_of(nets.cnn()), nets.cnn())] == [1] * 8


#: How each rung's table cuts the layers of the five nets; Flatten computes nothing.
RUNS = [
    "Conv2d+ReLU",
    "MaxPool2d",
    "Conv2d+ReLU",
    "MaxPool2d",
    "Conv2d+ReLU",
    "Upsample2d",
    "Conv2d+ReLU",
    "Upsample2d",
    "Conv2d",
]
FOLDED = ["Conv2d+ReLU+MaxPool2d"] * 2 + ["Conv2d+ReLU", "Upsample2d+Conv2d+ReLU", "Upsample2d+Conv2d"]
FUSED = [
    ["Linear"], ["Linear+ReLU", "Linear"], ["Linear+ReLU", "Linear"], ["Conv2d+ReLU", "Conv2d+ReLU", "MaxPool2d", "Linear"], RUNS,
]  # fmt: skip
POOLED = [*FUSED[:3], ["Conv2d+ReLU", "Conv2d+ReLU+MaxPool2d", "Linear"], FOLDED]
ALONE = [
    [type(layer).__name__ for layer in make().layers if not isinstance(layer, Flatten)]
    for make in (nets.softmax, nets.mlp, nets.mlp10, nets.cnn, nets.autoencoder)
]
THEIRS = [
    ["Linear"],
    *(["Linear", "ReLU", "Linear"] for _ in range(2)),
    *FUSED[3:],
]  # cuDNN's convolutions take a ReLU along
TABLES = {
    "naive": (naive.TABLE, ALONE), "resident": (resident.TABLE, ALONE), "library": (library.table(OPERATIONS), THEIRS),
    "tiled": (tiled.TABLE, FUSED), "gemm": (gemm.TABLE, POOLED),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_the_layers_of_the_five_nets(name: str) -> None:
    table, wanted = TABLES[name]
    for make, runs in zip((nets.softmax, nets.mlp, nets.mlp10, nets.cnn, nets.autoencoder), wanted, strict=True):
        net = make()
        loss = type(net.loss).__name__
        assert cut(table, nodes_of(net)) == ["Gather", *runs, loss]
        assert cut(table, nodes_of(net, gathers=False)) == [*runs, loss]
        assert cut(table, chain(net, 64, 64, LARGE, None, gathers=False)) == runs


@pytest.mark.parametrize(
    ("net", "batch", "resident", "fed"),
    [
        (nets.softmax(), 64, ["Gather+Linear+CrossEntropyLoss"], ["Linear+CrossEntropyLoss"]),
        (nets.mlp10(), 64, ["Gather+Linear+ReLU+Linear+CrossEntropyLoss"], ["Linear+ReLU+Linear+CrossEntropyLoss"]),
        (nets.mlp(), 64, ["Gather+Linear+ReLU", "Linear+CrossEntropyLoss"], ["Linear+ReLU", "Linear+CrossEntropyLoss"]),
        (
            nets.mlp(),
            5000,
            ["Gather", "Linear+ReLU", "Linear+CrossEntropyLoss"],
            ["Linear+ReLU", "Linear+CrossEntropyLoss"],
        ),
        (
            nets.cnn(),
            64,
            ["Gather", *POOLED[3][:-1], "Linear+CrossEntropyLoss"],
            [*POOLED[3][:-1], "Linear+CrossEntropyLoss"],
        ),
        (nets.autoencoder(), 64, ["Gather", *FOLDED, "MSELoss"], [*FOLDED, "MSELoss"]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_graph_rung_gathers_with_the_first_layer_and_ends_with_the_loss(
    net: Net, batch: int, resident: list[str], fed: list[str]
) -> None:
    assert cut(graphed.TABLE, nodes_of(net, batch)) == resident
    assert cut(graphed.TABLE, nodes_of(net, batch, gathers=False)) == fed


def test_a_lone_layer_is_left_to_its_loss() -> None:
    """The stem of one layer and the loss alone take more launches than the gathering alone and the head."""
    alone = {key: kind for key, kind in graphed.TABLE.segments.items() if kind is not ThinChain}
    table = replace(graphed.TABLE, segments=alone, chains=())
    assert cut(table, nodes_of(nets.softmax())) == ["Gather", "Linear+CrossEntropyLoss"]
    assert cut(table, nodes_of(nets.mlp10())) == ["Gather+Linear+ReLU", "Linear+CrossEntropyLoss"]
    assert cut(table, nodes_of(nets.softmax(classes=17))) == [
        "Gather+Linear",
        "CrossEntropyLoss",
    ]  # too many outputs for a head


def test_a_node_that_nothing_takes_is_named() -> None:
    kept = Gather, Linear, ReLU, CrossEntropyLoss
    few: dict[tuple[type, ...], type[Segment]] = {(kind,): naive.TABLE.segments[kind,] for kind in kept}
    table, cnn = replace(naive.TABLE, segments=few), nets.cnn()
    with pytest.raises(RungError, match=r"nothing for Conv2d \(layer 0 of net 'cnn'\)"):
        table.cut_net(nodes_of(cnn), cnn)
    images = replace(table, segments={**few, (Conv2d,): naive.TABLE.segments[Conv2d,]})
    with pytest.raises(RungError, match=r"nothing for MaxPool2d \(layer 4 of net 'cnn'\)"):
        images.cut_net(nodes_of(cnn), cnn)
    for missing, said in ((Gather, "Gather"), (CrossEntropyLoss, "CrossEntropyLoss")):
        without = replace(table, segments={key: kind for key, kind in few.items() if key != (missing,)})
        with pytest.raises(RungError, match=rf"nothing for {said} \(net 'mlp'\)"):
            without.cut_net(nodes_of(nets.mlp()), nets.mlp())


def test_a_way_is_found_that_the_longest_first_segment_would_miss() -> None:
    """Conv2d + ReLU is there, but nothing for the pool alone."""
    net = Net("pooled", (1, 4, 4), (Conv2d(out_channels=4, kernel_size=1), ReLU(), MaxPool2d(2)), MSELoss())
    table = having((Conv2d, ReLU), (Conv2d,), (ReLU, MaxPool2d), (MSELoss,))
    assert cut(table, nodes_of(net, gathers=False)) == ["Conv2d", "ReLU+MaxPool2d", "MSELoss"]


FOLLOWED = Net(
    "followed", (1, 4, 4), (Upsample2d(scale_factor=1), Conv2d(out_channels=1, kernel_size=1), ReLU()), MSELoss()
)
PIECES = ((Upsample2d,), (Conv2d,), (ReLU,), (MSELoss,), (Upsample2d, Conv2d), (Conv2d, ReLU))


def test_of_equally_cheap_ways_that_with_the_longer_first_segments_is_taken() -> None:
    nodes = nodes_of(FOLLOWED, gathers=False)
    assert cut(having(*PIECES), nodes) == ["Upsample2d+Conv2d", "ReLU", "MSELoss"]
    assert cut(having(*reversed(PIECES)), nodes) == [
        "Upsample2d+Conv2d",
        "ReLU",
        "MSELoss",
    ]  # whatever stands first in the table
    everything = Upsample2d, Conv2d, ReLU
    assert cut(having(*PIECES, everything, dear=everything), nodes) == ["Upsample2d+Conv2d", "ReLU", "MSELoss"]


def test_cheaper_segments_win_over_longer_ones() -> None:
    nodes = nodes_of(FOLLOWED, gathers=False)
    assert cut(having(*PIECES, dear=(Upsample2d, Conv2d)), nodes) == ["Upsample2d", "Conv2d+ReLU", "MSELoss"]
    assert cut(having(*PIECES, (Upsample2d, Conv2d, ReLU)), nodes) == ["Upsample2d+Conv2d+ReLU", "MSELoss"]


FLAT_TABLE = having(
    (Gather,),
    (ReLU,),
    (Linear,),
    (ReLU, Linear),
    (Gather, ReLU, Linear),
    (CrossEntropyLoss,),
    (Linear, CrossEntropyLoss),
)


def test_a_flatten_that_changes_shapes_is_never_inside_a_segment() -> None:
    def of(*layers: Layer, in_shape: tuple[int, ...] = (1, 3, 3)) -> list[str]:
        return cut(FLAT_TABLE, nodes_of(Net("flattened", in_shape, layers, CrossEntropyLoss())))

    last = Linear(out_features=3)
    assert of(ReLU(), Flatten(), last) == ["Gather", "ReLU", "Linear+CrossEntropyLoss"]
    assert of(Flatten(), ReLU(), last) == ["Gather+ReLU+Linear", "CrossEntropyLoss"]
    assert of(ReLU(), Flatten(), last, in_shape=(9,)) == [
        "Gather+ReLU+Linear",
        "CrossEntropyLoss",
    ]  # it does nothing there


def test_a_flatten_counts_among_the_layers_of_the_segment_around_it() -> None:
    net = Net("flat", (9,), (Flatten(), ReLU(), Flatten(), Linear(out_features=3)), CrossEntropyLoss())
    found = FLAT_TABLE.cut(nodes_of(net, gathers=False))
    assert found is not None
    assert [(part.numbers, part.layers_at) for part, _ in found] == [((1, 3), range(1, 4)), ((None,), range(0))]


def test_what_a_segment_refuses_is_computed_by_others() -> None:
    """A pool that is not 2 x 2 does not go with its convolution, and more outputs than registers hold do not go with
    their loss.
    """
    from warpladder.device.emulator import EmulatedDevice

    net = Net(
        "refused", (1, 9, 9), (Conv2d(out_channels=3, kernel_size=3), ReLU(), MaxPool2d(3), Flatten(), Linear(out_features=17)), CrossEntropyLoss()
    )  # fmt: skip
    found = boundaries(net, replace(graphed.TABLE, chains=()), EmulatedDevice())
    assert [len(part.nodes) for part, _ in found.cut] == [1, 2, 1, 1, 1]
