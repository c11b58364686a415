"""Reports reproduced on little data."""

from __future__ import annotations

from pathlib import Path

from warpladder.appendix.reproduce import NAMES, Reproducer, Watcher
from warpladder.appendix.reproduce.definition import parse

WRITTEN = [
    name
    for name in NAMES
    if (Path(__file__).parents[2] / "src/warpladder/appendix/reproduce/reports" / f"{name}.toml").exists()
]

SMALL = """
title = "Softmax on digits"
about = "A report that is none."

[nets.tiny]
loss = "CrossEntropyLoss"
layers = [{ type = "Flatten" }, { type = "Linear", out_features = 10 }]

[climbs.rows]
net = "softmax"
data = "digits"
rungs = ["numpy", "loops", "naive"]
repeats = 2
budget = 0.05
settings = { epochs = 2, batch_size = 64 }

[climbs.sizes]
net = "softmax"
data = "digits"
rungs = ["numpy"]
repeats = 1
budget = 0.05
settings = { epochs = 1, batch_size = 64 }
sweep = { limit = [100, 200] }

[trainings.seeds]
net = "tiny"
data = "digits"
rungs = ["numpy"]
settings = { epochs = 2, batch_size = 64, learning_rate = 0.1 }
seeds = [0, 1]

[profiles.parts]
net = "softmax"
data = "digits"
rungs = ["numpy"]
settings = { batch_size = 64 }

[[sections]]
title = "Times"
findings = ["Because."]

[[sections.tables]]
title = "Table 1"
heads = ["program"]
columns = [
  { head = "epoch", unit = "ms", measure = "epoch_seconds" },
  { head = "over the first", unit = "x", measure = "speedup:epoch_seconds:first" },
  { head = "accuracy", unit = "%", measure = "test_accuracy" },
]
rows = [
  { label = ["loops"], reported = [12.5, nan, 95.34], here = "rows/loops" },
  { label = ["NumPy"], reported = [38, 3.5, nan], theirs = [7, nan, nan], here = "rows/numpy" },
  { label = ["CUDA"], reported = [17, nan, nan], here = "rows/naive" },
  { label = ["seeds"], here = ["seeds/numpy"] },
]

[[sections.tables]]
title = "A step"
heads = ["part"]
columns = [{ head = "NumPy", unit = "us", here = "parts/numpy" }]
rows = [{ label = ["forward"], measure = "phase:forward" }, { label = ["backward"], measure = "phase:backward" }]

[[sections.lines]]
title = "Loss"
x = { head = "epoch" }
y = { head = "loss" }
series = [
  { label = "NumPy", here = "rows/numpy", curve = "loss" },
  { label = "their figure", x = [1, 2], y = [0.5, 0.25] },
]

[[sections.lines]]
title = "Sizes"
x = { head = "samples" }
y = { head = "epoch", unit = "ms" }
series = [{ label = "NumPy", here = "sizes/numpy", curve = "epoch_seconds" }]

[[sections.bars]]
title = "Epochs"
column = { head = "epoch", unit = "ms", measure = "epoch_seconds" }
rows = [{ label = ["NumPy"], reported = [12.5], here = "rows/numpy" }]
"""


def reproduced(folder: Path, text: str = SMALL, watcher: Watcher | None = None, only: tuple[str, ...] = ()):
    return Reproducer(parse(text, "s9"), folder, False, None, watcher or Watcher()).run(only)
