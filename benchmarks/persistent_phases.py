"""Cycles of each line of a step of the persistent rung: phases, arrivals, waits, updates; on a GPU or the emulator.

    python benchmarks/persistent_phases.py
    python benchmarks/persistent_phases.py "table persistent:wait=both:weights=shared:cluster=1" "mlp persistent"

A copy of the kernel's text gets a clock after each line of a step. Thread 0 of each block adds up the cycles in shared
memory, and writes them to the end of the scratch memory when the launch ends. The rung's own kernel stays as it is. A
line is shown for block 0, as the median of the blocks and for the slowest block; a block that works less waits longer.
"""

from __future__ import annotations

import argparse
import re
import time
from contextlib import ExitStack
from dataclasses import replace
from unittest import mock

import numpy as np
from persistent import NETS, made_up

from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device.source import KernelSource
from warpladder.ladder import find
from warpladder.trainers.base import State
from warpladder.trainers.persistent import trainer as persistent

CASES = [
    "table persistent:wait=both:weights=shared:cluster=1",
    "deep persistent:wait=both:weights=shared:cluster=16",
    "softmax persistent:wait=cluster:weights=shared",
    "mlp persistent:weights=global",
]

#: Lines of a step, at most.
LINES = 96

#: Parts of a step by the functions that a line calls; the first that matches.
PARTS = [
    ("forward", r"forward|partial_outputs"),
    ("loss", r"classify|cross_entropy|losses|loss\(|reconstruct"),
    ("backward", r"input_gradient"),
    ("sums and update", r"weight_gradient|step_slice"),
    ("wait of the grid", r"team\.(wait|meet)"),
    ("arrival at the grid", r"team\.arrive"),
    ("wait of the cluster", r"crew\.wait"),
    ("arrival at the cluster", r"crew\.arrive"),
    ("gather", r"gather"),
    ("weights", r"ready|hold"),
]

CLOCK = """\
#ifndef __CUDA_EMU__
#define SPENT(line) if (threadIdx.x == 0) { const long long now = clock64(); spent[line] += now - before; before = now; }
#else
#define SPENT(line) if (threadIdx.x == 0) { spent[line] += 1; }
#endif
"""


def timed(text: str, offset: int) -> tuple[str, list[str]]:
    """The kernel's text with a clock after each line of a step, and those lines; cycles go to work[offset]."""
    head, begins, rest = text.rpartition("    for (int step = first; step < first + total; ++step) {\n")
    body, ends, tail = rest.partition("\n    }\n")
    lines: list[str] = []
    out: list[str] = []
    for line in body.split("\n"):
        out.append(line)
        if re.match(r" {8}[^ ]", line) and line.endswith((";", "}")) and not line.lstrip().startswith("const "):
            lines.append("hold" if line.strip() == "}" else line.strip())
            out.append(f"        SPENT({len(lines) - 1})")
    declared = f"    __shared__ long long spent[{LINES}];\n    long long before = 0;\n" + (
        f"    for (int i = threadIdx.x; i < {LINES}; i += THREADS) spent[i] = 0;\n    __syncthreads();\n"
    )
    start = "#ifndef __CUDA_EMU__\n    before = clock64();\n#endif\n"
    written = (
        f"    __syncthreads();\n    for (int i = threadIdx.x; i < {LINES}; i += THREADS)\n        "
        f"reinterpret_cast<long long*>(work + {offset})[blockIdx.x * {LINES} + i] = spent[i];\n"
    )
    kernel = head.rfind('extern "C" __global__')
    return head[:kernel] + CLOCK + head[kernel:] + declared + start + begins + "\n".join(
        out
    ) + ends + written + tail, lines


def profile(case: str, options: str, samples: int | None) -> None:
    """Train an epoch with the kernel as it is and one with clocks, and print the lines."""
    name, rung = case.rsplit(" ", 1)
    net, batch, all_samples, dtype, optimizer = next(each for each in NETS if each[0].name == name)
    samples = samples or all_samples
    config = TrainConfig(batch_size=batch, epochs=8, optimizer=optimizer)  # type: ignore[arg-type]
    start = State(np.random.default_rng(1).normal(0, 0.05, net.param_count).astype(np.float32))
    lines: list[str] = []
    scratch = [0]

    def work(plan: persistent.PersistentPlan, *rest: int) -> np.ndarray:
        found = persistent_work(plan, *rest)
        scratch[0] = -(-len(found) // 4) * 4
        return np.concatenate([found, np.zeros(scratch[0] - len(found) + 2 * LINES * plan.blocks, np.float32)])

    def source(*arguments: object) -> KernelSource:
        found = persistent_text(*arguments)
        text, lines[:] = timed(found.text, scratch[0])
        return replace(found, text=text)

    persistent_work, persistent_text = persistent.initial_work, persistent.persistent_source
    seconds = {}
    for clocks in (False, True):
        with ExitStack() as patches:
            if clocks:
                patches.enter_context(mock.patch.object(persistent, "initial_work", work))
                patches.enter_context(mock.patch.object(persistent, "persistent_source", source))
            trainer = find(rung + options).build(net, config, start)
            trainer.load(made_up(net, samples, dtype))
            trainer.run_epochs([Order(0, 0, samples)])
            began = time.perf_counter()
            trainer.run_epochs([Order(0, 1, samples)])
            seconds[clocks] = (time.perf_counter() - began) / config.steps(samples)
            if not clocks:
                trainer.close()
    plan, steps = trainer.plan, config.steps(samples)  # type: ignore[attr-defined]
    cycles = trainer.arrays["work"].download()[scratch[0] :].view(np.int64).reshape(plan.blocks, LINES) / steps  # type: ignore[attr-defined]
    trainer.close()
    show(case, plan, lines, cycles[:, : len(lines)], (1e6 * seconds[False], 1e6 * seconds[True]))


def show(case: str, plan: object, lines: list[str], cycles: np.ndarray, us: tuple[float, float]) -> None:
    """Cycles a step by line and by part."""
    print(f"\n{case}: {us[0]:.2f} us a step, {us[1]:.2f} with clocks; {plan.blocks} blocks, "  # type: ignore[attr-defined]
          f"clusters of {plan.cluster}, rows {plan.rows}, estimate {plan.cycles:.0f} cycles, "  # type: ignore[attr-defined]
          f"counted {cycles[0].sum():.0f}")  # fmt: skip
    print(f"{'block 0':>9} {'median':>8} {'slowest':>8}  line")
    parts: dict[str, np.ndarray] = {}
    for line, each in zip(lines, cycles.T, strict=True):
        part = next((part for part, pattern in PARTS if re.search(pattern, line)), "else")
        parts[part] = parts.get(part, np.zeros(len(each))) + each
        print(
            f"{each[0]:9.0f} {np.median(each):8.0f} {each.max():8.0f}  {re.sub(r'[(]team, |[(]held.*', '(', line)[:72]}"
        )
    for part, each in parts.items():
        print(f"{each[0]:9.0f} {np.median(each):8.0f} {each.max():8.0f}  = {part}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "cases", nargs="*", default=CASES, help="a net of persistent.py and a rung, with a blank between"
    )
    parser.add_argument("--options", default="", help="more options of each rung, such as :device=emulated:blocks=4")
    parser.add_argument("--samples", type=int, help="of an epoch; the net's own number if not given")
    chosen = parser.parse_args()
    for case in chosen.cases:
        profile(case, chosen.options, chosen.samples)


if __name__ == "__main__":
    main()
