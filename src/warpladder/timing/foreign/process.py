"""`ForeignProcess`: the process that runs the code of a user's file, with limits of time and memory."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from ...errors import RungError
from ...machine.memory import free_memory, resident_peak
from . import family
from .messages import BrokenMessage, receive, send
from .own_files import bytecode, changed, remove_bytecode, stamps
from .rights import restored, scheduling

PACKAGE = Path(__file__).resolve().parents[3]

#: Most seconds of one call, if the caller does not expect a longer one.
CALL = 120.0

#: All calls whose time is not known, those of the proof above all, may take this many times as long as one.
CALLS = 15

TICK = 0.1  # seconds between two checks of a computing process
LEAST_MEMORY = 1 << 30  # bytes that a process may always use
PROCESSES = 64  # most processes that it may start
LINES = 2  # stored lines of its output, at the beginning and at the end

#: Meanings, for messages, of the signals that end a process.
SIGNALS = {
    "SIGSEGV": "a read or write outside of its memory",
    "SIGBUS": "a read or write outside of a file, or at an address that is not aligned",
    "SIGFPE": "a division by zero",
    "SIGILL": "an instruction that this processor does not have",
    "SIGABRT": "abort(), often after its memory was overwritten",
    "SIGKILL": "from outside, often because the machine had no memory left",
}


class ForeignEnd(RungError):
    """Error: the process of a user's file has ended, or was ended; the message is the reason."""


class ForeignFault(Exception):
    """Error in the code of a user's file; `place` is its file and line, as "mine.py, line 7"."""

    place = ""

    @staticmethod
    def named(kind: str, text: str, place: str) -> ForeignFault:
        """Error with the class name that it had in the other process."""
        named: type[ForeignFault] = type(str(kind), (ForeignFault,), {"place": place})
        return named(text)


