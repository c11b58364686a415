"""Signals that come where Python ignores exceptions: they end the command all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from warpladder.cli.shared.progress import stoppable
from warpladder.errors import Stopped


class Interrupted:
    """Object whose destructor is running when a signal comes."""

    def __init__(self, signum: int) -> None:
        self.signum = signum

    def __del__(self) -> None:
        os.kill(os.getpid(), self.signum)
        time.sleep(0.01)  # the handler raises here


@pytest.mark.parametrize(("signum", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Stopped)])
def test_a_signal_in_a_destructor_is_not_lost(signum: int, kind: type[BaseException]) -> None:
    with pytest.raises(kind), stoppable():
        Interrupted(signum)
        time.sleep(10)
        pytest.fail("the signal was lost")


IMPORT = """
import sys
class Stop:
    def find_spec(self, name, *_):
        if name == "warpladder.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
import warpladder.__main__
"""


def test_ctrl_c_during_the_imports_is_one_line() -> None:
    found = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "warpladder: interrupted\n")
