"""The tests on a machine that has nothing but what scripts/setup test brings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def pytest_there(*arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest, with every optional package hidden."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS / "support"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-p", "fresh", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, env=environment, cwd=TESTS.parent, capture_output=True, text=True)


@pytest.mark.slow
def test_every_test_can_be_collected_without_any_optional_package():
    done = pytest_there("--collect-only", "-q")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "error" not in done.stdout.splitlines()[-1]


def test_what_is_optional_is_hidden(tmp_path):
    (tmp_path / "test_there.py").write_text(
        """
from importlib.util import find_spec
import pytest
def test_there():
    assert all(find_spec(name) for name in ("numpy", "numba", "scipy", "hypothesis", "pip", "warpladder"))
    for name in ("cuda", "cudnn", "cupy", "jax", "nvmath", "torch", "sympy"):
        assert find_spec(name) is None, name
    with pytest.raises(ModuleNotFoundError):
        import torch
"""
    )
    done = pytest_there("-q", "--rootdir", str(tmp_path), str(tmp_path))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_what_needs_the_compiler_of_kernels_says_so_by_a_mark():
    """The newcomer's run skips these; .ci/run installs the compiler afterwards and runs what has the mark."""
    for file in TESTS.rglob("test_*.py"):
        text = (
            "" if file.parent.name == "gpu" else file.read_text(encoding="utf-8")
        )  # a GPU's tests are run by scripts/test_gpu
        assert ('importorskip("cuda.' in text) <= ("pytest.mark.nvrtc" in text), file.name


def test_what_needs_the_compiler_of_kernels_asks_for_both_of_its_libraries():
    """PyTorch's builds for GPUs bring cuda-bindings with them, and no cuda-core."""
    for file in TESTS.rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        if file.name != Path(__file__).name and "importorskip" in text:
            assert ('"cuda.bindings' in text) <= ('"cuda.core"' in text), file.name
