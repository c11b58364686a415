"""Messages between a climb and the process of a user's file: JSON, and the bytes of arrays. Nothing is pickled.

A message is two lengths (uint64, bytes), the JSON document, and the arrays one after the other. Received arrays are
copies in the reader's memory: an array that computes its numbers when they are read does so in the sender.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...data.order import Order
from ...errors.arguments import kind_of
from ...trainers.base import State, StepLog

HEAD = struct.Struct("<QQ")

#: Largest JSON document of a message, in bytes.
MOST_TEXT = 64 << 20


class BrokenMessage(Exception):
    """Error: a message does not follow the protocol."""


class Unknown:
    """Placeholder for a value that no message can carry; `kind` names its type."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


def send(channel: socket.socket, value: Any) -> None:
    """Send a value through a channel: numbers, text, arrays, `StepLog`, `State`, `Order`, and lists, tuples and
    mappings of these.
    """
    arrays: list[np.ndarray] = []
    tree = _tree(value, arrays)
    text = json.dumps([tree, [[array.dtype.str, array.shape] for array in arrays]]).encode()
    channel.sendall(HEAD.pack(len(text), sum(array.nbytes for array in arrays)) + text)
    for array in arrays:
        if array.nbytes:
            channel.sendall(array.reshape(-1).view(np.uint8).data)


def receive(fill: Callable[[memoryview], None], most: int) -> Any:
    """Receive the value that `send` sent.

    Parameters
    ----------
    fill : callable
        Fills a buffer with the next bytes of the channel.
    most : int
        Most bytes of its arrays; a larger message is refused before its arrays are read.
    """
    head = bytearray(HEAD.size)
    fill(memoryview(head))
    length, size = HEAD.unpack(head)
    if length > MOST_TEXT or size > most:
        raise BrokenMessage(f"a message of {length + size:,} bytes, where at most {most:,} are due")
    text = bytearray(length)
    fill(memoryview(text))
    try:
        tree, shapes = json.loads(text)
        types = [(_dtype(name), tuple(map(int, shape))) for name, shape in shapes]
        if sum(kind.itemsize * _count(shape) for kind, shape in types) != size:
            raise BrokenMessage("a message whose arrays have another size than it states")
        arrays = [np.empty(shape, kind) for kind, shape in types]
        for array in arrays:
            if array.nbytes:
                fill(array.reshape(-1).view(np.uint8).data)
        return _value(tree, arrays)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, MemoryError) as error:
        raise BrokenMessage(f"a message that cannot be read: {type(error).__name__}") from None


def _dtype(name: str) -> np.dtype:
    kind = np.dtype(str(name))
    if kind.kind not in "biuf":
        raise BrokenMessage(f"an array of {kind}")
    return kind


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        if size < 0:
            raise BrokenMessage("an array of negative size")
        count *= size
    return count


def _tree(value: Any, arrays: list[np.ndarray]) -> Any:
    """Value as JSON; each array is appended to `arrays` and replaced by its index."""

    def inner(part: Any) -> Any:
        return _tree(part, arrays)

    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind not in "biuf":
            return {"unknown": f"array of {value.dtype}"}
        arrays.append(np.array(value, order="C", subok=False))  # the copy reads the numbers here
        return {"array" if isinstance(value, np.ndarray) else "scalar": len(arrays) - 1}
    if isinstance(value, list):
        return list(map(inner, value))
    if isinstance(value, tuple):
        return {"tuple": list(map(inner, value))}
    if isinstance(value, Mapping):
        return {"map": [[str(name), inner(part)] for name, part in value.items()]}
    if isinstance(value, Order):
        return {"order": [value.seed, value.epoch, value.n, value.shuffle]}
    for name, parts in (
        ("log", ("loss", "correct", "size", "has_loss")),
        ("state", ("params", "slots", "step", "buffers")),
    ):
        if all(hasattr(value, part) for part in parts):
            return {name: [inner(getattr(value, part)) for part in parts]}
    return {"unknown": kind_of(value)}


def _value(tree: Any, arrays: list[np.ndarray]) -> Any:
    """Value of a JSON tree: the inverse of `_tree`."""

    def inner(part: Any) -> Any:
        return _value(part, arrays)

    if isinstance(tree, list):
        return list(map(inner, tree))
    if not isinstance(tree, dict):
        return tree
    ((name, part),) = tree.items()
    if name in ("array", "scalar"):
        array = arrays[part]
        return array if name == "array" else array[()]
    if name == "tuple":
        return tuple(map(inner, part))
    if name == "map":
        return {key: inner(value) for key, value in part}
    if name == "order":
        return Order(*part)
    if name == "log":
        loss, correct, size, has_loss = map(inner, part)
        return StepLog(loss, correct, size, has_loss=has_loss)
    if name == "state":
        return State(*map(inner, part))
    return Unknown(str(part))
