"""Correct kernels compute what NumPy does and raise no alarm: in every mode, in every order."""

import re

import correct_samples
import pytest
from correct_samples import CASES, FOLDER, Bench, every_order

from warpladder.checker import uninitialised
from warpladder.device.emulator import EmulatedDevice, asan, why_not

if (reason := why_not()) is not None:  # before the compiler is asked
    pytest.skip(reason, allow_module_level=True)


#: Every kernel in the fast mode, and a third of them under the checker; .ci/run has the others there.
RUNS = [
    pytest.param(
        mode, run, id=f"{mode}-{run.__name__}", marks=[pytest.mark.slow] * (mode == "check" and number % 3 > 0)
    )
    for mode in ("fast", "check")
    for number, run in enumerate(CASES)
]


@pytest.mark.parametrize(("mode", "run"), RUNS)
def test_results_are_numpys_and_nothing_is_reported(mode, run):
    every_order(mode, run)


@pytest.mark.by_day("matmul")
@pytest.mark.skipif(not uninitialised.comparable(), reason="g++ 12 can fill local variables")
@pytest.mark.parametrize("run", CASES, ids=lambda run: run.__name__)
def test_no_result_depends_on_local_variables_without_a_value(run):
    run(Bench(EmulatedDevice("fast", local="pattern")))


@pytest.mark.slow
def test_asan_finds_nothing():
    done = asan.run([correct_samples.__file__, "asan"])
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == [run.__name__ for run in CASES]


def test_every_kernel_of_the_samples_is_run():
    kernels = {
        name
        for path in FOLDER.glob("*.cu")
        for name in re.findall(r"__global__ void (?:__launch_bounds__\([^)]*\)+ )?(\w+)\(", path.read_text())
    }
    source = "".join(
        samples.read_text(encoding="utf-8")
        for samples in (FOLDER.parent / "correct_samples.py", FOLDER.parent / "hopper_samples.py")
    )
    assert {name for name in kernels if f'"{name}"' not in source and f'f"{name}<' not in source} == set()
