"""Command line as a process: entry point of the command `warpladder` and of `python -m warpladder`."""

import os
import sys
import threading
from typing import NoReturn

try:
    from .cli import INTERRUPTED, main
except KeyboardInterrupt:  # the imports take a third of a second
    sys.stderr.write("warpladder: interrupted\n")
    sys.exit(130)


def run() -> NoReturn:
    """Run the command line, and end the process with its exit code.

    After Ctrl-C a thread may still compute in a library that ignores signals. Python's usual exit would stop this
    thread when it next takes Python's lock; in C++ code this aborts the process, for example in NumPy's `unique`, with
    which every fit of scikit-learn begins.
    """
    code = main()
    if code >= INTERRUPTED and any(thread.daemon for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # None: the reader of a pipe left
                stream.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    run()
