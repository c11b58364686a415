"""Machine code that the native rung keeps: loaded without numba, never stale, and made anew where it is damaged."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from numba import njit

from warpladder.trainers.native.compiler import machine_code as module
from warpladder.trainers.native.compiler.machine_code import CompiledFunction, MachineCode
from warpladder.trainers.native.kernels import activation
from warpladder.trainers.native.program import convolution_rows, layer_rows, linear_rows, operands, rows
from warpladder.trainers.native.program.access import reader
from warpladder.trainers.native.program.job import Instruction
from warpladder.trainers.native.program.operands import GATHERED, OPERATIONS, WITHOUT_LOSS
from warpladder.trainers.native.program.tensors import ActivationView

TRAIN = """
import sys, warnings
from warpladder import TrainConfig, data, nets, train
run = train(nets.softmax((1, 8, 8)), data.load("digits"), TrainConfig(epochs=1, {settings}), rung="native:threads=1")
from warpladder.ops.jit.compile_time import compiling
print(run.history[0].train_loss, "numba" in sys.modules, compiling.seconds > 0)
"""


def run(home: Path, settings: str = "", **more: str) -> list[str]:
    """Train in a new process with this folder as HOME: the loss, whether numba was imported, whether anything was
    compiled; and what went to standard error.
    """
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), **more}
    done = subprocess.run(
        [sys.executable, "-c", TRAIN.format(settings=settings)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [*done.stdout.split(), done.stderr]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A HOME in which a net was trained once."""
    home = tmp_path_factory.mktemp("home")
    assert run(home)[1:3] == ["True", "True"]
    return home


@pytest.mark.parametrize("optimizer", ["SGD()", "AdamW()"])
@pytest.mark.slow
def test_a_second_start_needs_no_compiler(home: Path, optimizer: str) -> None:
    settings = f"optimizer=__import__('warpladder').optimizers.{optimizer}"
    first = run(home, settings)
    second = run(home, settings)
    assert second[1:3] == ["False", "False"]
    assert second[0] == first[0]


@pytest.mark.slow
def test_damaged_files_are_made_anew(home: Path) -> None:
    wanted = run(home)
    files = sorted(home.rglob("*.o"), key=lambda path: path.stat().st_size)  # the quickest to compile first
    assert len(files) >= 6
    whole = files[3].read_bytes()
    kinds = (b"", files[1].read_bytes()[:400], b"rubbish", bytes([*whole[:-9], whole[-9] ^ 1, *whole[-8:]]))
    for file, damage in zip(files, kinds, strict=False):
        file.write_bytes(damage)
    assert run(home)[:3] == [wanted[0], "True", "True"]
    assert run(home)[:3] == [wanted[0], "False", "False"]


@pytest.mark.nightly  # the processor is in the key, as its test below shows
def test_another_processor_has_files_of_its_own(home: Path) -> None:
    run(home)
    assert run(home, NUMBA_CPU_NAME="haswell", NUMBA_CPU_FEATURES="")[2] == "True"
    assert run(home)[2] == "False"


@pytest.mark.nightly  # test_compiled.py shows it with less to compile
def test_without_a_place_to_write_it_trains_all_the_same(home: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "a_file"
    blocked.write_text("")
    found = run(blocked)
    assert found[0] == run(home)[0] and found[2] == "True"
    assert found[3].count("cannot be stored") == 1


def test_a_full_disk_costs_a_warning_and_not_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr("warpladder.files.cache.write_atomically", full)
    monkeypatch.setattr("warpladder.files.cache._warned", set())
    function = CompiledFunction(activation.__name__, "relu", "operation")
    with pytest.warns(UserWarning, match="cannot be stored .*No space left") as messages:
        assert module._load(module._compiled(function))[0] != 0
        module._compiled(function)
    assert len(messages) == 1


def test_what_is_stored_comes_back_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    function, code = CompiledFunction("module", "name", "operation"), MachineCode("symbol", b"\x00machine\ncode")
    monkeypatch.setattr("warpladder.trainers.native.compiler.functions.compile_now", lambda _: code)
    module.store(function)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    assert module._stored(function) == code
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        for content in (bytes(damaged), whole[:at]):
            path.write_bytes(content)
            assert module._stored(function) is None


CPUS: tuple[dict[str, str], ...] = (
    {}, {"NUMBA_CPU_NAME": "haswell"}, {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "-avx2"},
    {"NUMBA_CPU_NAME": "generic"}, {"NUMBA_ENABLE_AVX": "0"}, {"NUMBA_CPU_NAME": "sandybridge"},
)  # fmt: skip


@pytest.mark.parametrize("settings", CPUS, ids=lambda settings: " ".join(settings.values()) or "this one")
@pytest.mark.by_day("this one", "haswell")
def test_the_target_is_the_one_that_numba_compiles_for(settings: dict[str, str]) -> None:
    code = """
from warpladder.ops.jit.target import target, versions
found = target()
from numba.core.registry import cpu_target
print(found == cpu_target.target_context.codegen().magic_tuple()[1:] and str(found) in versions())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | settings, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_a_config_file_of_numba_that_names_another_processor_is_refused(tmp_path: Path) -> None:
    """Only numba reads it, so that the files would be another processor's."""
    pytest.importorskip("yaml")
    (tmp_path / ".numba_config.yaml").write_text("cpu_name: haswell\ncpu_features: ''\n")
    code = (
        "from warpladder.trainers.native.compiler.machine_code import CompiledFunction, address; "
        "from warpladder.trainers.native.kernels import activation; "
        "address(CompiledFunction(activation.__name__, 'relu', 'operation'))"
    )
    environment = os.environ | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and "say which in NUMBA_CPU_NAME" in done.stderr


def test_every_operation_that_a_plan_names_is_there() -> None:
    named = {*WITHOUT_LOSS, *WITHOUT_LOSS.values(), *GATHERED, *GATHERED.values(), "sgd", "optimizer_loop"}
    for file in (rows, linear_rows, convolution_rows, layer_rows):
        for node in ast.walk(ast.parse(inspect.getsource(file))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "emit":
                named |= {str(part.value) for part in ast.walk(node.args[1]) if isinstance(part, ast.Constant)}
    named |= {"multiply", "convolve", "few_outputs", "few_outputs_of_bytes"}
    named -= {"", "_of_bytes"}
    assert len(named) > 20
    assert not named - set(OPERATIONS)
    home = "warpladder.trainers.native.kernels."
    assert not [name for name, at in OPERATIONS.items() if not callable(getattr(import_module(home + at), name, None))]


def test_operands_come_back_by_name_in_compiled_code() -> None:
    """Each operation's row, read as compiled code reads it, is the NamedTuple that was written."""
    kinds = [kind for kind in vars(operands).values() if isinstance(kind, type) and kind.__name__.endswith("Operands")]
    assert len(kinds) > 20
    for kind in kinds:
        numbers = iter(range(1, 48))
        views = [hint is ActivationView for hint in get_type_hints(kind).values()]
        wanted = kind(*(ActivationView(*islice(numbers, 7)) if is_view else next(numbers) for is_view in views))
        row = np.array(Instruction("", wanted).numbers(), np.int64)
        read = reader(kind)
        assert njit(lambda row, read=read: read(row))(row) == wanted
