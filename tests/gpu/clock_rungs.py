"""Rungs from outside on a GPU, by CuPy and by cuda-core: honest ones must be timed; cheats of the clock and wrong
trainers must be refused, or timed with all of their work.

    python tests/gpu/clock_rungs.py                 all of them, by CuPy and cuda-core in turns, in about 150 s
    python tests/gpu/clock_rungs.py --by emulated   without a GPU, slowly
    python tests/gpu/clock_rungs.py --only skips-steps,in-graphs --by core

Prints a line for each rung; returns 1 if a verdict is another than expected. Rungs that must gain nothing are timed one
at a time, beside the plain rung of the same runtime; all others run six at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, starmap
from pathlib import Path
from time import perf_counter
from typing import Any

HERE = Path(__file__).parent / "clock"
sys.path.insert(0, str(HERE))

LIMIT = 100.0  # seconds of one rung
GAIN = 3.0  # a cheat that is so many times as fast as its honest twin has gained

REFUSED, TIMED, IN_VAIN = "refused", "timed", "in vain"


def table() -> dict[str, str]:
    """The expected verdict of each way."""
    from cheats import IN_VAIN as vain
    from cheats import REFUSED as refused
    from honest import HONEST as honest

    return {**dict.fromkeys(honest, TIMED), **dict.fromkeys(refused, REFUSED), **dict.fromkeys(vain, IN_VAIN)}


def climbed(name: str) -> dict[str, Any]:
    """Status, reason and seconds of an epoch of a rung, in this process."""
    import warpladder as wl

    config = wl.TrainConfig(epochs=1, batch_size=64, learning_rate=0.1)
    net = wl.nets.softmax((1, 8, 8))
    results = wl.climb(net, "digits", config, [name], repeats=2, kept=False)
    rung = results.rungs[0]
    seconds = rung.timing.seconds_per_epoch if rung.timing else None
    return {"status": rung.status, "reason": rung.reason or "", "epoch": seconds}


def asked(way: str, by: str) -> dict[str, Any]:
    """The same in a process of its own, and the seconds that it took."""
    began = perf_counter()
    command = [sys.executable, __file__, "--one", f"{HERE / 'mine.py'}:way={way}:by={by}"]
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=os.environ)
        found = json.loads(out.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        found = {"status": "no end", "reason": f"it took more than {LIMIT:.0f} s", "epoch": None}
    except (IndexError, ValueError):
        found = {"status": "no answer", "reason": " ".join(out.stderr.split())[-300:], "epoch": None}
    return {**found, "way": way, "by": by, "took": perf_counter() - began}


def verdict(found: dict[str, Any], expected: str, twin: float | None) -> str:
    """What was seen: refused, timed, or timed and faster than the plain rung may be; no verdict without a plain rung.

    An honest rung may be faster than the plain one, which copies from pageable memory.
    """
    if twin is None:
        return "no twin"
    if found["status"] in ("refused", "failed"):
        return REFUSED
    if found["status"] != "timed":
        return found["status"]
    return TIMED if expected != IN_VAIN or found["epoch"] * GAIN > twin else "gained"


def is_wrong(found: dict[str, Any], expected: str, twins: dict[str, float | None]) -> bool:
    """Whether a rung's verdict is another than expected; prints its line."""
    seen = verdict(found, expected, twins[found["by"]])
    is_right = seen == expected or (expected == IN_VAIN and seen in (REFUSED, TIMED))
    reason = found["reason"][:110] if seen != TIMED or not is_right else ""
    epoch = f"{1e3 * found['epoch']:9.3f} ms" if found["epoch"] is not None else " " * 12
    verdicts = f"{found['way']:20} {found['by']:9} expected {expected:8} seen {seen:8}"
    print(f"{'  ' if is_right else '! '}{verdicts} {found['took']:5.1f} s {epoch}  {reason}".rstrip(), flush=True)
    return not is_right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--by", default="cupy,core", help="what runs the kernels: cupy, core, own, emulated, in turns")
    parser.add_argument("--only", help="names of rungs, with commas between; plain is always one")
    parser.add_argument("--jobs", type=int, default=6, help="rungs at a time")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(climbed(chosen.one)))
        return 0
    expected, by, began = table(), chosen.by.split(","), perf_counter()
    ways = [way for way in (chosen.only.split(",") if chosen.only else expected) if way != "plain"]
    together = [way for way in ways if expected[way] != IN_VAIN]
    alone = [("plain", each) for each in by] + [(way, each) for way in ways if expected[way] == IN_VAIN for each in by]
    jobs = [(way, by[number % len(by)]) for number, way in enumerate(together)]
    twins: dict[str, float | None] = {}
    wrong = 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for found in chain(starmap(asked, alone), pool.map(lambda job: asked(*job), jobs)):
            if found["way"] == "plain":
                twins[found["by"]] = found["epoch"]
            wrong += is_wrong(found, expected[found["way"]], twins)
    print(f"{len(alone) + len(jobs)} rungs, {wrong} not as expected, {perf_counter() - began:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
