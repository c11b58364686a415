"""The flat buffer, its views, and initial weights that are the same everywhere."""

import hashlib

import numpy as np
import pytest

from warpladder import nets
from warpladder.nets.params import initial, param_slices, views


def test_names_order_and_shapes():
    found = [(place.name, place.shape) for place in param_slices(nets.cnn())]
    assert found == [
        ("0.weight", (16, 1, 3, 3)),
        ("0.bias", (16,)),
        ("2.weight", (32, 16, 3, 3)),
        ("2.bias", (32,)),
        ("6.weight", (10, 4608)),
        ("6.bias", (10,)),
    ]


@pytest.mark.parametrize("make", nets.ZOO, ids=lambda make: make.__name__)
def test_slots_fill_the_buffer_without_gaps(make):
    net = make()
    at = 0
    for place in param_slices(net):
        assert place.start == at
        assert place.stop - place.start == np.prod(place.shape)
        at = place.stop
    assert at == net.param_count


def test_views_write_to_the_buffer():
    net = nets.mlp10()
    flat = np.zeros(net.param_count, np.float32)
    for number, view in enumerate(views(net, flat).values(), start=1):
        assert not view.any()
        view[...] = number
    assert set(flat) == {1, 2, 3, 4}
    with pytest.raises(ValueError, match="7960 parameters, the buffer has shape"):
        views(net, flat[1:])


def test_initial_weights_are_he_normal_and_biases_zero():
    net = nets.mlp()
    named = views(net, initial(net, seed=3))
    assert not named["1.bias"].any() and not named["3.bias"].any()
    for name, fan_in in (("1.weight", 784), ("3.weight", 256)):
        w = named[name].astype(np.float64).ravel()
        deviation = np.sqrt(2 / fan_in)
        # Five standard errors of the mean and of the deviation of so many normal numbers.
        assert abs(w.mean()) <= 5 * deviation / np.sqrt(w.size)
        assert abs(w.std() - deviation) <= 5 * deviation / np.sqrt(2 * w.size)


def test_initial_weights_are_these_bits_on_every_platform():
    flat = initial(nets.cnn(), seed=0)
    assert flat.dtype == np.float32
    assert (
        hashlib.sha256(flat.astype("<f4").tobytes()).hexdigest()
        == "873bf405d5d3c673a9faf48e2b6cda673f83b3432ff343fb522856b993b58ee8"
    )
    assert not np.array_equal(flat, initial(nets.cnn(), seed=1))


def test_a_tensor_does_not_depend_on_what_stands_behind_it():
    """Each tensor has its own stream: a longer net starts as the shorter one does."""
    short, long = nets.softmax((4, 4, 4)), nets.mlp((4, 4, 4), classes=7)
    assert np.array_equal(views(short, initial(short, 2))["1.weight"], views(long, initial(long, 2))["1.weight"][:10])
