"""Messages of the C++ compiler: their places, and the first error as one line."""

from __future__ import annotations

import re

from . import constant_sizes, of_host


class CompilerMessages(Exception):
    """Messages of the compiler, the cause of a `KernelError`."""

    def places(self) -> list[tuple[str, int]]:
        """File and line of each error, and of each use of a macro that leads to one."""
        what = r"(?:(?:fatal )?error: |note: in expansion of macro)"
        found = re.findall(rf"^([^:\n]+):(\d+):(?:\d+:)? {what}", str(self), re.MULTILINE)
        return list(dict.fromkeys((file, int(line)) for file, line in found))


def refused(why: str, said: str) -> str | None:
    """Reason why nvcc refuses what the emulator marked or counted, from an error and all messages; None for another."""
    if "emu: parameters" in why:
        bytes = re.search(r"takes_parameters\(\) \[with .*?bytes = (\d+)", said)
        size = f"{bytes[1]} bytes" if bytes else "more bytes"
        return f"the kernel's parameters take {size}, and nvcc takes 32764: pass a pointer to memory of the device"
    notebook = re.search(r"^ *\d+ \| *(?P<name>%%\w+|!\w+|%\w+)", said, re.MULTILINE)
    if notebook and re.match(r"expected unqualified-id before ['‘][%!]", why):
        return f"{notebook['name']} is a command of a notebook and no C++: take the line out"
    return of_host.reason(why)


def first_error(said: str, what: str) -> str:
    """First error of the compiler in one line: "file:line: reason"."""
    if constants := constant_sizes.reason(said):
        return constants
    for line in said.splitlines():
        match = re.match(r"(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<why>.*)", line)
        if match:
            if "emu: parameters" in match["why"]:  # at a line of the emulator's
                return f"{what}: {refused(match['why'], said)}"
            return f"{match['file']}:{match['line']}: {refused(match['why'], said) or match['why']}"
    lines = [line for line in said.splitlines() if line.strip()]
    return f"{what} does not compile: {lines[0] if lines else 'the compiler says nothing'}"
