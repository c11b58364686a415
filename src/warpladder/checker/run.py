"""Runs a description in this process, in one mode; `check` starts a process for each mode, so that a kernel can only
bring down its own.

    python -m warpladder.checker.run JOB RESULT

JOB is JSON (`check` writes it). RESULT gets a line of JSON for each thing that happens, flushed before the next begins:
what was running when a process dies is its last line. It dies when its standard input ends, which the parent holds.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from ..device.emulator.locals import comparable, suspected
from ..errors import WarpladderError
from .compare import first_difference, rounding
from .description import Description, unpacked
from .hostcode import device_code
from .limit import TimeLimit, quiet
from .passes import Once, Write
from .plan import plan
from .uninitialised import compared


def run(
    description: Description, mode: str, orders: tuple[str, ...], seed: int, limit: TimeLimit, write: Write
) -> None:
    """Send the launches in a mode, once for each order of threads, and write down what is found; orders must agree."""
    source = device_code(description.source)
    results: dict[str, dict[str, np.ndarray]] = {}
    for order in orders:
        worked_out = plan(description, source, seed)
        once = Once(worked_out, source, mode, order, seed, limit, write)
        result = once.run()
        if result is None:
            return
        results[order] = result
        quiet()
    if mode != "fast":
        return
    longest = max(
        (math.prod(shape) for shape, _ in worked_out.shapes.values()), default=1
    )  # no sum is likely to be longer
    for name, wanted in worked_out.expect.items():
        if not once.refused:
            _expect(name, results[orders[0]][name].reshape(-1), wanted.reshape(-1), longest, write)
    for name in worked_out.shapes:
        _agree(name, {order: result[name] for order, result in results.items()}, longest, write)
    if suspected(source) and comparable():
        compared(worked_out, source, seed, limit, write)
    elif suspected(source):
        write(remark="Whether a local variable is read that has no value was not looked at: g++ 12 or newer can tell")


def _expect(name: str, found: np.ndarray, wanted: np.ndarray, longest: int, write: Write) -> None:
    if not rounding(found, wanted, longest):
        where, is_now, should, count = first_difference(name, found, wanted)
        message = f"{where} is {is_now} and should be {should}; {count:,} of {wanted.size:,} numbers differ"
        write(kind="wrong result", message=message, places=[], array=name)


def _agree(name: str, results: dict[str, np.ndarray], longest: int, write: Write) -> None:
    first, *others = results
    for order in others:
        found, wanted = results[order], results[first]
        if found.tobytes() == wanted.tobytes():
            continue
        where, is_now, was, count = first_difference(name, found, wanted)
        what = f"{where} is {was} in {first} order and {is_now} in {order} order; {count:,} of {wanted.size:,} numbers differ"
        if rounding(found, wanted, longest):
            write(remark=f"{what}, by no more than rounding explains")
        else:
            write(kind="order", message=what, places=[], array=name)
            return


def _end_with_the_parent(limit: TimeLimit) -> None:
    os.read(0, 1)  # not sys.stdin, whose lock Python wants when it ends
    limit.stopped()
    os._exit(1)


def main(job: str, result: str) -> None:
    signal.signal(
        signal.SIGINT, lambda *_: None
    )  # Ctrl-C is the parent's, which reads what was found and ends this process; compilers keep theirs
    with Path(result).open("w", encoding="utf-8") as file:

        def write(**entry: Any) -> None:
            print(json.dumps(entry), file=file, flush=True)

        asked = json.loads(Path(job).read_text(encoding="utf-8"))
        limit = TimeLimit(asked["limit"], write)
        threading.Thread(target=_end_with_the_parent, args=(limit,), daemon=True).start()
        try:
            run(unpacked(asked["description"]), asked["mode"], tuple(asked["orders"]), asked["seed"], limit, write)
        except WarpladderError as error:
            write(error=type(error).__name__, message=str(error))
        except Exception:  # nobody foresaw it: the parent shows it as it is
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        write(end=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
