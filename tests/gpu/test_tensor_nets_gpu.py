"""The rung tensor on a GPU, net by net in each precision: proven, the same bits every time and after a resumption, and
on tensor cores by its profile.

python -m pytest -q --hypothesis-seed=7 tests/gpu/test_tensor_nets_gpu.py     draws other nets;
--hypothesis-profile=night five times as many
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

pytest.importorskip("cuda.bindings", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")

from strategies import Case, case, cases
from tensor_nets import chains

import warpladder.timing.profile
from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import gpu
from warpladder.ladder import find
from warpladder.nets import Net
from warpladder.proof import verify
from warpladder.rungs.base import Rung
from warpladder.rungs.tensor import PRECISIONS
from warpladder.timing.profile import kernels, profile
from warpladder.trainers.graphed import GraphedTrainer

REASON = gpu.why_not() or find("tensor").unsupported(nets.mlp(), TrainConfig())
if REASON is not None:
    pytest.skip(str(REASON), allow_module_level=True)

RUNGS = tuple(find("tensor", precision=precision) for precision in PRECISIONS)
FIVE = (nets.softmax(), nets.mlp(), nets.mlp10(), nets.cnn(), nets.autoencoder())
rungs = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
five = pytest.mark.parametrize("net", FIVE, ids=lambda net: net.name)


@rungs
@pytest.mark.parametrize("portion", range(5))
def test_drawn_nets_are_proven(portion: int, rung: Rung, request: pytest.FixtureRequest) -> None:
    """A hundred nets, 25 in each precision, chains of linear layers and nets with convolutions; in each portion some
    can be judged.
    """
    judged = 0
    number = int(request.config.getoption("--hypothesis-seed") or 0)

    @seed(100 * number + 10 * portion + RUNGS.index(rung))
    @settings(
        max_examples=max(1, settings().max_examples // 20),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn=st.one_of(chains(), cases()))
    def agree_on(drawn: Case) -> None:
        nonlocal judged
        assert rung.unsupported(drawn.net, drawn.config) is None
        verdict = verify(rung.build, drawn.net, drawn.config, precision=rung.precision)
        judged += verdict.judged
        assert verdict.passed or not verdict.judged, verdict.reason

    agree_on()
    assert judged, "no net of this portion could be judged"


@rungs
@five
def test_the_same_bits_every_time_and_after_a_resumption(net: Net, rung: Rung) -> None:
    """Two epochs with a partial last batch, over and over, and from what stood in the midst of the first one, in a
    trainer of its own.
    """
    config = TrainConfig(batch_size=64, learning_rate=0.01, momentum=0.9)
    drawn = case(net, config, seed=1, samples=200)
    orders, ends = [Order(1, epoch, 200) for epoch in range(2)], set()
    with rung.build(net, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        for _ in range(20):
            trainer.set_state(drawn.state)
            logs = [trainer.run(order, 0, 4) for order in orders]
            ends.add(trainer.state().bits() + logs[1].loss.tobytes())
        trainer.set_state(drawn.state)
        trainer.run(orders[0], 0, 2)
        held = trainer.state()
    with rung.build(net, config, held) as trainer:
        trainer.load(drawn.dataset)
        trainer.run(orders[0], 2, 4)
        log = trainer.run(orders[1], 0, 4)
        ends.add(trainer.state().bits() + log.loss.tobytes())
    assert len(ends) == 1


@rungs
@five
def test_the_profile_shows_that_products_run_on_tensor_cores(
    net: Net, rung: Rung, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least 95 % of the FLOPs of products of matrices, by the machine code that this GPU runs and with the tiles
    that were timed here, while no layer is left to the rung below.
    """
    monkeypatch.setattr(GraphedTrainer, "_known_division", lambda self, dataset: frozenset())
    monkeypatch.setattr(warpladder.timing.profile, "PATIENCE", 0.02)
    monkeypatch.setattr(kernels, "LEAST", 2e-4)
    config = TrainConfig(batch_size=64, learning_rate=0.01)
    found = profile(rung, net, case(net, config, seed=1, samples=200).dataset, config)
    assert found.tensor_share is not None and 0.95 <= found.tensor_share <= 1
    multiplying = {kernel.name for part in found.parts for kernel in part.kernels if kernel.tensor}
    assert multiplying and all(name.startswith(("multiply", "convolve", "correlate")) for name in multiplying), (
        multiplying
    )


def proven(rung: Rung, net: Net, batch: int | None) -> None:
    """By the bounds of the rung's precision; in coarse ones there may be no sample by which anybody could be judged,
    which is said.
    """
    verdict = verify(rung.build, net, TrainConfig(batch_size=batch, momentum=0.9), precision=rung.precision)
    if rung.precision != "fp32" and not verdict.judged:
        pytest.skip(verdict.reason)
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound


#: The five nets as large as a float64 reference can follow in seconds. In S1's net on 14 x 14 pixels the same layers
#: stay outside of tensor cores as on 28 x 28.
SMALL = (nets.softmax(), nets.mlp(), nets.mlp10(), nets.cnn((1, 14, 14)), nets.autoencoder((3, 4, 4)))


@rungs
@pytest.mark.parametrize("batch", [1, 7, 64, 256])
@pytest.mark.parametrize("net", SMALL, ids=lambda net: net.name)
def test_proven(net: Net, batch: int, rung: Rung) -> None:
    """The cases of a proof hold a partial last batch."""
    proven(rung, net, batch)


@rungs
@pytest.mark.parametrize("net", [nets.softmax((1, 8, 8)), nets.mlp10((1, 8, 8))], ids=lambda net: net.name)
def test_proven_on_batches_of_all_samples(net: Net, rung: Rung) -> None:
    proven(rung, net, None)
