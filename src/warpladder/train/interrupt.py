"""`Interrupt`: it records Ctrl-C and SIGTERM, and training stops between two steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Context that stores SIGINT and SIGTERM in `signum`; a second signal has its usual effect.

    Off the main thread Python allows no handlers, and `signum` stays None. An ignored signal (`nohup`) stays ignored.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for signum in SIGNALS:
                handler = signal.getsignal(signum)
                if handler not in (None, signal.SIG_IGN):
                    self._previous[signum] = handler
                    signal.signal(signum, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        while self._previous:
            signum, handler = self._previous.popitem()
            signal.signal(signum, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is None:
            self.signum = signum
            return
        self.__exit__()
        signal.raise_signal(signum)
