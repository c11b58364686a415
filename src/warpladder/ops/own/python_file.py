"""User's Python file that replaces an operation of the numpy rung, or a segment of a CUDA rung.

Its functions are those of a layer's reference.py: `forward(layer, x, w, b)` returns y, and `backward(layer, x, w, dy)`
returns (dx,) or (dx, dw, db). `OP` is an `Op`, or a `Segment` with launches of CUDA kernels.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from ...errors import RungError
from ...files.python import run_file
from ..engine.base import Buffers, Op
from ..engine.segments import Segment


def read(path: str, op: str, outputs: tuple[str, ...]) -> ModuleType:
    """Python module of a file. Raises `RungError` if it defines neither `OP` nor the functions of the operation."""
    module = run_file(path, RungError)
    kind = getattr(module, "OP", None)
    if kind is not None:
        if not (isinstance(kind, type) and issubclass(kind, (Op, Segment))):
            raise RungError(f"{path}: OP wants a class derived from Op or Segment, got {kind!r}")
        return module
    needed = {"forward": "y" in outputs, "backward": bool({"dx", "dw"} & set(outputs))}
    missing = [name for name, is_needed in needed.items() if is_needed and not callable(getattr(module, name, None))]
    if missing:
        has = {"forward": "forward(layer, x, w, b)", "backward": "backward(layer, x, w, dy)"}[missing[0]]
        raise RungError(f"{path}: defines neither {has}, which {op} needs, nor OP, an Op or a Segment")
    return module


def is_segment(module: ModuleType) -> bool:
    """True if the file's `OP` is a segment of CUDA kernels."""
    kind = getattr(module, "OP", None)
    return isinstance(kind, type) and issubclass(kind, Segment)


class OwnOp(Op):
    """Op `ours` of the package with one or both passes by a user's functions or by the user's op."""

    ours: ClassVar[type[Op]]
    module: ClassVar[ModuleType]
    outputs: ClassVar[tuple[str, ...]]

    def __init__(self, layer: Any, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        self.base = self.ours(layer, buffers)
        kind = getattr(self.module, "OP", None)
        self.own = None if kind is None else kind(layer, buffers)
        self.workspace += self.base.workspace + (0 if self.own is None else self.own.workspace)

    def begin(self, key: int, position: int) -> None:
        for op in (self.base, self.own):
            if op is not None:
                op.begin(key, position)

    def forward(self, n: int) -> None:
        if "y" not in self.outputs:
            return self.base.forward(n)
        if "dx" not in self.outputs:
            self.base.forward(n)  # arrays that the package's backward pass reads, such as argmax indices
        if self.own is not None:
            return self.own.forward(n)
        t = self.buffers
        self._fill("y", t.y[:n], self.module.forward(self.layer, t.x[:n], t.w, t.b))
        return None

    def backward(self, n: int) -> None:
        if "dx" not in self.outputs:
            return self.base.backward(n)
        if self.own is not None:
            return self.own.backward(n)
        t = self.buffers
        found = self.module.backward(self.layer, t.x[:n], t.w, t.dy[:n])
        if not isinstance(found, tuple) or len(found) != (1 if t.w is None else 3):
            raise RungError(f"backward wants to return {'(dx,)' if t.w is None else '(dx, dw, db)'}")
        for name, value in zip(("dx", "dw", "db"), found, strict=False):
            target = getattr(t, name)
            if target is not None:
                self._fill(name, target[:n] if name == "dx" else target, value)
        return None

    def _fill(self, name: str, target: Any, value: Any) -> None:
        if np.shape(value) != target.shape:
            raise RungError(f"{name} wants the shape {target.shape}, got {np.shape(value)}")
        target[...] = value
