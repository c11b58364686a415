"""Every kernel behind every table, and of the ladder of matrix products, at ragged shapes, against the reference:
cases that run on any device.

The cases follow the tables: whatever nodes a segment computes, alone or several in one pass, a chain of such nodes is
made up for it. What a segment writes holds NaN before, and so does every row that it must not read.

    python tests/support/kernel_cases.py MODE ORDER [NAME ...]     runs them, or some, on the emulator
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

from few_image_gradients import kernel_runs as few_image_runs
from few_pixel_convolutions import kernel_runs as few_pixel_runs
from first_convolutions import kernel_runs as first_runs
from implicit_convolutions import kernel_runs as implicit_runs
from kernel_chains import head_cases, stem_cases, whole_cases
from kernel_coders import coder_cases
from kernel_general_losses import general_loss_cases
from kernel_layers import layer_cases
from kernel_losses import LOSSES
from kernel_norms import norm_cases
from kernel_products import product_cases
from kernel_residuals import residual_cases
from kernel_steps import accumulate_cases, gather_cases, update_cases
from kernel_tools import Runs
from narrow_convolutions import kernel_runs as narrow_runs
from shifted_convolutions import kernel_runs as shifted_runs
from stand_in import libraries
from warpgroup_convolutions import kernel_runs as warpgroup_runs

from warpladder.appendix.gemm import LEVELS
from warpladder.device import Device
from warpladder.device.emulator import EmulatedDevice
from warpladder.nets import NORMALISATIONS, RESIDUAL_PARTS, Conv2d, Layer, Linear, Loss, MSELoss
from warpladder.ops import tables as package
from warpladder.ops.engine.chain import Gather, GeneralLoss
from warpladder.ops.engine.segments import KernelTable, Segment
from warpladder.ops.tables import library
from warpladder.rungs.library import OPERATIONS


@dataclass(frozen=True)
class KernelCase:
    """Something that kernels compute: `run(device)` raises where it is wrong, and gives the names of the kernels that
    were launched.
    """

    name: str
    run: Callable[[Device], set[str]] = field(repr=False)


def tables() -> dict[str, KernelTable]:
    """Every table of kernels in `warpladder.ops.tables`, by its module's name; of those that call libraries, the one
    that calls most.
    """
    modules = [
        importlib.import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)
    ]
    found = {module.__name__.rpartition(".")[2]: getattr(module, "TABLE", None) for module in modules}
    return {name: table for name, table in found.items() if isinstance(table, KernelTable)} | {
        "library": library.table(OPERATIONS)
    }


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
    for name, its_runs in (
        ("warpgroups", warpgroup_runs()),
        ("shifted", shifted_runs()),
        ("first", first_runs()),
        ("narrow", narrow_runs()),
        ("implicit", implicit_runs()),
        ("few pixels", few_pixel_runs()),
        ("few images", few_image_runs()),
    ):
        out[name] = [KernelCase(f"{name} {what}", run) for what, run in its_runs]
    return [case for found in out.values() for case in found]


Named = list[tuple[str, Runs]]

#: A segment, and the types of the nodes that a table has it for.
Entry = tuple[tuple[type, ...], type[Segment]]


def _segments(table: KernelTable) -> Named:
    return [(_name(entry), segment_cases(entry)) for entry in table.segments.items()]


def _rivals(table: KernelTable) -> Named:
    """Of runs of layers that are more than one segment to a rival; alone its segments stand in their own table."""
    chains = [key for key in table.segments if {Conv2d, Linear} & {*key} and len(key) > 1 and _layers_alone(key)]
    return [(_name((key, rival)), layer_cases(key, rival)) for rival in table.alternatives for key in chains]


def segment_cases(entry: Entry) -> Runs:
    """The cases that follow from what a segment is for."""
    key, kind = entry
    first, last = key[0] is Gather, issubclass(key[-1], Loss)
    if len(key) == 1 and first:
        return gather_cases(kind)
    if key == (GeneralLoss,):
        return general_loss_cases(kind)
    if len(key) == 1 and last:
        return LOSSES[key[0]](kind)
    if issubclass(key[0], NORMALISATIONS):
        return norm_cases(key, kind)
    if issubclass(key[0], RESIDUAL_PARTS):
        return residual_cases(key, kind)
    if first and last:
        return whole_cases(key, kind)
    if last and key[-1] is MSELoss:
        return coder_cases(key, kind)
    return stem_cases(key, kind) if first else head_cases(key, kind) if last else layer_cases(key, kind)


def _layers_alone(key: tuple[type, ...]) -> bool:
    return all(issubclass(kind, Layer) for kind in key)


def _name(entry: Entry) -> str:
    key, kind = entry
    return f"{kind.__name__} {'+'.join(node.__name__ for node in key)}"


#: How what stands in each field of a table is covered; a new field wants cases of its own.
ENTRIES: dict[str, Callable[[KernelTable], Named]] = {
    "segments": _segments,
    "update": lambda table: [(table.update.__name__, update_cases(table))],
    "accumulate": lambda table: [(table.accumulate.__name__, accumulate_cases(table))],
    "alternatives": _rivals,
    "below": lambda table: [],  # another table, whose segments are cases of their own rung
    "unit": lambda table: [],  # a word
    # chains of any length, which tests/ops/test_small_chain.py and test_small_convolutions.py hold to account
    "chains": lambda table: [],
    "fronts": lambda table: [],
    # how a graph is recorded, which tests/trainers/test_interleave.py holds to account
    "interleaves_steps": lambda table: [],
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
