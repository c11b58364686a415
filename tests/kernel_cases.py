"""Every kernel behind every table, and of the ladder of matrix products, at ragged shapes, against the reference: cases that run on any device.

The cases follow the tables: whatever layers an entry computes, alone or several in one pass, a chain of such layers is
made up for it. What an op writes holds NaN before, and so does every row that it must not read.

    python tests/kernel_cases.py MODE ORDER [NAME ...]     runs them, or some, on the emulator
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from kernel_chains import head_cases, stem_cases, whole_cases
from kernel_layers import layer_cases
from kernel_losses import LOSSES
from kernel_products import product_cases
from kernel_steps import accumulate_cases, gather_cases, update_cases
from kernel_tools import Runs
from stand_in import libraries
from warpladder import ops
from warpladder.device import Device
from warpladder.emulator import EmulatedDevice
from warpladder.gemm import LEVELS
from warpladder.nets import Conv2d, Layer, Linear
from warpladder.ops import library
from warpladder.ops.kernels import KernelOp, KernelTable
from warpladder.rungs.library import OPERATIONS


@dataclass(frozen=True)
class KernelCase:
    """Something that kernels compute: `run(device)` raises where it is wrong, and gives the names of the kernels that were launched."""

    name: str
    run: Callable[[Device], set[str]] = field(repr=False)


def tables() -> dict[str, KernelTable]:
    """Every table of kernels that stands in `warpladder.ops`, by its module's name; of those that call libraries, the one that calls most."""
    modules = [importlib.import_module(f"warpladder.ops.{found.name}") for found in pkgutil.iter_modules(ops.__path__) if not found.ispkg]
    found = {module.__name__.rpartition(".")[2]: getattr(module, "TABLE", None) for module in modules}
    return {name: table for name, table in found.items() if isinstance(table, KernelTable)} | {"library": library.table(OPERATIONS)}


def every_case() -> list[KernelCase]:
    """The cases of every level of the ladder of products, and of every implementation that stands in a table.

    What several tables share comes once, and one without cases is an error.
    """
    out: dict[str, list[KernelCase]] = {}
    for table in tables().values():
        for entry in fields(table):
            for name, runs in ENTRIES[entry.name](table):
                if name not in out:
                    out[name] = [KernelCase(f"{name} {what}", run) for what, run in runs]
                    assert out[name], f"no case covers {name}: the lists in kernel_*.py hold nothing that it takes"
    for level in LEVELS:
        out[level.name] = [KernelCase(f"gemm {level.name} {what}", run) for what, run in product_cases(level)]
    return [case for found in out.values() for case in found]


Named = list[tuple[str, Runs]]


def _layers(table: KernelTable) -> Named:
    return [(_name(key, op), layer_cases(key, op)) for key, op in table.layers.items()]


def _rivals(table: KernelTable) -> Named:
    """Of runs that are more than one op to a rival; alone its ops stand in their own table."""
    return [
        (_name(key, rival), layer_cases(key, rival))
        for rival in table.rivals
        for key in table.layers
        if {Conv2d, Linear} & {*key} and len(key) > 1
    ]


def _name(key: tuple[type[Layer], ...], op: type[KernelOp]) -> str:
    return f"{op.__name__} {'+'.join(kind.__name__ for kind in key)}"


#: How what stands in each entry of a table is covered; a new entry wants cases of its own.
ENTRIES: dict[str, Callable[[KernelTable], Named]] = {
    "layers": _layers,
    "losses": lambda table: [(loss.__name__, LOSSES[kind](table)) for kind, loss in table.losses.items()],
    "update": lambda table: [(table.update.__name__, update_cases(table))],
    "gather": lambda table: [(table.gather.__name__, gather_cases(table))],
    "accumulate": lambda table: [(table.accumulate.__name__, accumulate_cases(table))],
    "stems": lambda table: [(stem.__name__, stem_cases(table, stem)) for stem in table.stems],
    "heads": lambda table: [(head.__name__, head_cases(head)) for head in table.heads],
    "rivals": _rivals,
    "whole": lambda table: [(whole.__name__, whole_cases(whole)) for whole in table.whole],
}


@contextmanager
def emulated(mode: str, order: str = "forward") -> Iterator[Device]:
    """An emulated device for the cases; what some launch beside a vendor's library runs beside a stand-in for it."""
    device = EmulatedDevice(mode=mode, order=order, seed=1)
    with libraries(device):
        yield device


def main(mode: str, order: str, *names: str) -> int:
    """Run the cases; a line of JSON for each says which kernels it launched, or what went wrong."""
    failed = False
    with emulated(mode, order) as device:
        for case in every_case():
            if names and case.name not in names:
                continue
            try:
                found: dict[str, Any] = {"kernels": sorted(case.run(device))}
            except Exception:
                found = {"error": traceback.format_exc()}
                failed = True
            print(json.dumps({"case": case.name, **found}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
