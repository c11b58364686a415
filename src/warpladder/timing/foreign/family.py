"""Family of a process and all its descendants, found by a mark in their environment."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

#: Variable in the environment of a foreign process, which processes that it starts inherit.
MARK = "WARPLADDER_FOREIGN"

#: Seconds between two searches of all processes of the machine; a search takes some milliseconds.
LOOK = 2.0

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Family:
    """Family of processes: a session leader and its descendants, also those that left the session.

    leader : process id of the leader.
    mark : value of `MARK` in the environment.
    """

    def __init__(self, leader: int, mark: str) -> None:
        self.leader, self.mark = leader, f"{MARK}={mark}".encode()
        self.others: tuple[int, ...] = ()
        self.looked = 0.0

    def members(self) -> Iterator[int]:
        """Process ids of the living processes, the leader's first.

        A descendant without the mark is a child of another one, or of the leader, which adopts orphans.
        """
        yield self.leader
        if sys.platform != "linux":
            return
        children: dict[int, list[int]] = {}
        found = {self.leader}
        for process in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{process}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(process)
                with open(f"/proc/{process}/environ", "rb") as file:
                    if self.mark in file.read(1 << 20).split(b"\0"):
                        found.add(process)
        left = list(found)
        while left:
            more = [child for child in children.get(left.pop(), ()) if child not in found]
            found.update(more)
            left += more
        yield from found - {self.leader}

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the family."""
        with suppress(OSError):
            os.killpg(self.leader, number)
        for member in self.others:
            with suppress(OSError):
                os.kill(member, number)

    def kill(self) -> None:
        """Kill all processes of the family, and those that they start meanwhile.

        The leader, which adopts orphans, is the last.
        """
        for _ in range(100):
            left = [member for member in self.members() if member != self.leader]
            for member in left:
                with suppress(OSError):
                    os.kill(member, signal.SIGKILL)
            with suppress(OSError):
                os.killpg(self.leader, signal.SIGKILL)
            if not left:
                return

    def _look(self) -> None:
        """Find the descendants, at most once every LOOK seconds."""
        if time.monotonic() - self.looked > LOOK:
            self.others = tuple(self.members())[1:]
            self.looked = time.monotonic()

    def count(self) -> int:
        """Number of processes of the family."""
        self._look()
        return 1 + len(self.others)

    def memory(self) -> int:
        """Memory of the family in bytes, without pages shared with files."""
        self._look()
        return sum(map(_resident, (self.leader, *self.others)))

    def cpu_seconds(self) -> float:
        """Processor seconds of the family: of all threads of the leader and of the known descendants."""
        return sum(map(_cpu, (self.leader, *self.others)))


def _resident(process: int) -> int:
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/statm") as file:
        _, resident, shared, *_ = map(int, file.read().split())
        return (resident - shared) * PAGE
    return 0


def _cpu(process: int) -> float:
    if sys.platform == "linux":
        with suppress(OSError):
            return time.clock_gettime(((~process) << 3) | 2)  # CPUCLOCK_SCHED of the process, as clock_getcpuclockid
    return 0.0
