"""List of the kernels of a .cu file, with an example of a command that checks one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import click

from .faults import count

ARRAYS = """\
An array is described by its length or shape, 1000 or [m,n], and what it holds:
:random (the default), :random(0,10), :zeros, :ones, :iota, :uninitialised;
or by a file, x.npy. Several launches are described in a TOML file (docs/check.md)."""


def has_main(file: Path) -> bool:
    """True if a .cu file is a program: it defines main()."""
    from ..device import source
    from ..device.emulator.hostcode import host_code
    from ..device.emulator.rewrite import bare

    text = source.read(file).text
    host = host_code(file) if "__global__" in text else bare(text)
    return re.search(r"\bmain\s*\([^;{]*\)\s*(?:->\s*int\s*)?(?:try\s*)?\{", host) is not None


#: Kernels of a file for which a launch is proposed.
PROPOSED = 6


def listed(file: Path, as_json: bool, verb: str = "check", is_toml: bool = False, can_run: bool = True) -> str:
    """Text that lists the kernels of a file, with examples of the command `verb`.

    is_toml : print a TOML file with proposed launches instead. can_run : False if its main() was refused.
    Returns the compiler's error, or "".
    """
    from ..checker.proposals import proposals
    from ..device.declarations import instantiated, readable, signature, templates
    from ..device.emulator.hostcode import device_code, host_code, left_out
    from ..device.emulator.module import errors_of
    from ..device.emulator.symbols import refused
    from ..errors import KernelError
    from .proposed import command, skeleton

    source = device_code(file)
    without, instances = refused(source), templates(source)
    found = [*(name for name in readable(source) if name not in without), *without]
    if not found:
        raise KernelError(f"{file} has no kernels: no function in it is __global__")
    plain = [signature(source, name) for name in found if name not in instances and name not in without]
    named = instantiated(source)
    proposed = proposals(source, host_code(file), [kernel.name for kernel in plain] + named)
    if is_toml:
        click.echo(skeleton(proposed, file), nl=False)
        return ""
    errors = errors_of(source)
    wrong = next(iter(errors.values()), "")
    if as_json:
        kernels = [{"name": s.name, "parameters": [str(p) for p in s.parameters]} for s in plain]
        more: dict[str, object] = {"instances": named} if named else {}
        more |= {"refused": without} if without else {}
        more |= {"error": wrong} if wrong else {}
        click.echo(json.dumps({"kernels": kernels, "templates": instances, **more}, indent=2))
        return wrong
    click.echo(f"{file} has {count(len(found), 'kernel')}:\n")
    for kernel in plain:
        click.echo(f"  {kernel}")
    for name in found:
        if name in instances:
            click.echo(f"  {name}<{instances[name]}>, a template: --kernel '{name}<...>' names an instance")
    for instance in named:
        click.echo(f"  {instance}, an instance that the file names")
    _show_faults(without, errors, left_out(file))
    launched = re.findall(r"[\w:]+\s*(?:<[^<>;]*>)?\s*<<\s*<[^;]*?>>\s*>\s*\([^;]*?\)(?=\s*;)", host_code(file))
    if launched:
        click.echo("\nThe file launches:\n")
        for launch in dict.fromkeys(" ".join(text.split()) for text in launched):
            click.echo(f"  {launch}")
    if not plain and not instances:
        raise KernelError(f"{file} has no kernel that can be checked here")
    is_only = len(found) == 1 and not named and not instances
    _show_proposals(file, [command(each, file, verb, is_only) for each in proposed[:PROPOSED]], verb, instances)
    click.echo(ARRAYS)
    if file.with_suffix(".toml").is_file():
        click.echo(f"This folder has one: warpladder {verb} {file.with_suffix('.toml')}")
    _show_other_ways(file, verb, can_run)
    return wrong


def unlaunched(file: Path, done: str) -> str:
    """Error of a command without a launch, for a file without a program. done : what the command would have done."""
    return f"{file}: nothing was {done}: a launch is missing, see above; --list alone lists the kernels"


def _show_faults(refused: Mapping[str, str], errors: Mapping[str, str], lost: list[str]) -> None:
    """Show why some kernels cannot be checked, and the headers that were left out."""
    for why in refused.values():
        click.echo(f"  refused: {why}")
    for name, why in errors.items():
        click.echo(f"  {name} does not compile: {why}")
    for header in lost:
        click.echo(f"  note: {header}, and the kernels are compiled without it")


def _show_other_ways(file: Path, verb: str, can_run: bool) -> None:
    if re.search(r"^\s*//\s*launch:", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE):
        click.echo(
            "\nTo check it at the shapes of a net, for which the file names a launch:\n\n"
            f"  warpladder climb mlp --data digits --op linear.forward={file}\n\n"
            "The name before the = is the operation whose kernel it is."
        )
    if can_run and has_main(file):
        what = "check" if verb == "check" else "count"
        click.echo(f"\nTo run main() and {what} the launches that it makes:\n\n  warpladder {verb} {file}")


def _show_proposals(file: Path, commands: list[str], verb: str, templates: Mapping[str, str]) -> None:
    what = f"{'check' if verb == 'check' else 'count'} {'one' if len(commands) > 1 else 'it'}"
    click.echo(f"\nTo {what}, give its launch and arguments:\n")
    for each in commands:
        click.echo(f"{each}\n")
    toml = file.with_suffix(".toml").name
    if not commands:
        click.echo(f"  warpladder {verb} {file} --kernel '{next(iter(templates))}<...>' --grid 4 --block 256\n")
    elif verb == "check":
        click.echo(f"To write these launches to a file: warpladder check {file} --toml > {toml}\n")
