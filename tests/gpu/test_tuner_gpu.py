"""The tuner by a real clock: the same plan and the same bits again, and no product slower than the model had it."""

from __future__ import annotations

from pathlib import Path

import pytest
from strategies import case

from warpladder import nets
from warpladder.checkpoint.plan import NetPlan
from warpladder.config import TrainConfig
from warpladder.device import gpu
from warpladder.device.timing import in_turn
from warpladder.ladder import find
from warpladder.nets import Net
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.tuning import plan_cache
from warpladder.trainers.tuning.candidates import products
from warpladder.trainers.tuning.tuner import WORTH

if gpu.why_not() is not None:
    pytest.skip(str(gpu.why_not()), allow_module_level=True)

#: Above what the tuner allows: clocks change between one measurement and the next.
NOISE = 1.1


@pytest.mark.parametrize(
    ("net", "batch"), [(nets.cnn(), 64), (nets.autoencoder(), 1)], ids=lambda value: getattr(value, "name", str(value))
)
def test_tuned_once_and_never_slower(net: Net, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache.PLANS, "place", lambda: tmp_path / "plans")
    monkeypatch.setattr(plan_cache, "found", {})
    config = TrainConfig(batch_size=batch, learning_rate=0.01, momentum=0.9)
    drawn = case(net, config, seed=1, samples=3 * batch)
    ends: list[bytes] = []
    plans: list[NetPlan | None] = []
    for turn in range(3):
        with find("graph").build(net, config, drawn.state) as trainer:
            assert isinstance(trainer, GraphedTrainer)
            trainer.load(drawn.dataset)
            plans.append(trainer.tuned)
            log = trainer.run(drawn.order, 0, 3)
            state = trainer.state()
            ends.append(log.loss.tobytes() + state.bits())
            if turn == 0:
                plan_cache.found.clear()  # the next one reads the files
                assert trainer.chain is not None
                for choice in products(trainer.chain, trainer.chain.layered):
                    tuned, model = choice.now, choice.variants()[0]
                    if choice.work >= WORTH and tuned != model:
                        ours, its = in_turn(trainer.device, [choice.calls(tuned), choice.calls(model)])
                        assert ours <= its * NOISE, f"{choice.name}: {ours:.2e} s instead of {its:.2e} s"
    assert plans[0] is not None and plans[0] == plans[1] == plans[2]
    assert len(set(ends)) == 1
