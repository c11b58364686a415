"""Networks as data: shapes, parameters, FLOPs, and chains that cannot work."""

import math

import pytest
from hypothesis import given, settings
from strategies import nets as drawn_nets

from warpladder import nets
from warpladder.errors import NetError
from warpladder.nets import (
    AdaptiveAvgPool2d,
    AvgPool2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Linear,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Upsample2d,
)
from warpladder.nets.params import param_slices


@pytest.mark.parametrize(
    ("net", "parameters", "out_shape"),
    [
        (nets.softmax(), 7_850, (10,)),
        (nets.mlp(), 203_530, (10,)),
        (nets.mlp10(), 7_960, (10,)),
        (nets.cnn(), 50_890, (10,)),
        (nets.autoencoder(), 751_875, (3, 32, 32)),
    ],
    ids=lambda value: value.name if isinstance(value, Net) else None,
)
def test_the_five_nets_have_the_reports_parameters(net, parameters, out_shape):
    assert net.param_count == parameters
    assert net.out_shape == out_shape
    assert net.param_count == param_slices(net)[-1].stop


def test_flops_counted_by_hand():
    assert nets.mlp().flops == 2 * (784 * 256 + 256 * 10)
    assert nets.mlp().train_flops == 2 * (2 * 784 * 256 + 3 * 256 * 10), (
        "the first layer's input gradient is never computed"
    )
    first, second, third = 2 * 9 * 16 * 26 * 26, 2 * 9 * 16 * 32 * 24 * 24, 2 * 4608 * 10
    assert nets.cnn().flops == first + second + third
    assert nets.cnn().train_flops == 2 * first + 3 * second + 3 * third


