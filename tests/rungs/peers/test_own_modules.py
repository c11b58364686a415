"""A user's PyTorch module as a peer: what does not fit the net is named before anything is trained."""

from __future__ import annotations

import re
from typing import Any

import pytest

import warpladder as wl
from warpladder.errors import ArgumentError
from warpladder.ladder import torch_peer

torch = pytest.importorskip("torch")
NET = wl.nets.mlp((1, 8, 8), hidden=(10,))


class Mine(torch.nn.Module):  # type: ignore[name-defined]
    def __init__(self, net: wl.Net, change: Any = None) -> None:
        super().__init__()
        self.inner, self.outer, self.change = torch.nn.Linear(64, 10), torch.nn.Linear(10, 10), change

    def forward(self, x: Any) -> Any:
        out = self.outer(torch.relu(self.inner(x.flatten(1))))
        return out if self.change is None else self.change(out)


def test_a_module_of_the_nets_outputs_can_train():
    assert torch_peer("mine", "mine", Mine).unsupported(NET, wl.TrainConfig()) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda out: out[:, :9], r"outputs \(2, 9\) of 2 samples, net 'mlp-10' makes \(2, 10\)"),
        (lambda out: out.sum(), r"outputs .* of 2 samples, net 'mlp-10' makes \(2, 10\)"),
        (lambda out: (out, out), r"outputs .*tuple.* of 2 samples, net 'mlp-10' makes \(2, 10\)"),
    ],
)
def test_a_module_of_other_outputs_is_refused(change, words):
    reason = torch_peer("mine", "mine", lambda net: Mine(net, change)).unsupported(NET, wl.TrainConfig())
    assert reason is not None and re.search(words, reason)


def test_a_module_that_cannot_compute_is_a_row_and_the_climb_goes_on():
    peer = torch_peer("mine", "mine", lambda net: Mine(net, lambda out: out @ out))
    assert peer.unsupported(NET, wl.TrainConfig()) is None
    config = wl.TrainConfig(epochs=1, batch_size=32, learning_rate=0.1)
    mine, other = wl.climb(NET, "digits", config, [peer, "numpy"], repeats=1, kept=False).rungs
    assert (mine.status, other.status) == ("failed", "timed")
    assert "cannot be multiplied" in (mine.reason or "")


@pytest.mark.parametrize("make", [Mine(NET), "mine", None])
def test_a_module_in_place_of_its_class_is_refused(make):
    with pytest.raises(ArgumentError, match="torch_peer wants a function from a net to a module, for instance its"):
        torch_peer("mine", "mine", make)
