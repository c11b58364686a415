"""How the kernels of a training step are launched on each of several rungs, as frozen data, and their JSON file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import ResultsError
from ...files.atomic import write_atomically
from ...results import read_file
from ...results.profiled import LaunchShape
from ...results.reader import read, read_json, short

#: Grows whenever a field is removed or changes its meaning.
LAUNCHED_SCHEMA = 1


@dataclass(frozen=True)
class Launched:
    """One call of a step.

    phase : what it is for: "feed", "forward", "loss", "backward", "update", or "step" for all of it.
    kernel : the kernel's name, or that of a library's call.
    shape : how it is launched; None for a library's call, which does not tell.
    """

    phase: str
    kernel: str
    shape: LaunchShape | None


@dataclass(frozen=True)
class Launches:
    """The calls of a full batch's step, rung by rung.

    device : the GPU that the kernels are compiled for. here : whether it is the GPU of this machine; if not, nothing
    ran, and the shapes are what a compiler says.
    rungs : calls in order, by the rung's name. reasons : why a rung has none, by its name.
    """

    schema: int
    device: str
    here: bool
    rungs: dict[str, tuple[Launched, ...]]
    reasons: dict[str, str]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON file: the old one stays whole until the new one is on the disk."""
        write_atomically(path, json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def load_launches(path: str | os.PathLike[str]) -> Launches:
    """Read what `Launches.save` wrote; `ResultsError` in one line that names the file."""
    return read_file(path, _parse)


def _parse(raw: bytes) -> Launches:
    tree: Any = read_json(raw)
    if not isinstance(tree, dict) or tree.get("schema") != LAUNCHED_SCHEMA or "rungs" not in tree:
        raise ResultsError(
            f"is no file of launches of schema {LAUNCHED_SCHEMA}, its schema is {short(isinstance(tree, dict) and tree.get('schema'))}"
        )
    found: Launches = read(Launches, tree, "")
    return found
