"""Run of a description's launches in this process, in one mode.

check.py starts a process for each mode, so that a faulty kernel ends only its own process:

python -m warpladder.checker.run JOB RESULT

JOB is JSON that check.py writes. RESULT gets a line of JSON for each event, flushed before the next begins: after
the process has died, its last line is the running launch. The process ends when its standard input, held by the
parent, is closed.
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

from ..device.emulator.hostcode import device_code
from ..errors import WarpladderError
from .contents import differs_by_rounding, first_difference
from .description import Description, unpacked
from .passes import Pass, TimeLimit, Write, quiet
from .plan import plan
from .uninitialised import comparable, compare_fills, suspected


def run(
    description: Description, mode: str, orders: tuple[str, ...], seed: int, limit: TimeLimit, write: Write
) -> None:
    """Run the launches in a mode, once for each order of threads, and report faults; the orders must give equal
    results.
    """
    source = device_code(description.source)
    results: dict[str, dict[str, np.ndarray]] = {}
    for order in orders:
        worked_out = plan(description, source, seed)
        one_pass = Pass(worked_out, source, mode, order, seed, limit, write)
        result = one_pass.run()
        if result is None:
            return
        results[order] = result
        quiet()
    if mode != "fast":
        return
    # longest likely sum
    longest = max((math.prod(shape) for shape, _ in worked_out.shapes.values()), default=1)
    for name, wanted in worked_out.expect.items():
        if not one_pass.refused:
            _expect(name, results[orders[0]][name].reshape(-1), wanted.reshape(-1), longest, write)
    for name in worked_out.shapes:
        _agree(name, {order: result[name] for order, result in results.items()}, longest, write)
    if suspected(source) and comparable():
        compare_fills(worked_out, source, seed, limit, write)
    elif suspected(source):
        write(remark="Reads of local variables without a value were not looked for: that takes g++ 12 or newer")


def _expect(name: str, found: np.ndarray, wanted: np.ndarray, longest: int, write: Write) -> None:
    if not differs_by_rounding(found, wanted, longest):
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
        values = f"{where} is {was} in {first} order and {is_now} in {order} order"
        what = f"{values}; {count:,} of {wanted.size:,} numbers differ"
        if differs_by_rounding(found, wanted, longest):
            write(remark=f"{what}, by no more than rounding explains")
        else:
            write(kind="order", message=what, places=[], array=name)
            return


def _end_with_the_parent(limit: TimeLimit) -> None:
    os.read(0, 1)  # not sys.stdin, whose lock Python needs at its end
    limit.stopped()
    os._exit(1)


def main(job: str, result: str) -> None:
    # The parent handles Ctrl-C: it reads the faults and ends this process. Compilers handle it themselves.
    signal.signal(signal.SIGINT, lambda *_: None)
    with Path(result).open("w", encoding="utf-8") as file:

        def write(**entry: Any) -> None:
            print(json.dumps(entry), file=file, flush=True)

        given = json.loads(Path(job).read_text(encoding="utf-8"))
        limit = TimeLimit(given["limit"], write)
        threading.Thread(target=_end_with_the_parent, args=(limit,), daemon=True).start()
        try:
            run(unpacked(given["description"]), given["mode"], tuple(given["orders"]), given["seed"], limit, write)
        except WarpladderError as error:
            write(error=type(error).__name__, message=str(error))
        except Exception:  # unforeseen: the parent shows it as it is
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        write(end=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
