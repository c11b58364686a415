"""Debug information of an object file, as binutils' readelf prints it: types, members and their offsets."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import KernelError

_ENTRY = re.compile(
    r"\s*<(?P<depth>[0-9a-f]+)><(?P<at>[0-9a-f]+)>: Abbrev Number: \d+(?: \(DW_TAG_(?P<tag>\w+)\))?|"
    r"\s*<[0-9a-f]+>\s+DW_AT_(?P<name>\w+)\s*: (?P<value>.*)"
)


@dataclass
class DebugEntry:
    """Entry of the debug information. tag : "structure_type", "member", ... attributes : values by name, as text."""

    tag: str
    at: int
    attributes: dict[str, str] = field(default_factory=dict)
    inside: list[DebugEntry] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the declared thing, or ""."""
        text = self.attributes.get("name", "")
        return re.sub(r"^\((?:strp|string|line_strp|indirect[^)]*)\)\s*(?:\(offset: \w+\):\s*)?", "", text).strip()

    def number(self, attribute: str, default: int = 0) -> int:
        """Value of an attribute that is a number, also a hexadecimal one; `default` without one."""
        found = re.match(r"(?:\(\w+\)\s*)?(-?(?:0x[0-9a-f]+|\d+))", self.attributes.get(attribute, ""))
        return int(found[1], 0) if found else default

    @property
    def type(self) -> int:
        """Position of the type's entry; -1 for void."""
        found = re.search(r"<0x([0-9a-f]+)>", self.attributes.get("type", ""))
        return int(found[1], 16) if found else -1


def entries(path: Path) -> dict[int, DebugEntry]:
    """Entries of an object file by position. Raises `KernelError` without readelf."""
    if shutil.which("readelf") is None:
        raise KernelError("readelf of binutils, which reads the layout of types, is not there")
    command = ["readelf", "--debug-dump=info", "-W", str(path)]
    printed = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=os.environ | {"LC_ALL": "C"}
    )
    found: dict[int, DebugEntry] = {}
    around: list[DebugEntry] = []
    for line in printed.stdout.splitlines():
        match = _ENTRY.match(line)
        if match is None:
            continue
        if match["name"] and around:
            around[-1].attributes.setdefault(match["name"], match["value"])
        elif match["tag"]:
            entry = DebugEntry(match["tag"], int(match["at"], 16))
            del around[int(match["depth"], 16) :]
            if around:
                around[-1].inside.append(entry)
            around.append(entry)
            found[entry.at] = entry
    return found
