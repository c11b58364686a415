"""Widths of hidden layers: perceptrons by their widths, and nets with other widths."""

import pytest

import warpladder as wl
from warpladder.errors import NetError
from warpladder.nets import hidden_widths, with_hidden

MIXED = wl.Net(
    "mixed",
    (1, 8, 8),
    (
        wl.Conv2d(out_channels=2, kernel_size=3), wl.ReLU(), wl.Flatten(), wl.Linear(out_features=9), wl.ReLU(),
        wl.Linear(out_features=7), wl.ReLU(), wl.Linear(out_features=3),
    ),
    wl.CrossEntropyLoss(),
)  # fmt: skip


def outputs(net):
    return [layer.out_features for layer in net.layers if isinstance(layer, wl.Linear)]


@pytest.mark.parametrize("widths", [(5,), (512, 256), (3, 3, 3, 3, 3, 3)])
def test_a_perceptron_has_the_widths_that_are_given(widths):
    net = wl.nets.mlp((1, 4, 5), 6, hidden=widths)
    assert outputs(net) == [*widths, 6] and hidden_widths(net) == widths
    kinds = [type(layer).__name__ for layer in net.layers]
    assert kinds == ["Flatten", *["Linear", "ReLU"] * len(widths), "Linear"]
    assert with_hidden(wl.nets.mlp((1, 4, 5), 6), widths) == net
    assert with_hidden(net, 256 if len(widths) == 1 else (256,) * len(widths)).layers != net.layers


def test_names_show_widths_where_they_are_not_the_nets_own():
    assert wl.nets.mlp(hidden=(256,)) == wl.nets.mlp() and wl.nets.mlp(hidden=[512, 256]).name == "mlp-512-256"
    assert with_hidden(wl.nets.mlp10(), 8).name == "mlp10-8" and with_hidden(wl.nets.mlp10(), 10) == wl.nets.mlp10()
    assert wl.nets.mlp(hidden=range(1, 8)).name == "mlp-1-2-3-4-and-3"


def test_other_nets_get_one_width_for_all_hidden_layers_or_one_for_each():
    assert outputs(with_hidden(MIXED, 4)) == [4, 4, 3] and outputs(with_hidden(MIXED, (4, 5))) == [4, 5, 3]
    assert with_hidden(MIXED, (4, 5)).layers[:3] == MIXED.layers[:3]
    with pytest.raises(NetError, match="has 2 hidden Linear layers, and 3 widths are given"):
        with_hidden(MIXED, (4, 5, 6))


@pytest.mark.parametrize("net", [wl.nets.softmax(), wl.nets.cnn(), wl.nets.autoencoder()], ids=lambda net: net.name)
def test_a_net_without_hidden_linear_layers_has_no_widths(net):
    with pytest.raises(NetError, match=f"net '{net.name}' has no hidden Linear layer whose width could be set"):
        with_hidden(net, (8, 8))


@pytest.mark.parametrize("widths", [0, -1, (8, 0), ("8",), (2.5,)])
def test_widths_are_whole_numbers_of_at_least_1(widths):
    with pytest.raises(NetError, match=r"out_features=.*wants a whole number of at least 1"):
        with_hidden(wl.nets.mlp(), widths)
    with pytest.raises(NetError, match="wants a width for each hidden layer"):
        with_hidden(wl.nets.mlp(), ())


@pytest.mark.parametrize("widths", ["512,256", None, {512: 256}, 2.5])
def test_widths_that_are_no_numbers_are_named(widths):
    for make in (lambda: wl.nets.mlp(hidden=widths), lambda: with_hidden(wl.nets.mlp(), widths)):
        with pytest.raises(NetError, match=r"hidden wants the width of each hidden layer, as \(512, 256\), got"):
            make()
    assert wl.nets.mlp(hidden=512) == wl.nets.mlp(hidden=(512,))
