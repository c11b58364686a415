"""What AddressSanitizer and UBSan wrote before they stopped a process, in the words of our own reports."""

from __future__ import annotations

import re
from pathlib import Path

from ..device.emulator.reports import foreign

_ADDRESS = re.compile(r"ERROR: AddressSanitizer: (?P<what>[\w-]+)")
_ACCESS = re.compile(r"^(?P<doing>READ|WRITE) of size (?P<size>\d+)", re.MULTILINE)
_FRAME = re.compile(r"^\s+#\d+ 0x[0-9a-f]+ in .*? (?P<file>/[^\n]*?):(?P<line>\d+)(?::\d+)?$", re.MULTILINE)
_REGION = re.compile(
    r"is located (?P<distance>\d+) bytes (?P<side>to the right of|to the left of|after|before|inside of) (?P<size>\d+)-byte region"
)
_UNDEFINED = re.compile(r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? runtime error: (?P<what>[^\n]*)", re.MULTILINE)

#: AddressSanitizer's words for accesses to what is no array's memory; SEGV is an address that nobody owns.
_OUTSIDE = ("heap-buffer-overflow", "use-after-poison", "stack-buffer-overflow", "stack-buffer-underflow", "dynamic-stack-buffer-overflow",
            "global-buffer-overflow", "heap-use-after-free", "container-overflow", "SEGV", "BUS", "wild-addr-read", "wild-addr-write")  # fmt: skip

Found = tuple[str, str, list[tuple[str, int]]]


def translated(said: str) -> Found | None:
    """Kind, message and places of what the sanitizers said; None where they said nothing."""
    undefined, address = _UNDEFINED.search(said), _ADDRESS.search(said)
    if undefined and not (address and address.start() < undefined.start()):
        return _undefined(undefined)
    return _outside(said, address["what"]) if address else None


def _undefined(match: re.Match[str]) -> Found:
    place = match["file"], int(match["line"])
    what = match["what"]
    kind = (
        "out of bounds" if re.search("out of bounds|insufficient space|null pointer", what) else "undefined behaviour"
    )
    kind = "misaligned" if "misaligned" in what else kind
    return kind, f"{what}, at {Path(place[0]).name}:{place[1]}", [place]


def _outside(said: str, what: str) -> Found:
    frames = [(match["file"], int(match["line"])) for match in _FRAME.finditer(said)]
    places = [place for place in frames if not foreign(place[0]) and Path(place[0]).name != "the list of kernels"]
    access, region = _ACCESS.search(said), _REGION.search(said)
    doing = (
        f"{'reads' if access['doing'] == 'READ' else 'writes'} {_bytes(access['size'])}" if access else "uses memory"
    )
    where = f" of what AddressSanitizer calls {what}"
    if region:
        side = {"to the right of": "behind", "after": "behind", "to the left of": "before", "before": "before"}.get(
            region["side"], "within"
        )
        far = f" {_bytes(region['distance'])}" if int(region["distance"]) else " just"
        where = f"{far} {side} an array of {_bytes(region['size'])}"
    elif what == "SEGV":
        where = " at an address that belongs to nobody"
    elif what == "use-after-poison":
        where = " of shared memory that belongs to no array"
    elif what.startswith("stack"):
        where = " outside of a local array"
    at = f", at {Path(places[0][0]).name}:{places[0][1]}" if places else ""
    return "out of bounds" if what in _OUTSIDE else what, f"a thread {doing}{where}{at}", places[:1]


def _bytes(number: str) -> str:
    return f"{int(number):,} byte{'' if number == '1' else 's'}"
