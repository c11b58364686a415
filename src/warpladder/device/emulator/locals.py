"""Local variables that are read before they hold anything: a kernel is run twice, with zeros in such variables and with
rubbish, and must do the same.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

from ..source import Source
from .reports import foreign
from .text import bare
from .toolchain import HEADERS, compiler

#: What g++ can put into variables without a value, from version 12 on.
FILLS = ("zero", "pattern")
#: Without what lets a compiler take any value, most often the useful one, for one that was never given.
FLAGS = ("-O1", "-fno-tree-ccp", "-fno-tree-fre", "-fno-tree-copy-prop")

_STATEMENT = re.compile(
    r"(?<=[;{}])\s*(?P<type>(?:[A-Za-z_][\w:]*(?:\s*<[^;{}()]*>)?[\s*]+)+)(?P<names>[A-Za-z_][^;{}()]*);"
)
_NO_VARIABLE = re.compile(
    r"\b(?:return|goto|break|continue|typedef|using|extern|static|else|case|new|delete|operator|__shared__|__constant__)\b"
)
_WARNING = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? warning: (?:‘|')(?P<name>[^’'\n]+)(?:’|') (?:is|may be) used uninitialized",
    re.MULTILINE,
)


def suspected(source: Source) -> bool:
    """Whether a source declares a local variable, or a member of a struct, without a value; where it does not, nothing
    needs to be compiled.
    """
    return any(
        not _NO_VARIABLE.search(match["type"]) and any("=" not in name for name in match["names"].split(","))
        for match in _STATEMENT.finditer(bare(source.text))
    )


def comparable() -> bool:
    """Whether the compiler can fill local variables."""
    return int(re.match(r"\d*", compiler().version)[0] or 0) >= 12  # type: ignore[index]


def places(text: str) -> list[tuple[str, str, int]]:
    """Variables that the compiler thinks are read too early in a source that is ready for it, each with file and line."""
    command = [
        *compiler().command,
        "-std=gnu++20",
        *FLAGS,
        "-fwhole-program",
        "-Wall",
        f"-I{HEADERS}",
        f"-I{HEADERS / 'cuda'}",
    ]
    said = subprocess.run(
        [*command, "-S", "-o", "/dev/null", "-x", "c++", "-"], input=text, capture_output=True, text=True
    ).stderr
    return list(dict.fromkeys(_named(said)))


def _named(said: str) -> Iterator[tuple[str, str, int]]:
    for match in _WARNING.finditer(said):
        if not foreign(match["file"]):
            yield re.sub(r"\b\w+::", "", match["name"]), match["file"], int(match["line"])
