"""What users add from outside of the package, without a change in it: an optimizer and a schedule, proven on every rung that can take them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import warpladder as wl
from adagrad import Adagrad
from strategies import case
from warpladder.emulator import why_not
from warpladder.ladder import find
from warpladder.nets import mlp10
from warpladder.optimizers import Optimizer
from warpladder.schedules import Schedule

RUNGS = ["loops", "numpy", "native", "naive:device=emulated", "tiled:device=emulated", "graph:device=emulated", "torch", "jax"]


@dataclass(frozen=True)
class Polynomial(Schedule):
    """The rate falls to 0 at the run's end as a power of what is left of it."""

    power: float = 2.0

    @property
    def by_epochs(self) -> bool:
        return True

    def after_warmup(self, rate: float, done: np.ndarray, epochs: float) -> np.ndarray:
        return rate * (1 - done / epochs) ** self.power


Optimizer.known.pop("adagrad")
Schedule.known.pop("polynomial")


@pytest.fixture(autouse=True)
def known(monkeypatch) -> None:
    """Names that other tests, which list them all, do not meet."""
    monkeypatch.setitem(Optimizer.known, "adagrad", Adagrad)
    monkeypatch.setitem(Schedule.known, "polynomial", Polynomial)


CONFIG = wl.TrainConfig(batch_size=7, epochs=3, optimizer=Adagrad(0.05), schedule=Polynomial(power=1.5))


@pytest.mark.parametrize("name", RUNGS)
def test_an_optimizer_and_a_schedule_of_one_s_own_are_proven_on_every_rung(name: str) -> None:
    rung, net = find(name), mlp10((1, 8, 8))
    if "emulated" in name and (reason := why_not()):
        pytest.skip(reason)
    if reason := rung.unsupported(net, CONFIG):
        pytest.skip(reason)
    verdict = wl.verify(rung.build, net, CONFIG)
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound


def test_it_trains_resumes_and_is_kept_by_its_name(tmp_path) -> None:
    data = wl.data.load("digits", limit=100)
    config = CONFIG.but(batch_size=16, learning_rate=0.02)
    whole = wl.train("mlp10", data, config, checkpoint=tmp_path / "whole.safetensors")
    again = wl.load(tmp_path / "whole.safetensors")
    assert again.checkpoint.config == config
    assert all(np.array_equal(again.state_dict()[name], array) for name, array in whole.state_dict().items())


def test_a_file_that_a_rung_needs_and_that_is_not_there_is_said(tmp_path, monkeypatch) -> None:
    (tmp_path / "halfway").mkdir()
    (tmp_path / "halfway" / "__init__.py").write_text(
        "from dataclasses import dataclass\nfrom warpladder.optimizers import Optimizer\n\n"
        "@dataclass(frozen=True)\nclass Halfway(Optimizer):\n    learning_rate: float = 0.1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import halfway  # type: ignore[import-not-found]

    Optimizer.known.pop("halfway")

    net = mlp10((1, 8, 8))
    config = wl.TrainConfig(optimizer=halfway.Halfway())
    start = case(net, CONFIG, 1, 9).state
    for name, file in (("numpy", "array.py"), ("loops", "loops.py"), ("native", "loops.py"), ("naive", "step.cu")):
        reason = find(name, device="emulated").unsupported(net, config) if name == "naive" else find(name).unsupported(net, config)
        if why_not() is None or name != "naive":
            assert reason is not None and file in reason and "Halfway" in reason, reason
    with pytest.raises(wl.WarpladderError, match=r"Halfway.*reference\.py"):
        wl.verify(find("numpy").build, net, config)
    assert start.step >= 0
