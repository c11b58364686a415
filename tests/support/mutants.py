"""Mutants of the package's own operations, each proven on small nets: how many faults the proof finds.

    python tests/support/mutants.py --seed 7 --count 10        # ten drawn mutants of each room
    python tests/support/mutants.py --rooms loops --count 40

A mutant is a copy of the package with one change in one source: an operator, a comparison's bound, an index or another
constant, or a barrier left out. It is killed if the proof refuses it, it raises an error or does not end; the table has
the survivors, by file and line. Sources come from four rooms: arrays, loops, native code and CUDA kernels.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "warpladder"

#: Sources of each room, and the rung that uses them.
ROOMS = {
    "array": (("ops/*/array.py", "optimizers/*/array.py"), "numpy"),
    "loops": (("ops/*/loops.py", "optimizers/*/loops.py"), "loops"),
    "native": (("trainers/native/kernels/*.py", "trainers/native/program/*.py"), "native"),
    "cuda": (("ops/*/naive.cu", "optimizers/*/step.cu"), "naive:device=emulated:feed=resident"),
    "tiled": (("ops/linear/tiled.cu", "ops/cross_entropy/tiled.cu", "ops/sums/tiled.cu"), "tiled:device=emulated"),
}

#: What a mutant changes: a name, a pattern within a line of code, and what takes its place.
CHANGES = (
    ("operator", r"(?<= )\+(?= )", "-"),
    ("operator", r"(?<= )-(?= )", "+"),
    ("operator", r"(?<= )\*(?= )", "+"),
    ("operator", r"(?<=\w )/(?= )", "*"),
    ("operator", r"(?<= )([+*])=(?= )", "="),
    ("operator", r"np\.add\(|xp\.add\(", "xp.subtract("),
    ("operator", r"xp\.multiply\(", "xp.add("),
    ("bound", r"(?<= )<(?= )", "<="),
    ("bound", r"(?<= )>(?= )", ">="),
    ("bound", r"(?<= )<(?= )", ">"),
    ("bound", r"range\((\w+)\)", r"range(\1 - 1)"),
    ("bound", r"\[:n\]", "[: n - 1]"),
    ("index", r"\[(\w+)\]", r"[\1 - 1]"),
    ("constant", r"\b0\.0f?\b", "1.0"),
    ("constant", r"\b1\b", "2"),
    ("constant", r"\b2\b", "1"),
    ("constant", r"\b0\b(?!\.)", "1"),
    ("barrier", r"__syncthreads\(\);|__syncwarp\(\);", ""),
)

NO_END = "killed: no end"
SLOWER = 5.0  # times the package's own seconds after which a mutant has no end

#: What a mutant is proven on: every layer, optimizer and loss, partial batches. Its last line is "killed: why" or "survived".
CHILD = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np
np.seterr(all="ignore")
from warpladder import ladder
from warpladder.config import TrainConfig
from warpladder.nets import *
from warpladder.optimizers import SGD, Adam, AdamW, RMSprop
from warpladder.proof import verify
sorter = Net("sorter", (2, 9, 8), (Conv2d(out_channels=5, kernel_size=3, padding=1), ReLU(), MaxPool2d(3, 2),
    Conv2d(out_channels=3, kernel_size=2, stride=1), ReLU(), Flatten(), Linear(out_features=20), ReLU(), Linear(out_features=5)),
    CrossEntropyLoss())
coder = Net("coder", (2, 6, 6), (Conv2d(out_channels=5, kernel_size=3, padding=1), ReLU(), MaxPool2d(3),
    Upsample2d(scale_factor=3), Conv2d(out_channels=2, kernel_size=3, padding=1)), MSELoss())
wide = Net("wide", (1, 6, 6), (Flatten(), Linear(out_features=40), ReLU(), Linear(out_features=7)), CrossEntropyLoss())
bent = Net("bent", (1, 7, 6), (Conv2d(out_channels=4, kernel_size=3), GELU(), AvgPool2d(3, 1), Flatten(), Linear(out_features=9),
    SiLU(), Dropout(0.2), Linear(out_features=8), Tanh(), Linear(out_features=8), Sigmoid(), Linear(out_features=5)), CrossEntropyLoss())
folded = Net("folded", (1, 6, 8), (Conv2d(out_channels=3, kernel_size=3, padding=1), ReLU(), MaxPool2d(2),
    Upsample2d(scale_factor=2), Conv2d(out_channels=1, kernel_size=3, padding=1)), MSELoss())
targets = Net("targets", (1, 6, 6), (Flatten(), Linear(out_features=20), LeakyReLU(), Linear(out_features=3)), MSELoss())
outliers = Net("outliers", (1, 6, 6), (Flatten(), Linear(out_features=3)), L1Loss())
few = Net("few", (1, 12, 12), (Flatten(), Linear(out_features=17)), CrossEntropyLoss())
norm = Net("norm", (2, 6, 5), (Conv2d(out_channels=4, kernel_size=3), BatchNorm2d(), ReLU(), Flatten(), Linear(out_features=9),
    BatchNorm1d(momentum=0.3), ReLU(), Linear(out_features=5)), CrossEntropyLoss())
end = Net("end", (1, 6, 6), (Flatten(), Linear(out_features=150), ReLU(), Linear(out_features=3)), CrossEntropyLoss())
many = Net("many", (1, 6, 6), (Flatten(), Linear(out_features=70)), CrossEntropyLoss())
smooth = Net("smooth", (1, 6, 6), (Flatten(), BatchNorm1d(), Linear(out_features=5)),
    CrossEntropyLoss(label_smoothing=0.1, weight=(1.0, 0.5, 2.0, 0.0, 1.5)))
huber = Net("huber", (1, 6, 6), (Flatten(), Linear(out_features=3)), HuberLoss(delta=0.5))
binary = Net("binary", (1, 6, 6), (Flatten(), Linear(out_features=3)), BCEWithLogitsLoss(pos_weight=(2.0, 1.0, 0.5)))
branch = Net("branch", (2, 6, 6), (Conv2d(out_channels=4, kernel_size=3, padding=1), ReLU(),
    Residual(Conv2d(out_channels=9, kernel_size=1), ReLU(), projection=True), ReLU(),
    Residual(Conv2d(out_channels=9, kernel_size=3, padding=1), ReLU()), Flatten(), Linear(out_features=5)),
    CrossEntropyLoss())
rung = ladder.find(sys.argv[1])
nesterov = SGD(0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
for net, config in ((sorter, TrainConfig(batch_size=6, optimizer=nesterov)),
                    (coder, TrainConfig(batch_size=5, optimizer=Adam(0.001, weight_decay=5e-4))),
                    (wide, TrainConfig(batch_size=7, clip_value=5.0, optimizer=AdamW(0.001))),
                    (wide, TrainConfig(batch_size=4, optimizer=SGD(0.01, momentum=0.9), loss_every=2)),
                    (bent, TrainConfig(batch_size=5, optimizer=RMSprop(0.001, momentum=0.5))),
                    (folded, TrainConfig(batch_size=3)), (targets, TrainConfig(batch_size=6)), (outliers, TrainConfig(batch_size=6)),
                    (few, TrainConfig(batch_size=40, clip_norm=0.1)), (many, TrainConfig(batch_size=5)),
                    (end, TrainConfig(batch_size=1, optimizer=Adam(0.001))), (norm, TrainConfig(batch_size=8)),
                    (smooth, TrainConfig(batch_size=8)), (huber, TrainConfig(batch_size=6)), (binary, TrainConfig(batch_size=6)),
                    (branch, TrainConfig(batch_size=6))):
    if rung.unsupported(net, config):
        continue
    verdict = verify(rung.build, net, config, seed=int(sys.argv[2]), reach=4)
    if not verdict.passed:
        print("killed:", verdict.reason[:100])
        sys.exit()
print("survived")
"""


