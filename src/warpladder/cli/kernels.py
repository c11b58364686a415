"""List of the kernels of a .cu file, with an example of a command that checks one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .faults import count

if TYPE_CHECKING:
    from ..device.signature import Signature
    from ..device.source import KernelSource

ARRAYS = """\
An array is described by its length or shape, 1000 or [m,n], and what it holds:
:random (the default), :random(0,10), :zeros, :ones, :iota, :uninitialised;
or by a file, x.npy. Several launches are described in a TOML file (docs/check.md)."""


def has_main(file: Path) -> bool:
    """True if a .cu file is a program: it defines main()."""
    from ..device.emulator.hostcode import host_code

    return re.search(r"\bmain\s*\([^;{]*\)\s*(?:try\s*)?\{", host_code(file)) is not None


def listed(file: Path, as_json: bool, verb: str = "check") -> None:
    """List of a file's kernels as text, with an example of the command `verb`."""
    from ..device.declarations import instantiated, readable, signature, templates
    from ..device.emulator.hostcode import device_code, host_code
    from ..device.emulator.symbols import refused
    from ..errors import KernelError

    source = device_code(file)
    without, instances = refused(source), templates(source)
    found = [*(name for name in readable(source) if name not in without), *without]
    if not found:
        raise KernelError(f"{file} has no kernels: no function in it is __global__")
    plain = [signature(source, name) for name in found if name not in instances and name not in without]
    named = instantiated(source)
    if as_json:
        kernels = [{"name": s.name, "parameters": [str(p) for p in s.parameters]} for s in plain]
        more: dict[str, object] = {"instances": named} if named else {}
        more |= {"refused": without} if without else {}
        click.echo(json.dumps({"kernels": kernels, "templates": instances, **more}, indent=2))
        return
    click.echo(f"{file} has {count(len(found), 'kernel')}:\n")
    for kernel in plain:
        click.echo(f"  {kernel}")
    for name in found:
        if name in instances:
            click.echo(f"  {name}<{instances[name]}>, a template: --kernel '{name}<...>' names an instance")
    for instance in named:
        click.echo(f"  {instance}, an instance that the file names")
    for why in without.values():
        click.echo(f"  refused: {why}")
    launched = re.findall(r"[\w:]+\s*(?:<[^<>;]*>)?\s*<<\s*<[^;]*?>>\s*>\s*\([^;]*?\)(?=\s*;)", host_code(file))
    if launched:
        click.echo("\nThe file launches:\n")
        for launch in dict.fromkeys(" ".join(text.split()) for text in launched):
            click.echo(f"  {launch}")
    if not plain and not instances:
        raise KernelError(f"{file} has no kernel that can be checked here")
    click.echo(f"\nTo {'check' if verb == 'check' else 'count'} one, give its launch and its arguments:\n")
    click.echo(_example(file, source, plain, [*named, *(f"{name}<...>" for name in instances)], verb))
    click.echo(f"\n{ARRAYS}")
    if file.with_suffix(".toml").is_file():
        click.echo(f"This folder has one: warpladder {verb} {file.with_suffix('.toml')}")
    if has_main(file):
        click.echo(f"\nTo run main() and check the launches that it makes:\n\n  warpladder check {file}")


def _example(file: Path, source: KernelSource, plain: list[Signature], instances: list[str], verb: str) -> str:
    """Example of a command line for a file's kernels, in lines of 80 columns."""
    from ..device.declarations import signature

    words = [f"warpladder {verb} {file}"]
    if len(plain) + len(instances) > 1 or not plain:
        words.append(f"--kernel {plain[0].name if plain else repr(instances[0])}")
    shown = plain[:1] or [signature(source, name) for name in instances[:1] if not name.endswith("<...>")]
    words += ["--grid 4", "--block 256", *(["--shared 1024"] if "extern __shared__" in source.text else [])]
    for parameter in (leaf for kernel in shown for one in kernel.parameters for leaf in one.leaves):
        words.append(f"--arg {parameter.name}={1000 if parameter.pointer or parameter.dtype.kind in 'iu' else 1}")
    lines = [f"  {words[0]}"]
    for word in words[1:]:
        if len(lines[-1]) + len(word) > 76:
            lines[-1] += " \\"
            lines.append(f"      {word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)
