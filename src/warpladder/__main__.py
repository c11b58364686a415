"""The command line as a process of its own: what the command `warpladder` runs, and `python -m warpladder` where that
is not on the path.
"""

import os
import sys
import threading
from typing import NoReturn

from .cli import INTERRUPTED, main


def run() -> NoReturn:
    """Run the command line, and end the process with its exit code.

    After Ctrl-C a thread may still compute in a library that ignores signals. Python's own way to end would stop
    such a thread where it next asks for Python's lock, and in C++ code that aborts the process: NumPy's `unique`, with
    which every fit of scikit-learn begins, is such code.
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
