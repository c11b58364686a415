"""docs/walk.md names the functions through which a training goes, in the order in which they are called."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import pytest

import warpladder
from warpladder.cli import main
from warpladder.trainers.kernelwise.where import why_not

PACKAGE = Path(warpladder.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "walk.md"

#: File and function of each stop.
STOPS = re.findall(r"^\d+\. \*\*`([\w/.]+)`\*\*, `([\w.]+)`", PAGE.read_text(encoding="utf-8"), flags=re.M)


def test_the_walk_is_short() -> None:
    assert 10 <= len(STOPS) <= 12


def test_every_file_of_the_walk_is_there() -> None:
    files = re.findall(r"`((?:\w+/)+[\w.]+\.(?:py|cuh?))`", PAGE.read_text(encoding="utf-8"))
    assert len(files) > len(STOPS)
    assert [file for file in files if not (PACKAGE / file).is_file()] == []


@pytest.mark.skipif(why_not("emulated") is not None, reason=str(why_not("emulated")))
def test_a_training_calls_the_stops_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"^warpladder (train .*)$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    first: dict[tuple[str, str], int] = {}  # when each function is called first
    last: dict[tuple[str, str], int] = {}
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            key = Path(code.co_filename).relative_to(PACKAGE).as_posix(), code.co_qualname
            first.setdefault(key, count)
            last[key] = count
            count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        assert main([*command.split(), "--limit", "100", "--no-progress"]) == 0
    finally:
        sys.setprofile(before)
    assert [stop for stop in STOPS if stop not in first] == [], "a stop is never called"
    calls = [first[stop] for stop in STOPS]
    assert calls == sorted(calls), "stops are called in another order"
    assert last[STOPS[-1]] > last[STOPS[-2]], "the last stop comes after all steps"
    assert "Test: loss" in capsys.readouterr().out
