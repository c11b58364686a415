"""Choice of the algorithm of a convolution on tensor cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from warpladder.nets import Conv2d, MaxPool2d, Net, ReLU, Upsample2d, autoencoder, cnn
from warpladder.ops.conv2d.tensor import dispatch
from warpladder.ops.conv2d.tensor.algorithm import ConvProblem
from warpladder.ops.engine.chain import chain


def test_the_docstring_has_the_decision_table() -> None:
    assert dispatch.__doc__ is not None and dispatch.decision_table() in dispatch.__doc__


def problems(net: Net, batch: int, precision: str) -> dict[str, ConvProblem]:
    """The convolutions of a net, with the layers fused with them, by what the table calls them."""
    nodes, found = chain(net, batch, batch, dispatch.HOPPER, None, False, precision), {}
    for place, layer in enumerate(nodes.nodes):
        if isinstance(layer, Conv2d):
            first = place - (place > 0 and isinstance(nodes.nodes[place - 1], Upsample2d))
            last = place + 1
            while last < len(nodes.nodes) and isinstance(nodes.nodes[last], ReLU | MaxPool2d):
                last += 1
            made = ConvProblem.of(nodes.part(first, last), batch, has_dx=place > 0)
            found[f"{net.name}, layer {nodes.numbers[place]}"] = replace(made, has_wgmma=True)
    return found


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
@pytest.mark.parametrize("net", [cnn(), autoencoder()], ids=lambda net: net.name)
def test_the_table_has_the_convolutions_of_the_ladders_nets(net: Net, precision: str) -> None:
    for batch in dispatch.BATCHES:
        for name, problem in problems(net, batch, precision).items():
            assert problem.conv == dispatch.CASES[name]
            slight = name.endswith("layer 0")
            assert problem == ConvProblem(
                dispatch.CASES[name], precision, batch, dispatch.HOPPER, True, True, not slight, slight
            )
