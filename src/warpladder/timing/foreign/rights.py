"""Rights of a foreign process, and scheduling of the climb's own: it must not write to the climb's memory, and it must
not slow others down.

Processes of one user may change each other's priority and processors. A process may read and write another one's memory
only if it has all of its capabilities, so a foreign process of root gives a few up that no training needs.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

#: Capabilities that are given up: NET_RAW, SYS_PTRACE, SYS_NICE, AUDIT_WRITE, SETFCAP. MKNOD stays: CUDA makes devices.
GIVEN_UP = 13, 19, 23, 29, 31
CHILD_SUBREAPER, BOUNDING_SET_DROP = 36, 24  # options of prctl
CAPABILITY_VERSION = 0x20080522  # of 64 bits

#: Priority, scheduler and processors of each thread.
Scheduling = dict[int, tuple[int, int, frozenset[int]]]


def restrict() -> None:
    """Let this process adopt orphans among its descendants, so that they are found, and give up rights of root."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    libc.prctl(CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.geteuid():
        return
    for each in GIVEN_UP:  # else a program that it starts has them again
        libc.prctl(BOUNDING_SET_DROP, each, 0, 0, 0)
    header, held = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, held) == 0:
        for at in range(3):  # effective, permitted and inheritable ones below number 32
            held[at] &= ~sum(1 << each for each in GIVEN_UP)
        libc.capset(header, held)


def scheduling() -> Scheduling:
    """Scheduling of this process's threads, by their ids; empty where the system does not tell."""
    found: Scheduling = {}
    if sys.platform == "linux":
        for thread in map(int, os.listdir("/proc/self/task")):
            with suppress(OSError):  # it has ended meanwhile
                priority = os.getpriority(os.PRIO_PROCESS, thread)
                found[thread] = priority, os.sched_getscheduler(thread), frozenset(os.sched_getaffinity(thread))
    return found


def restored(before: Scheduling) -> str:
    """Restore the scheduling of threads that still run; return what was other, or ""."""
    other = ""
    for thread, now in scheduling().items():
        was = before.get(thread, now)
        if was == now:
            continue
        names = "priority", "scheduler", "processors"
        other = next(name for name, a, b in zip(names, was, now, strict=True) if a != b)
        with suppress(OSError):
            os.sched_setaffinity(thread, was[2])
            os.setpriority(os.PRIO_PROCESS, thread, was[0])
    return other
