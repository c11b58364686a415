"""Kernels of a user's .cu file for one operation, with their launches.

A launch is a comment in the file, with this package's names for the kernel's arguments:

    // launch: mine<<<(n * outputs + 255) / 256, 256>>>(x, w, b, y, n, inputs, outputs)

Without the list of arguments each parameter's own name is its argument. Without the comment each kernel that writes an
array of the operation is launched with one thread for each element: in blocks of 256, or of 16 x 16, columns along x,
if it uses threadIdx.y.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...device import Array, Device, KernelSource, Launch
from ...device.declarations import code, instantiated, readable, signature, split, templates, unreadable
from ...device.emulator.hostcode import device_code
from ...device.expressions import evaluate, whole
from ...device.signature import Parameter, Signature
from ...errors import ConfigError, KernelError
from ..engine.kernels import ceil_div
from .roles import Number, Roles, number

_LAUNCH = re.compile(
    r"//\s*launch:\s*(?P<name>[\w:]+\s*(?:<(?!<)[^\n]*?>(?=\s*<<<))?)\s*<<<(?P<config>[^\n]*?)>>>"
    r"[ \t]*(?:\((?P<arguments>[^\n]*)\))?[ \t;]*$",
    re.MULTILINE,
)
_DEFINED = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n/]+?)[ \t]*(?://[^\n]*)?$"
    r"|\b(?:constexpr|const)\s+(?:static\s+)?(?:unsigned|int|size_t)\s+(\w+)\s*=\s*([^;{}]+);",
    re.MULTILINE,
)
#: A line of the file by which ragged shapes are not tried: the kernels are made for the net's own.
_FIXED = re.compile(r"//\s*shapes:\s*net\b")


@dataclass(frozen=True)
class OwnLaunch:
    """Launch of a user's kernel.

    takes : role or expression of each parameter. writes : arrays of the operation that the kernel writes.
    config : expressions for grid, block and shared bytes; () for one thread for each element.
    """

    signature: Signature
    takes: tuple[str, ...]
    writes: tuple[str, ...]
    config: tuple[str, ...]


@dataclass(frozen=True)
class KernelFile:
    """User's .cu file with its kernels for an operation. path : as the user wrote it."""

    path: str
    source: KernelSource
    roles: Roles
    launches: tuple[OwnLaunch, ...]

    @property
    def fixed(self) -> bool:
        """True if the kernels are compiled for the shapes of one net."""
        return bool(_FIXED.search(self.source.text))

    def defined(self) -> dict[str, Number]:
        """Named numbers of the file, by #define and constexpr."""
        found: dict[str, Number] = {}
        for match in _DEFINED.finditer(self.source.text):
            try:
                found[match[1] or match[3]] = evaluate(match[2] or match[4], found)
            except ConfigError:
                continue  # no number
        return found


def read(path: str, roles: Roles, outputs: tuple[str, ...]) -> KernelFile:
    """Kernel file whose kernels write some of these arrays. Raises `KernelError` for missing or doubtful launches."""
    source = device_code(Path(path).expanduser())
    name, known = Path(path).name, readable(source)
    if not known:
        raise KernelError(next(iter(unreadable(source).values()), f"{path} has no kernel: no function is __global__"))
    written = [_stated(match, source, roles, outputs) for match in _LAUNCH.finditer(source.text)]
    if re.search(r"//\s*launch:", source.text) and not written:
        raise KernelError(f"{name}: cannot read its launch: write // launch: kernel<<<grid, block>>>(x, w, b, y, n)")
    launches = [each for each in written if each.writes] or _found(source, known, roles, outputs)
    if not launches:
        raise KernelError(
            f"{name}: no kernel writes {' or '.join(outputs)}, as {roles.op} does: such an array is a pointer that is "
            f"not const, and has that name; it has {', '.join(known)}"
        )
    for each in outputs:
        writers = [launch.signature.name for launch in launches if each in launch.writes]
        if len(writers) > 1 and not written:
            raise KernelError(
                f"{name}: {' and '.join(writers)} write {each}: name one, // launch: {writers[0]}<<<grid, block>>>"
            )
    return KernelFile(path, source, roles, tuple(launches))


def _stated(match: re.Match[str], source: KernelSource, roles: Roles, outputs: tuple[str, ...]) -> OwnLaunch:
    kernel = signature(source, " ".join(match["name"].split()))
    config = tuple(split(match["config"]))
    if not 2 <= len(config) <= 3:
        raise KernelError(
            f"{source.path.name}: {match[0].strip()}: wants <<<grid, block>>> or <<<grid, block, bytes>>>"
        )
    takes = None if match["arguments"] is None else tuple(split(match["arguments"])) if match["arguments"] else ()
    if takes is not None and len(takes) != len(kernel.parameters):
        raise KernelError(f"{source.path.name}: {match[0].strip()}: gives {len(takes)} arguments; it is {kernel}")
    return _own(kernel, takes, source, roles, outputs, config)


def _found(source: KernelSource, known: list[str], roles: Roles, outputs: tuple[str, ...]) -> list[OwnLaunch]:
    """Launches of the kernels that write an output, for a file without launch comments."""
    several = templates(source)
    names = [name for name in known if name not in several] + instantiated(source)
    found, reasons = [], []
    for name in names or known:
        try:
            launch = _own(signature(source, name), None, source, roles, outputs, ())
        except KernelError as error:
            reasons.append(error)
            continue
        if launch.writes:
            found.append(launch)
    if not found and reasons:
        raise reasons[0]
    return found