@pytest.mark.parametrize("make", nets.ZOO, ids=lambda make: make.__name__)
@pytest.mark.parametrize("in_shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (2, 12, 16)])
def test_the_five_nets_adapt_to_other_images(make, in_shape):
    net = make(in_shape)
    assert net.in_shape == in_shape
    assert net.out_shape == (in_shape if make is nets.autoencoder else (10,))


@pytest.mark.parametrize(
    ("layer", "in_shape", "out_shape"),
    [
        (Conv2d(out_channels=4, kernel_size=3), (2, 5, 7), (4, 3, 5)),
        (Conv2d(out_channels=4, kernel_size=3, stride=2), (2, 6, 7), (4, 2, 3)),
        (Conv2d(out_channels=4, kernel_size=3, padding=1), (2, 5, 7), (4, 5, 7)),
        (Conv2d(out_channels=4, kernel_size=3, stride=2, padding=2), (2, 1, 7), (4, 2, 5)),
        (MaxPool2d(2), (3, 5, 4), (3, 2, 2)),
        (MaxPool2d(3, stride=1), (3, 5, 4), (3, 3, 2)),
        (MaxPool2d(2, stride=3), (3, 8, 7), (3, 3, 2)),
        (AvgPool2d(2), (3, 5, 4), (3, 2, 2)),
        (AvgPool2d(2, stride=3), (3, 8, 7), (3, 3, 2)),
        (AdaptiveAvgPool2d(1), (3, 5, 4), (3, 1, 1)),
        (Conv2d(out_channels=4, kernel_size=5, padding="same"), (2, 5, 7), (4, 5, 7)),  # type: ignore[arg-type]
        (Conv2d(out_channels=4, kernel_size=3, padding="valid"), (2, 5, 7), (4, 3, 5)),  # type: ignore[arg-type]
        (Upsample2d(scale_factor=3), (2, 2, 5), (2, 6, 15)),
        (Flatten(), (2, 3, 4), (24,)),
        (Flatten(), (5,), (5,)),
        (ReLU(), (2, 3, 4), (2, 3, 4)),
        (Linear(out_features=6), (5,), (6,)),
    ],
)
def test_shapes_counted_by_hand(layer, in_shape, out_shape):
    assert layer.out_shape(in_shape) == out_shape


def test_shapes_are_those_of_torch():
    torch = pytest.importorskip("torch")

    @settings(max_examples=50, deadline=None)
    @given(drawn_nets())
    def check(net: Net) -> None:
        x = torch.zeros(1, *net.in_shape)
        for index, layer in enumerate(net.layers):
            arguments = dict(vars(layer))
            if isinstance(layer, (Linear, Conv2d)):
                module = getattr(torch.nn, type(layer).__name__)(net.shapes[index][0], **arguments)
            else:
                name = type(layer).__name__.replace("Upsample2d", "Upsample")
                module = getattr(torch.nn, name)(**arguments)
            x = module(x)
            assert tuple(x.shape[1:]) == net.shapes[index + 1]
            assert [tuple(p.shape) for p in module.parameters()] == list(layer.param_shapes(net.shapes[index]).values())

    check()


IMPOSSIBLE = {
    "images into Linear": (
        (1, 8, 8),
        (Linear(out_features=10),),
        CrossEntropyLoss(),
        r"layer 0: Linear wants a flat input .*\(1, 8, 8\).*Flatten",
    ),
    "flat samples into Conv2d": (
        (64,),
        (Conv2d(out_channels=4, kernel_size=3), Flatten(), Linear(out_features=2)),
        CrossEntropyLoss(),
        r"layer 0: Conv2d wants an image .*\(64,\)",
    ),
    "a window above the image": (
        (1, 8, 8),
        (Conv2d(out_channels=4, kernel_size=9), Flatten(), Linear(out_features=2)),
        CrossEntropyLoss(),
        r"layer 0: Conv2d wants at least 9x9 .*\(1, 8, 8\)",
    ),
    "a pool above what is left": (
        (1, 4, 4),
        (Conv2d(out_channels=4, kernel_size=3), ReLU(), MaxPool2d(3), Flatten(), Linear(out_features=2)),
        CrossEntropyLoss(),
        r"layer 2: MaxPool2d wants at least 3x3 pixels, got \(4, 2, 2\)",
    ),
    "nothing to train": ((4,), (ReLU(),), MSELoss(), "nothing to train"),
    "no layers": ((4,), (), MSELoss(), "nothing to train"),
    "images as logits": (
        (1, 8, 8),
        (Conv2d(out_channels=4, kernel_size=3),),
        CrossEntropyLoss(),
        r"CrossEntropyLoss wants logits .*\(4, 6, 6\)",
    ),
    "no channels": ((0, 8, 8), (Flatten(), Linear(out_features=2)), CrossEntropyLoss(), "in_shape wants"),
    "two dimensions": ((8, 8), (Flatten(), Linear(out_features=2)), CrossEntropyLoss(), "in_shape wants"),
    "something else as a layer": ((4,), (Linear,), CrossEntropyLoss(), "layer 0: .* is not a layer"),
    "something else as a loss": ((4,), (Linear(out_features=2),), "mse", "'mse' is not a loss"),
}


@pytest.mark.parametrize(("in_shape", "layers", "loss", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_chain_that_cannot_work_is_refused_where_it_is_written(in_shape, layers, loss, words):
    with pytest.raises(NetError, match=words) as caught:
        Net("mine", in_shape, layers, loss)
    assert "'mine'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Linear(out_features=0),
        lambda: Linear(out_features=2.0),  # type: ignore[arg-type]
        lambda: Linear(out_features=True),
        lambda: Conv2d(out_channels=4, kernel_size=0),
        lambda: Conv2d(out_channels=4, kernel_size=3, stride=0),
        lambda: Conv2d(out_channels=4, kernel_size=3, padding=-1),
        lambda: MaxPool2d(0),
        lambda: Upsample2d(scale_factor=0),
    ],
)
def test_a_layer_refuses_settings_that_make_no_sense(make):
    with pytest.raises(NetError, match="wants a whole number of at least"):
        make()


def test_an_autoencoder_says_which_images_it_takes():
    with pytest.raises(NetError, match=r"multiples of 4, got \(1, 30, 28\)"):
        nets.autoencoder((1, 30, 28))


@settings(max_examples=100, deadline=None)
@given(drawn_nets())
def test_shapes_parameters_and_flops_fit_together(net):
    assert len(net.shapes) == len(net.layers) + 1
    assert net.param_count == sum(math.prod(place.shape) for place in param_slices(net))
    assert net.flops <= net.train_flops <= 3 * net.flops
    assert net.layers[net.first_trained].param_shapes(net.shapes[net.first_trained])
    assert net == Net(net.name, list(net.in_shape), list(net.layers), net.loss)
