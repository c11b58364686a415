"""`Patience`: processor seconds and tries that a proof's searches for samples may spend in vain."""

from __future__ import annotations

import time

SECONDS = 35.0  # in vain, after which a search ends
TRIES = 24  # in vain, at least, however long they take


class Patience:
    """Time that searches spend in vain: of each try that fails, not of those that find something."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds, self.spent, self.tries, self.since = seconds, 0.0, 0, 0.0
        self.begin()

    def begin(self) -> None:
        """Begin the next try: what came before found something."""
        self.since = time.thread_time()

    def failed(self) -> None:
        """Count the try that was begun last, or that follows the one that failed before."""
        now = time.thread_time()
        self.spent, self.tries, self.since = self.spent + now - self.since, self.tries + 1, now

    @property
    def is_over(self) -> bool:
        return self.spent > self.seconds and self.tries >= TRIES
