"""Results made up for the tests of the report and of the file: one rung of every kind."""

from dataclasses import replace
from typing import Any

from warpladder.results import SCHEMA, Checked, DataFacts, Machine, NetFacts, Results, RungResult, Timing

MACHINE = Machine(
    cpu="Example 9000", target="znver3", cores=2, threads=2, features=("avx2", "fma"), memory_bytes=8 << 30, fma_peak=207e9, bandwidth=13e9,
    system="Linux 6.1 x86_64", python="CPython 3.11.7", packages={"numpy": "2.4.6"}, commit="0123456789abcdef", dirty=False, load_average=0.1,
)  # fmt: skip
NET = NetFacts(
    "mlp",
    (1, 28, 28),
    ("Flatten()", "Linear(out_features=256)", "ReLU()", "Linear(out_features=10)"),
    "CrossEntropyLoss",
    203530,
    818176,
)
DATA = DataFacts("mnist", 60000, 10000, (1, 28, 28), "uint8", 10)


ADAM: Any = {"name": "Adam", "learning_rate": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}


def timed(name, idea, seconds, *, steps=938, peer=False, **more):
    """A timed rung whose repetitions take these seconds per epoch."""
    share = steps / 938
    timing = Timing(
        tuple(s * share for s in seconds),
        tuple(s * share for s in seconds),
        (0.0,) * len(seconds),
        steps,
        round(60000 * share),
        938,
        60000,
    )
    kept: dict[str, Any] = {
        "status": "timed", "check": Checked(True, 3.1e-7, 6.7e-6, "every check held"), "build_seconds": 0.4, "load_seconds": 0.01,
        "first_seconds": 0.02, "spans": {"compile": 0.3}, "same_bits": True, "flops": NET.train_flops, "floor_seconds": NET.train_flops * 60000 / MACHINE.fma_peak,
        "trained_epochs": 10, "test_loss": 0.21, "test_accuracy": 0.9411, "peak_rss_bytes": 210_000_000, "held_bytes": {"parameters": 814120},
    }  # fmt: skip
    return RungResult(name, idea, f"{idea[:1].upper()}{idea[1:]}.", peer, timing=timing, **(kept | more))


def example(**changes):
    """A climb of six: a slow rung timed on a part, two more, one that failed, one that is not installed, and a peer
    that deviates.
    """
    rungs = (
        timed("loops", "nested loops, compiled, one thread", (31.0, 31.4, 30.8), steps=600, test_accuracy=None, test_loss=None, trained_epochs=None,
              reason="not trained for its accuracy: 10 epochs would take about 5 minutes"),
        timed("numpy", "the same sums as array expressions on BLAS", (1.32, 1.29, 1.41)),
        timed("native", "fused, vectorised, all cores: as fast as this CPU goes", (0.431, 0.428, 0.44)),
        RungResult("broken", "forgets its bias", "A rung that forgets its bias.", False, status="failed", check=Checked(False, 1.0, 6.7e-6, "bias"),
                   reason="update of 1.bias is off by 1.0e+00, the bound is 6.7e-06: step 3 of noise, a batch of 64"),
        RungResult("jax", "one compiled step", "One compiled step.", True, status="unsupported", reason="JAX is not installed: pip install 'warpladder[jax]'"),
        timed("torch", "PyTorch eager, tuned", (0.92, 0.95, 0.91), peer=True, deviations=("its sums run in another order each time",), same_bits=False),
    )  # fmt: skip
    told = Results(
        SCHEMA, "2026-11-21T05:00:00+00:00", "warpladder climb mlp --data mnist --rungs loops,numpy,native", MACHINE, NET, DATA,
        {"batch_size": 64, "optimizer": ADAM, "schedule": {"name": "Cosine", "warmup": 1.0}, "clip_value": None, "shuffle": True}, epochs=10, repeats=3, rungs=rungs,
    )  # fmt: skip
    return replace(told, **changes)
