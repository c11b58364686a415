"""Translation of the reports of AddressSanitizer and UBSan into the words of the emulator's own reports."""

from __future__ import annotations

import re
from pathlib import Path

from ..device.emulator.reports import foreign

_ADDRESS = re.compile(r"ERROR: AddressSanitizer: (?P<what>[\w-]+)")
_ACCESS = re.compile(r"^(?P<doing>READ|WRITE) of size (?P<size>\d+)", re.MULTILINE)
_FRAME = re.compile(r"^\s+#\d+ 0x[0-9a-f]+ in .*? (?P<file>/[^\n]*?):(?P<line>\d+)(?::\d+)?$", re.MULTILINE)
_REGION = re.compile(
    r"is located (?P<distance>\d+) bytes (?P<side>to the right of|to the left of|after|before|inside of) "
    r"(?P<size>\d+)-byte region"
)
_UNDEFINED = re.compile(r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? runtime error: (?P<what>[^\n]*)", re.MULTILINE)

#: AddressSanitizer's names of accesses outside of any array; SEGV is an address that is not mapped.
_OUTSIDE = (
    "heap-buffer-overflow", "use-after-poison", "stack-buffer-overflow", "stack-buffer-underflow", "SEGV", "BUS",
    "dynamic-stack-buffer-overflow", "global-buffer-overflow", "heap-use-after-free", "container-overflow",
    "wild-addr-read", "wild-addr-write",
)  # fmt: skip

Found = tuple[str, str, list[tuple[str, int]]]


def translated(output: str) -> Found | None:
    """Kind, message and places of the sanitizers' report in a process's output; None without a report."""
    undefined, address = _UNDEFINED.search(output), _ADDRESS.search(output)
    if undefined and not (address and address.start() < undefined.start()):
        return _undefined(undefined)
    return _outside(output, address["what"]) if address else None


def _undefined(match: re.Match[str]) -> Found:
    place, what = (match["file"], int(match["line"])), match["what"]
    kind = "undefined behaviour"
    if re.search("out of bounds|insufficient space|null pointer", what):
        kind = "out of bounds"
    if "misaligned" in what:
        kind = "misaligned"
    return kind, f"{what}, at {Path(place[0]).name}:{place[1]}", [place]


def _outside(output: str, what: str) -> Found:
    frames = [(match["file"], int(match["line"])) for match in _FRAME.finditer(output)]
    places = [place for place in frames if not foreign(place[0]) and Path(place[0]).name != "the list of kernels"]
    access, region = _ACCESS.search(output), _REGION.search(output)
    doing = "uses memory"
    if access:
        doing = f"{'reads' if access['doing'] == 'READ' else 'writes'} {_bytes(access['size'])}"
    where = f" of what AddressSanitizer calls {what}"
    if region:
        side = {"to the right of": "after", "after": "after", "inside of": "within"}.get(region["side"], "before")
        far = f" {_bytes(region['distance'])}" if int(region["distance"]) else " just"
        where = f"{far} {side} an array of {_bytes(region['size'])}"
    elif what == "SEGV":
        where = " at an address that belongs to no array"
    elif what == "use-after-poison":
        where = " of shared memory that belongs to no array"
    elif what.startswith("stack"):
        where = " outside of a local array"
    at = f", at {Path(places[0][0]).name}:{places[0][1]}" if places else ""
    if what == "stack-overflow":
        why = "a recursion does not end, or local arrays are too large"
        return "stack overflow", f"a thread has filled its stack{at}: {why}", places[:1]
    return "out of bounds" if what in _OUTSIDE else what, f"a thread {doing}{where}{at}", places[:1]


def _bytes(number: str) -> str:
    return f"{int(number):,} byte{'' if number == '1' else 's'}"
