"""Imports run one way, and `import warpladder` costs next to nothing."""

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import warpladder

PACKAGE = Path(warpladder.__file__).parent

#: Each group may import only what stands below it, and of its own group nothing but itself.
ORDER = (
    ("__main__",),
    ("cli",),
    ("appendix",),
    ("programs",),
    ("report", "checker"),
    ("sklearn",),
    ("timing",),
    ("proof", "train"),
    ("ladder",),
    ("peers",),  # a peer says what it is as a Rung
    ("rungs",),
    ("trainers",),
    ("ops",),
    ("device",),
    ("checkpoint",),
    ("config",),
    ("nets", "optimizers"),
)
RANK = {part: rank for rank, parts in enumerate(ORDER) for part in parts}

#: Parts that anybody may import, and what little they may import themselves.
LEAVES = {
    "errors": set(),
    "show": set(),
    "files": {"errors"},
    "machine": {"errors"},
    "data": {"errors", "files", "show"},
    "results": {"errors", "files", "machine", "show"},
}

HEAVY = (
    "click", "cuda", "cudnn", "cupy", "jax", "llvmlite", "matplotlib", "narwhals", "numba", "numpy", "nvmath", "pandas",
    "polars", "pooch", "pyarrow", "rich", "safetensors", "scipy", "sklearn", "tensorboard", "torch",
)  # fmt: skip


#: Folders in a part's folder that have a place of their own in the order.
INNER: dict[tuple[str, ...], str] = {("rungs", "peers"): "peers", ("results", "report"): "report"}


def part_of(path: Path) -> str:
    """Part of the package that a file belongs to: its folder, or its own name."""
    return part(path.relative_to(PACKAGE).parts)


def part(names: Sequence[str]) -> str:
    """Part of the package with a file or module, from its names below the package."""
    return INNER.get((*names[:2],), names[0].removesuffix(".py"))


def imported(path: Path) -> set[str]:
    """The parts of warpladder that a file imports: at its top, inside functions, and for type checking.

    An import for types alone counts too: what names a type depends on it.
    """
    package = ("warpladder", *path.relative_to(PACKAGE).parts[:-1])
    parts: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            base += node.module.split(".") if node.module else []
            modules = [[*base, alias.name] for alias in node.names]
        else:
            continue
        parts |= {part(module[1:]) for module in modules if module[0] == "warpladder" and len(module) > 1}
    return parts - {part_of(path), "__version__"}


def faults(path: Path) -> list[str]:
    own, others = part_of(path), imported(path)
    if own == "report":
        allowed = {"results", "errors", "show", "files"}
    elif own in LEAVES:
        allowed = LEAVES[own]
    else:
        allowed = set(LEAVES) | {other for other in RANK if RANK[other] > RANK[own]}
    return [f"{path.relative_to(PACKAGE)} imports {other}" for other in sorted(others - allowed)]


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def test_every_part_of_the_package_has_its_place_in_the_order():
    homeless = {part_of(path) for path in FILES} - set(RANK) - set(LEAVES)
    assert not homeless


def test_imports_run_one_way():
    assert [fault for path in FILES for fault in faults(path)] == []


def test_the_rule_sees_every_kind_of_import(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "ops" / "relu").mkdir(parents=True)
    file = tmp_path / "ops" / "relu" / "array.py"
    for line in (
        "from ...trainers.base import Trainer",
        "from ... import trainers",
        "import warpladder.trainers.base",
        "from warpladder import trainers",
        "def f():\n    from ...trainers import base",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ...trainers.base import State",
    ):
        file.write_text(line)
        assert faults(file) == ["ops/relu/array.py imports trainers"], line
    file.write_text(
        "import numpy\nfrom ...nets import Net\nfrom ..base import Op\nfrom ...data.dataset import pixels\nfrom . import loops"
    )
    assert faults(file) == []


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after a statement, beyond those it starts with."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted({{m.split('.')[0] for m in set(sys.modules) - before}}))"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_importing_warpladder_loads_no_heavy_library():
    assert loaded_after("import warpladder").isdisjoint(HEAVY)


def test_the_ladder_can_be_listed_without_its_libraries():
    loaded = loaded_after("import warpladder as wl; [r.idea for r in wl.ladder.LADDER + wl.ladder.PEERS]")
    assert "numpy" in loaded
    assert loaded.isdisjoint({"cuda", "cudnn", "cupy", "jax", "llvmlite", "numba", "nvmath", "sklearn", "torch"})


def test_a_proof_and_a_climb_load_only_the_libraries_that_their_rungs_need():
    loaded = loaded_after("import warpladder.timing, warpladder.proof")
    assert loaded.isdisjoint({"cuda", "cupy", "jax", "llvmlite", "matplotlib", "numba", "scipy", "sklearn", "torch"})


def test_help_loads_no_heavy_library():
    loaded = loaded_after("import warpladder.cli")
    assert loaded & set(HEAVY) == {"click"}


def test_every_public_name_is_there_and_listed():
    for name in warpladder.__all__:
        assert getattr(warpladder, name) is not None
    assert set(warpladder.__all__) <= set(dir(warpladder))
    with pytest.raises(AttributeError, match="nothing_such"):
        warpladder.nothing_such  # noqa: B018


def test_train_is_the_function_after_its_package_is_imported():
    code = """
import importlib, warpladder as wl
importlib.import_module("warpladder.train")
import warpladder.train.loop as loop
assert wl.train.loop is loop and callable(wl.train) and wl.train is loop.train and callable(wl.verify)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
