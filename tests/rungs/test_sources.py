"""Results keep the code that rungs computed with: small, each text once, and only what can stand in the file."""

from pathlib import Path

import pytest
from rungs_here import HERE
from strategies import case

import warpladder as wl
from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.nets.params import initial
from warpladder.results import load
from warpladder.rungs.base import Rung
from warpladder.timing.source_text import MOST, PACKAGE, texts
from warpladder.trainers.base import State, Trainer

pytestmark = pytest.mark.usefixtures("machine_once")

CONFIG = TrainConfig(batch_size=4, momentum=0.9)
NET = nets.mlp10((1, 8, 8))


@pytest.mark.parametrize("rung", HERE, ids=lambda rung: rung.name)
def test_every_rung_says_what_it_computes_with(rung: Rung) -> None:
    with rung.build(NET, CONFIG, State(initial(NET, 0))) as trainer:
        trainer.load(case(NET, CONFIG, seed=1, samples=10).dataset)
        found = texts(trainer, rung.path)
    assert found and sum(len("\n".join(lines)) for lines in found.values()) < 150_000
    for name, lines in found.items():
        assert (PACKAGE / name.split(",")[0]).is_file(), name
        assert lines and all(line == "" or line.isprintable() for line in lines)
    if rung.name.startswith(("naive", "tiled", "gemm", "graph")):
        assert any(name.endswith(".cu") for name in found) and any(name.endswith("Feed") for name in found)


def test_a_climb_keeps_them_once_and_they_come_back(tmp_path: Path) -> None:
    data = wl.data.load("digits", limit=64)
    results = wl.climb("softmax", data, wl.TrainConfig(epochs=1), ["numpy", "numpy:threads=1"], quick=True, repeats=1)
    one, two = results.rungs
    assert one.sources == two.sources and set(one.sources) == set(results.sources)
    assert results.sources["ops/linear/array.py"] == tuple((PACKAGE / "ops/linear/array.py").read_text().splitlines())
    results.save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == results


def test_sources_that_cannot_be_read_cost_no_rung_its_time(tmp_path: Path) -> None:
    class Broken:
        def sources(self) -> list[type | Path]:
            raise RuntimeError("no sources")

    class Odd:
        def sources(self) -> list[type | Path]:
            return [tmp_path / "none.cu", tmp_path / "bytes.cu", tmp_path / "long.py", type("Made", (), {})]

    (tmp_path / "bytes.cu").write_bytes(b"\xff\xfe")
    (tmp_path / "long.py").write_text("\tx = 1\x07 \n" * (MOST + 7))
    broken: Trainer = Broken()  # type: ignore[assignment]
    odd: Trainer = Odd()  # type: ignore[assignment]
    assert texts(broken, None) == {}
    found = texts(odd, None)
    assert (
        list(found) == ["long.py"] and found["long.py"][0] == "    x = 1?" and found["long.py"][-1] == "(7 more lines)"
    )