@dataclass(frozen=True)
class Mutant:
    """A change of one place in a source."""

    file: str
    line: int
    kind: str
    before: str
    after: str


def is_code(line: str) -> bool:
    """True for a line that is no comment, import, signature or docstring's text, as far as a line shows it."""
    text = line.strip()
    words = (
        '"""',
        "#",
        "//",
        "*",
        "import",
        "from",
        "def ",
        "class ",
        "@",
        "raise",
        "assert",
        "__global__",
        "template",
    )
    return bool(text) and not text.startswith(words) and re.search(r"[=\[(]", text) is not None


def mutants(room: str) -> list[Mutant]:
    """All mutants of a room."""
    found = []
    for path in sorted(path for pattern in ROOMS[room][0] for path in PACKAGE.glob(pattern)):
        in_text = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            is_edge = line.count('"""') % 2 == 1
            if not (in_text or is_edge) and is_code(line):
                code = re.split(r"\s(?:#|//) ", line)[0]
                for kind, pattern, place in CHANGES:
                    for match in re.finditer(pattern, code):
                        after = code[: match.start()] + match.expand(place) + code[match.end() :]
                        found.append(Mutant(path.relative_to(PACKAGE).as_posix(), number, kind, line, after))
            in_text ^= is_edge
    return found


def outcome(mutant: Mutant | None, room: str, seed: int, seconds: float) -> str:
    """Outcome of the proofs of a mutant, or of the package as it is: "survived" or "killed: why"."""
    with TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder, "warpladder")
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            path = copy / mutant.file
            lines = path.read_text(encoding="utf-8").splitlines()
            lines[mutant.line] = mutant.after
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        env = {**os.environ, "PYTHONPATH": folder, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                [sys.executable, "-c", CHILD, ROOMS[room][1], str(seed)],
                env=env, cwd=folder, capture_output=True, text=True, timeout=seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return NO_END
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode:
        return f"killed: {(done.stderr.strip().splitlines() or ['?'])[-1][:100]}"
    return last


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", default=",".join(ROOMS))
    parser.add_argument("--count", type=int, default=10, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120.0, help="after which a mutant counts as killed, at least")
    given = parser.parse_args()
    rng, rows, broken = np.random.default_rng(given.seed), [], False
    for room in given.rooms.split(","):
        began = time.perf_counter()
        honest = outcome(None, room, given.seed, 3600.0)
        seconds = max(given.seconds, SLOWER * (time.perf_counter() - began))
        if honest != "survived":
            print(f"{room}: the package as it is does not pass: {honest}", flush=True)
            broken = True
            continue
        every = mutants(room)
        drawn = [every[i] for i in rng.permutation(len(every))[: given.count]]
        survivors = endless = 0
        for mutant in drawn:
            found = outcome(mutant, room, given.seed, seconds)
            endless += found == NO_END
            if not found.startswith("killed"):
                survivors += 1
                print(f"SURVIVED {mutant.file}:{mutant.line + 1} {mutant.kind}: {mutant.before.strip()}", flush=True)
                print(f"         {mutant.after.strip()}", flush=True)
        killed = f"{len(drawn) - survivors} of {len(drawn)} killed, {endless} of them without an end"
        rows.append(f"{room}: {killed}, of {len(every)} mutants")
        print(rows[-1], flush=True)
    print("\n".join(rows))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
