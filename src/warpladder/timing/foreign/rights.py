"""Rights of a foreign process, and scheduling of the climb's own: it must not write to the climb's memory, end the
climb by a signal, or slow others down.

Processes of one user may change each other's priority and processors. A process may read and write another one's memory
only if it has all of its capabilities, so a foreign process of root gives a few up that no training needs. From Linux
6.12 on Landlock keeps its signals, and its reach into memory, to itself and its descendants, for any user. There a
filter of system calls keeps it from setting limits of other processes too: a limit of processor seconds ends them.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from contextlib import suppress

#: Capabilities that are given up: NET_RAW, SYS_PTRACE, SYS_NICE, AUDIT_WRITE, SETFCAP. MKNOD stays: CUDA makes devices.
GIVEN_UP = 13, 19, 23, 29, 31
CHILD_SUBREAPER, BOUNDING_SET_DROP, NO_NEW_PRIVILEGES = 36, 24, 38  # options of prctl
CREATE_RULESET, RESTRICT_SELF = 444, 446  # system calls of Landlock
SCOPE_SIGNALS, FIRST_WITH_SCOPES = 2, 6  # a scope, and the first version of Landlock that has scopes
CAPABILITY_VERSION = 0x20080522  # of 64 bits

SECCOMP, FILTER = 22, 2  # an option of prctl, and its mode
#: Number of the processor's kind in a filter, and of the system call prlimit64.
PRLIMIT = {"x86_64": (0xC000003E, 302), "aarch64": (0xC00000B7, 261)}
LOAD, AND, EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06  # instructions of a filter
KIND, CALL, PROCESS, LIMIT = 4, 0, 16, 32  # bytes before them in a call: of its processor, its number, two arguments
ALLOW, FORBID = 0x7FFF0000, 0x00050001  # results of a filter: the second makes the call return EPERM

#: Priority, scheduler and processors of each thread.
Scheduling = dict[int, tuple[int, int, frozenset[int]]]


def restrict() -> None:
    """Let this process adopt orphans among its descendants, so that they are found, and give up its rights to trace,
    signal or reschedule other processes.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    libc.prctl(CHILD_SUBREAPER, 1, 0, 0, 0)
    if scopes():
        _keep_signals(libc)
    if os.geteuid():
        return
    for each in GIVEN_UP:  # else a program that it starts has them again
        libc.prctl(BOUNDING_SET_DROP, each, 0, 0, 0)
    header, held = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, held) == 0:
        for at in range(3):  # effective, permitted and inheritable ones below number 32
            held[at] &= ~sum(1 << each for each in GIVEN_UP)
        libc.capset(header, held)


def scopes() -> bool:
    """True if the system's Landlock can restrict the signals of a process."""
    if sys.platform != "linux":
        return False
    return ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1) >= FIRST_WITH_SCOPES


def _keep_signals(libc: ctypes.CDLL) -> None:
    """Restrict the signals of this process and its descendants to themselves."""
    rules = (ctypes.c_uint64 * 3)(0, 0, SCOPE_SIGNALS)  # of files, of the network, scopes
    ruleset = libc.syscall(CREATE_RULESET, rules, ctypes.c_size_t(ctypes.sizeof(rules)), 0)
    if ruleset >= 0:
        libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        libc.syscall(RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)
        _keep_limits(libc)


def _keep_limits(libc: ctypes.CDLL) -> None:
    """Forbid this process and its descendants to set limits of other processes; each may read all, and set its own."""
    if platform.machine() not in PRLIMIT:
        return
    kind, number = PRLIMIT[platform.machine()]
    steps = [  # an instruction, its operand, and how many instructions to skip if it is equal, and if not
        (LOAD, KIND, 0, 0), (EQUAL, kind, 0, 11),
        (LOAD, CALL, 0, 0), (AND, 0xBFFFFFFF, 0, 0), (EQUAL, number, 0, 7),  # without the bit of calls of x32
        (LOAD, PROCESS, 0, 0), (EQUAL, 0, 5, 0), (EQUAL, os.getpid(), 4, 0),
        (LOAD, LIMIT, 0, 0), (EQUAL, 0, 0, 3), (LOAD, LIMIT + 4, 0, 0), (EQUAL, 0, 0, 1),  # an address of 64 bits
        (RETURN, ALLOW, 0, 0), (RETURN, FORBID, 0, 0),
    ]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", code, yes, no, k) for code, k, yes, no in steps))
    program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(code)))
    libc.prctl(SECCOMP, FILTER, program, 0, 0)


def scheduling(*processes: int) -> Scheduling:
    """Scheduling of the threads of processes, by default of this one, by their ids; empty where the system does not
    tell.
    """
    found: Scheduling = {}
    for process in (processes or ("self",)) if sys.platform == "linux" else ():
        with suppress(OSError):  # it has ended meanwhile
            for thread in map(int, os.listdir(f"/proc/{process}/task")):
                priority = os.getpriority(os.PRIO_PROCESS, thread)
                found[thread] = priority, os.sched_getscheduler(thread), frozenset(os.sched_getaffinity(thread))
    return found


def restored(before: Scheduling, *processes: int) -> str:
    """Restore the scheduling of threads that still run; return what was other, or ""."""
    other = ""
    for thread, now in scheduling(*processes).items():
        was = before.get(thread, now)
        if was == now:
            continue
        names = "priority", "scheduler", "processors"
        other = next(name for name, a, b in zip(names, was, now, strict=True) if a != b)
        with suppress(OSError):
            os.sched_setaffinity(thread, was[2])
            os.setpriority(os.PRIO_PROCESS, thread, was[0])
    return other