class ForeignProcess:
    """Process that runs a user's file and answers one call after the other.

    Attributes
    ----------
    call : float
        Most seconds of a call.
    memory : int
        Most bytes of memory of the process and its descendants together.
    shown : tuple of str
        Path of the user's file, and its spelling by the user, for messages.
    """

    def __init__(self, call: float = CALL) -> None:
        self.call, self.reason, self.is_paused = call, "", False
        self.limit = call  # most seconds of the present call
        self.spent = 0.0  # seconds of calls whose time was not known
        self.shown = "", ""
        free = free_memory()
        self.memory = max(LEAST_MEMORY, (free or 8 << 30) // 2)
        self.channel, theirs = socket.socketpair()
        mark = f"{os.getpid()}-{id(self):x}"
        start = "import sys; sys.path.insert(0, sys.argv[2]); "
        start += "from warpladder.timing.foreign.server import main; main(sys.argv[1:])"
        before, self.stamps, self.bytecode = scheduling(), stamps(), bytecode()
        with theirs:
            self.child = subprocess.Popen(
                [sys.executable, "-P", "-u", "-c", start, str(theirs.fileno()), str(PACKAGE)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, family.MARK: mark, "PYTHONDONTWRITEBYTECODE": "1"},
            )
        self.family, self.scheduling, self.left = family.Family(self.child.pid, mark), before, scheduling()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.channel, selectors.EVENT_READ)
        self.largest = 0  # most memory of the family that was seen, in bytes
        self.printed, self.first, self.last = 0, list[str](), list[str]()
        self.reader = threading.Thread(target=self._read_output, daemon=True)
        self.reader.start()

    def request(self, name: str, *arguments: Any, most: int = 1 << 20, seconds: float = 0.0) -> Any:
        """Call a method of the process, and return its result.

        Parameters
        ----------
        name, arguments : a method of `server.Server` and its arguments
        most : int
            Most bytes of arrays in the answer.
        seconds : float
            Expected seconds of the call. The limit is ten times as long, and at least `call`.

        Raises
        ------
        ForeignEnd, ForeignFault
        """
        if self.reason:
            raise ForeignEnd(self.reason)
        self.wake()
        left = max(TICK, CALLS * self.call - self.spent)
        self.limit = max(min(self.call, left), 10 * seconds)
        start = monotonic()
        self.until = start + self.limit
        try:
            self.channel.settimeout(self.limit)
            send(self.channel, [name, *arguments])
            answer = receive(self._fill, most)
        except BrokenMessage as error:
            self._end(f"its process sent {error}: something in it writes to what it does not own")
        except TimeoutError:
            self._end(self._too_long())
        except OSError:
            self._end(self._death())
        if not isinstance(answer, list) or not answer or answer[0] not in ("ok", "error"):
            self._end("its process sent an answer that is none")
        self.spent += 0.0 if seconds else monotonic() - start
        if answer[0] == "ok":
            return answer[1]
        _, kind, text, place, is_ours = answer
        raise RungError(text.replace(*self.shown)) if is_ours else ForeignFault.named(kind, text, place)

    def pause(self) -> None:
        """Stop the process and its descendants until the next call, so that they use no processor."""
        if not self.reason and not self.is_paused:
            self.family.looked = 0.0  # no clock runs now
            self._hold_limits()
            self.family.signal(signal.SIGSTOP)
            self.is_paused, self.left = True, scheduling(*self._processes())
            if other := restored(self.scheduling):
                self._end(f"changed the {other} of the climb's own process, which slows others down: it was ended")
            remove_bytecode(self.bytecode)
            if name := changed(self.stamps):
                self._end(
                    f"warpladder's own file {name} was changed while it ran: it was ended; install warpladder anew"
                )

    def wake(self) -> None:
        """Continue the process and its descendants after `pause`, with the priority and the processors that they had:
        another rung's process may have changed them.
        """
        if self.is_paused:
            if restored(self.left, *self._processes()) and restored(self.left, *self._processes()):
                self._end("another process has lowered the rights of its process to processors, and keeps them low")
            self.is_paused, self.scheduling, self.stamps = False, scheduling(), stamps()
            self.bytecode = bytecode()
            self.family.signal(signal.SIGCONT)

    def _processes(self) -> tuple[int, ...]:
        return self.child.pid, *self.family.others

    def cpu_seconds(self) -> float:
        """Processor seconds of the process and its living descendants."""
        return self.family.cpu_seconds()

    def peak_memory(self) -> int:
        """Largest memory in bytes of the process, as the system counts it, or of its family where more was seen."""
        return max(self.largest, resident_peak(self.child.pid))

    def output(self) -> str:
        """Message about the text that the process printed; empty if it printed nothing."""
        if not self.printed:
            return ""
        shown = [*self.first, *(["..."] if self.printed > len(self.first) + len(self.last) else []), *self.last]
        return f"it printed {self.printed:,} line{'s' * (self.printed != 1)}: {' / '.join(shown)}"

    def kill(self) -> None:
        """Kill the process while another thread waits for an answer; that thread raises `ForeignEnd`."""
        self.family.kill()

    def close(self) -> None:
        """End the process and all its descendants."""
        self.reason = self.reason or "its process was ended"
        self.family.kill()
        remove_bytecode(self.bytecode)
        if not self.is_paused:
            restored(self.scheduling)
        with suppress(subprocess.TimeoutExpired):
            self.child.wait(10)
        with suppress(KeyError, ValueError):
            self.selector.unregister(self.channel)
        self.selector.close()
        self.channel.close()

    def _fill(self, buffer: memoryview) -> None:
        """Fill a buffer with bytes from the process, and enforce the limits meanwhile."""
        while buffer:
            if self.selector.select(min(TICK, max(0.0, self.until - monotonic()))):
                count = self.channel.recv_into(buffer)
                if not count:
                    self._end(self._death())
                buffer = buffer[count:]
            elif self.child.poll() is not None:
                self._end(self._death())
            elif monotonic() >= self.until:
                self._end(self._too_long())
            else:
                self._hold_limits()

    def _hold_limits(self) -> None:
        used = self.family.memory()
        self.largest = max(self.largest, used)
        if used > self.memory:
            self._end(f"used {used / 2**30:.1f} GiB of memory, and may use {self.memory / 2**30:.1f}: it was ended")
        if (count := self.family.count()) > PROCESSES:
            self._end(f"started {count} processes, and may start {PROCESSES}: they were ended")

    def _too_long(self) -> str:
        if self.limit < self.call:
            minutes = CALLS * self.call / 60
            return f"is too slow to be proven: its calls took {minutes:.0f} min; Rung's proof_flops cuts its batches"
        return f"did not answer within {self.limit:.0f} s: its process was ended"

    def _death(self) -> str:
        """Reason why the process has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.child.wait(5)
        code = self.child.returncode
        if code is None:
            return "closed the connection to the climb"
        if code >= 0:
            return f"its process ended itself with exit code {code}, as os._exit({code}) does"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"its process ended by {name}" + (f": {SIGNALS[name]}" if name in SIGNALS else "")

    def _end(self, reason: str) -> None:
        """End the process and raise `ForeignEnd`."""
        self.reason = reason
        self.close()
        self.reader.join(1.0)
        if self.last or self.first:
            self.reason += f" (last line printed: {(self.last or self.first)[-1]:.160})"
        raise ForeignEnd(self.reason)

    def _read_output(self) -> None:
        """Read the process's output, and store its first and last lines."""
        assert self.child.stdout is not None
        rest = b""
        with self.child.stdout as stream:
            while part := os.read(stream.fileno(), 1 << 16):
                *lines, rest = (rest[-1 << 12 :] + part).split(b"\n")
                self._store(lines)
            self._store([rest] if rest else [])

    def _store(self, lines: list[bytes]) -> None:
        lines = [line for line in lines if line.strip()]
        self.printed += len(lines)
        texts = [line[:200].decode("utf-8", "replace").strip() for line in (*lines[:LINES], *lines[-LINES:])]
        taken = max(0, LINES - len(self.first)) if lines else 0
        self.first += texts[: min(taken, len(lines))]
        if len(lines) > taken:
            self.last = (self.last + texts[-min(LINES, len(lines) - taken) :])[-LINES:]
