"""Proposed launches of a file's kernels, as commands and as a TOML file."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..checker.proposals import Proposal

#: Columns of a line of a command.
COLUMNS = 76


def command(proposal: Proposal, file: Path, verb: str, is_only: bool) -> str:
    """Command line that makes a launch, in lines of 80 columns. is_only : True if the file has no other kernel."""
    words = [f"warpladder {verb} {shlex.quote(str(file))}"]
    if not is_only:
        words.append(f"--kernel {shlex.quote(proposal.kernel)}")
    for name, sizes in (("grid", proposal.grid), ("block", proposal.block)):
        words.append(f"--{name} {shlex.quote(','.join(sizes))}")
    if proposal.shared != "0":
        words.append(f"--shared {shlex.quote(proposal.shared)}")
    given = {**proposal.arrays, **proposal.values}
    words += [f"--arg {shlex.quote(f'{name}={what}')}" for name, what in given.items()]
    words += [f"--arg {shlex.quote(f'{name}={what}')}" for name, what in proposal.arguments.items()]
    lines = [f"  {words[0]}"]
    for word in words[1:]:
        if len(lines[-1]) + len(word) > COLUMNS:
            lines[-1] += " \\"
            lines.append(f"      {word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


def skeleton(proposals: list[Proposal], file: Path) -> str:
    """TOML file with all launches, in order, over the same arrays."""
    values: dict[str, str] = {}
    arrays: dict[str, str] = {}
    types: dict[str, str] = {}  # of guesses, whose arrays are one where name, size and type are
    launches = []
    for proposal in proposals:
        arguments: dict[str, str] = {}
        for name, text in proposal.values.items():
            if values.setdefault(name, text) != text:
                arguments[name] = text
        names = {}
        for name, text in proposal.arrays.items():
            array = proposal.pointers.get(name, name)
            mine = proposal.types.get(name, "")
            is_other = arrays.get(array, text) != text or types.get(array, mine) != mine
            if array in values or (not proposal.pointers and is_other):
                plain = re.sub(r"\W.*", "", proposal.kernel)
                tries = (f"{array}_{plain}{number}" for number in ("", *range(2, 100)))
                array = next(each for each in tries if each not in arrays)
            names[name] = array
            types[array] = mine
            arrays.setdefault(array, text)
            if array != name:
                arguments[name] = array
        for name, text in proposal.arguments.items():
            within = re.match(r"(\w+)(?=\+)", text)
            arguments[name] = names.get(within[0], within[0]) + text[within.end() :] if within else text
        launches.append((proposal, arguments))
    out = [f"source = {_quoted(file.name)}", "", "[values]"]
    out += [f"{_key(name)} = {_number(text)}" for name, text in values.items()]
    out += ["", "[arrays]  # length : content, which is random without one"]
    out += [f"{_key(name)} = {_quoted(text.replace(':', ': '))}" for name, text in arrays.items() if name not in values]
    for proposal, arguments in launches:
        out += [
            "",
            f"[[launch]]{f'  # {proposal.origin}' if proposal.origin else ''}",
            f"kernel = {_quoted(proposal.kernel)}",
        ]
        out += [f"{name} = {_sizes(sizes)}" for name, sizes in (("grid", proposal.grid), ("block", proposal.block))]
        out += [f"shared = {_number(proposal.shared)}"] if proposal.shared != "0" else []
        given = ", ".join(f"{_key(name)} = {_number(text)}" for name, text in arguments.items())
        out += [f"arguments = {{ {given} }}"] if given else []
    return "\n".join([*out, "", "# [expect]", '# y = "y.npy"  # what an array must hold in the end', ""])


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text)


def _number(text: str) -> str:
    return text if re.fullmatch(r"-?\d+(?:\.\d+)?", text) else _quoted(text)


def _sizes(sizes: tuple[str, ...]) -> str:
    return _number(sizes[0]) if len(sizes) == 1 else f"[{', '.join(map(_number, sizes))}]"