def _own(
    kernel: Signature, takes: tuple[str, ...] | None, source: KernelSource, roles: Roles, outputs: tuple[str, ...],
    config: tuple[str, ...],
) -> OwnLaunch:  # fmt: skip
    where = f"{source.path.name}: kernel {kernel.name}"
    if takes is None:
        takes = tuple(roles.of(each.name, each.pointer, where) for each in kernel.parameters)
    else:
        pairs = zip(kernel.parameters, takes, strict=True)
        takes = tuple(roles.of(text, True, where) if p.pointer and text not in _NULL else text for p, text in pairs)
    named = zip(kernel.parameters, takes, strict=True)
    writes = tuple(name for p, name in named if p.pointer and not p.const and name in outputs)
    return OwnLaunch(kernel, takes, writes, config)


_NULL = ("nullptr", "NULL", "0")


def bind(
    device: Device,
    file: KernelFile,
    launch: OwnLaunch,
    arrays: Mapping[str, Array | None],
    values: Mapping[str, Number],
) -> Launch:
    """Launch bound to these arrays and numbers, by canonical name. Raises `KernelError` if they do not fit."""
    known = numbers_of(file, launch, values)
    grid, block, shared = shape(file, launch, arrays, known)
    where = f"{Path(file.path).name}: kernel {launch.signature.name}"
    arguments = [
        _argument(parameter, text, arrays, known, where)
        for parameter, text in zip(launch.signature.parameters, launch.takes, strict=True)
    ]
    return device.kernel(file.source, launch.signature.name).bind(grid, block, *arguments, shared=shared)


def numbers_of(file: KernelFile, launch: OwnLaunch, values: Mapping[str, Number]) -> dict[str, Number]:
    """Numbers for a launch's expressions: by canonical name, by the file's names and by the parameters' names."""
    found = {**file.defined(), **{word: values[name] for word, name in file.roles.numbers.items() if name in values}}
    found |= values
    for parameter, text in zip(launch.signature.parameters, launch.takes, strict=True):
        if not parameter.pointer and text in values:
            found[parameter.name] = values[text]
    return found


def _argument(
    parameter: Parameter, text: str, arrays: Mapping[str, Array | None], values: Mapping[str, Number], where: str
) -> Any:
    if parameter.pointer:
        if text in _NULL:
            return None
        if text not in arrays:
            raise KernelError(f"{where}: {parameter} is given {text}, which this pass does not have")
        return arrays[text]
    if parameter.is_struct:
        raise KernelError(f"{where}: {parameter} is a struct, which cannot be passed here: take numbers")
    try:
        return number(evaluate(text, values), parameter.dtype)
    except ConfigError as error:
        raise KernelError(f"{where}: {parameter}: {error}") from None


def shape(
    file: KernelFile, launch: OwnLaunch, arrays: Mapping[str, Array | None], values: Mapping[str, Number]
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Grid, block and bytes of dynamic shared memory of a launch."""
    where = f"{Path(file.path).name}: launch of {launch.signature.name}"
    if launch.config:
        try:
            grid, block = (
                tuple(whole(part, values, where) for part in split(_DIM3.sub(r"\1", text)))
                for text in launch.config[:2]
            )
            return grid, block, whole(launch.config[2], values, where) if len(launch.config) > 2 else 0
        except ConfigError as error:
            raise KernelError(f"{where}: {error}") from None
    body = _body(file.source, launch.signature.name)
    if "extern" in body and re.search(r"extern\s+__shared__|extern\s+__align", body):
        raise KernelError(
            f"{where}: it has dynamic shared memory: give its launch, // launch: k<<<grid, block, bytes>>>"
        )
    written = [arrays[name] for name in launch.writes]
    largest = max((array for array in written if array is not None), key=lambda array: array.size)
    if re.search(r"\b(?:threadIdx|blockIdx)\s*\.\s*y\b", body) and len(largest.shape) > 1:
        rows, columns = largest.size // largest.shape[-1], largest.shape[-1]
        return (ceil_div(columns, 16), ceil_div(rows, 16)), (16, 16), 0
    return (ceil_div(largest.size, 256),), (256,), 0


_DIM3 = re.compile(r"^\s*dim3\s*\((.*)\)\s*$|^\s*\{(.*)\}\s*$", re.DOTALL)


def _body(source: KernelSource, name: str) -> str:
    """Source text from a kernel's head to the next kernel."""
    text = code(source)
    found = re.search(rf"\b{re.escape(name.partition('<')[0].rpartition('::')[2])}\s*\(", text)
    start = found.start() if found else 0
    end = text.find("__global__", start)
    return text[start : end if end > 0 else None]


def command(
    file: KernelFile, launch: OwnLaunch, arrays: Mapping[str, Array | None], values: Mapping[str, Number]
) -> str:
    """Command line that checks a launch, `warpladder check ...`, ready to type."""
    known = numbers_of(file, launch, values)
    grid, block, shared = shape(file, launch, arrays, known)
    name, is_only = launch.signature.name, len(readable(file.source)) == 1 and "<" not in launch.signature.name
    words = ["warpladder check", file.path, *([] if is_only else [f"--kernel {shlex.quote(name)}"])]
    words += [f"--grid {_listed(grid)}", f"--block {_listed(block)}"]
    words += [f"--shared {shared}"] if shared else []
    for parameter, text in zip(launch.signature.parameters, launch.takes, strict=True):
        if parameter.pointer:
            array = arrays.get(text)
            size = "null" if array is None else str(array.size // parameter.width)
            words.append(f"--arg {parameter.name}={size}{':uninitialised' * (text in launch.writes and text != 'w')}")
        else:
            words.append(f"--arg {parameter.name}={number(evaluate(text, known), parameter.dtype):g}")
    return " ".join(words)


def _listed(sizes: tuple[int, ...]) -> str:
    return ",".join(map(str, sizes))
