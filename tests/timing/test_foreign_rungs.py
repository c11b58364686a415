"""The process of a user's file: however it ends, the climb goes on with a reason, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.errors import RungError
from warpladder.nets.params import initial
from warpladder.rungs.base import Rung
from warpladder.timing import climb
from warpladder.timing.foreign import own_files, rights
from warpladder.timing.foreign import process as process_file
from warpladder.timing.foreign import rung as foreign
from warpladder.timing.foreign.messages import BrokenMessage, Unknown, receive, send
from warpladder.timing.foreign.process import ForeignFault, ForeignProcess
from warpladder.timing.foreign.server import shorten
from warpladder.timing.foreign.trainer import ForeignTrainer, wanted
from warpladder.timing.kernel_files import kernel_files
from warpladder.timing.peak_memory import peak_rss
from warpladder.timing.source_text import confirmed
from warpladder.trainers.base import State, StepLog

pytestmark = pytest.mark.usefixtures("machine_once")

CONFIG = TrainConfig(batch_size=32, learning_rate=0.05)
NET = nets.softmax((1, 4, 4), 2)

FILE = """
import ctypes, os, resource, signal, sys, threading, time; import warpladder.timing.peak_memory
from dataclasses import dataclass
import numpy as np
from warpladder.ladder import OneOf, Options, Rung, Trainer, find, option
from warpladder.trainers.base import State, StepLog

ENDS = {
    "honest": lambda self: None,
    "segfault": lambda self: ctypes.string_at(8),
    "_exit": lambda self: os._exit(3),
    "sys.exit": lambda self: sys.exit(4),
    "raise": lambda self: [][7],
    "mute": lambda self: (_ for _ in ()).throw(Mute()),
    "abort": lambda self: os.abort(),
    "killed": lambda self: os.kill(os.getpid(), signal.SIGKILL),
    "stopped": lambda self: os.kill(os.getpid(), signal.SIGSTOP),
    "endless": lambda self: [None for _ in iter(int, 1)],
    "memory": lambda self: [bytearray(1 << 24) for _ in iter(int, 1)],
    "forks": lambda self: [os.fork() or time.sleep(60) for _ in range(100)],
    "garbage": lambda self: [os.write(fd, b"x" * 99) for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}")],
    "flood": lambda self: print("spam\\n" * 100_000),
    "daemon": lambda self: os.fork() or (os.setsid(), os.fork() or time.sleep(600), os._exit(0)),
    "writes": lambda self: open(f"/proc/{os.getppid()}/mem", "r+b").close(),
    "signals": lambda self: os.kill(os.getppid(), signal.SIGUSR1),
    "slows": lambda self: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    "escapes": lambda self: os.fork() or (
        os.setsid(), os.fork() or os.execve("/bin/sleep", ["sleep", "607"], {}), os._exit(0),
    ),
    "renices": lambda self: [
        (os.setpriority(os.PRIO_PROCESS, int(p), 19), os.sched_setaffinity(int(p), {min(os.sched_getaffinity(0))}))
        for p in os.listdir("/proc")
        if p.isdecimal() and int(p) != os.getpid()
        and f"={os.environ['WARPLADDER_FOREIGN'].partition('-')[0]}-".encode() in environment(p)
    ],
    "changes": lambda self: (os.chdir("/"), signal.signal(signal.SIGTERM, signal.SIG_IGN), np.seterr(all="raise")),
    "patches": lambda self: (
        setattr(time, "perf_counter", lambda: 0.0), setattr(time, "perf_counter_ns", lambda: 0),
        setattr(np, "array_equal", lambda *_: True), setattr(StepLog, "__eq__", lambda *_: True),
        setattr(State, "bits", lambda self: b""), sys.setprofile(lambda *_: None), sys.addaudithook(lambda *_: None),
    ),
    "limits": lambda self: resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0)),
    "bytecode": lambda self: open(os.environ["BYTECODE"], "ab").write(b"x"),
    "small": lambda self: setattr(sys.modules["warpladder.timing.peak_memory"], "resident_peak", lambda: 1),
    "own limits": lambda self: (
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0)), resource.prlimit(os.getppid(), resource.RLIMIT_CORE),
    ),
    "busy": lambda self: threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start(),
}

class Mute(Exception):
    def __str__(self): return [][7]

def environment(process):
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            return next((each for each in file.read().split(b"\\0") if each.startswith(b"WARPLADDER_FOREIGN")), b"")
    except OSError:
        return b""

@dataclass(frozen=True)
class HowOptions(Options):
    how: str | None = option(OneOf(tuple(ENDS)), "how it ends")

class Ending(Trainer):
    def __init__(self, net, config, state, options=HowOptions()):
        self.net, self.config, self.how = net, config, options.how or "honest"
        self.inner = find("numpy").build(net, config, state)
        self.ended = False
    def load(self, dataset):
        self.data = dataset
        self.inner.load(dataset)
    def run(self, order, first, last):
        if not self.ended:
            self.ended = True
            ENDS[self.how](self)
        return self.inner.run(order, first, last)
    def state(self): return self.inner.state()
    def set_state(self, state): self.inner.set_state(state)
    def predict(self, x, scale): return self.inner.predict(x, scale)

RUNG = Rung("ending", "a rung that ends", "A rung that ends.", Ending, lambda net, config, options: None,
            options=HowOptions())
"""

#: A rung that crashes when it is asked what it can train.
ASKED = """
import ctypes
from warpladder.ladder import Rung
RUNG = Rung("asked", "a title", "An idea.", lambda *_: None, lambda net, config: ctypes.string_at(8))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ending.py"
    path.write_text(FILE)
    return path


@pytest.fixture
def data() -> Dataset:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 96).astype(np.int32)
    x = (rng.integers(0, 100, (96, 1, 4, 4)) + 100 * y[:, None, None, None]).astype(np.uint8)
    return Dataset("toy", x, y, x[:1], y[:1], 1 / 255)


def opened(rung: Rung, data: Dataset) -> tuple[ForeignTrainer, ForeignProcess]:
    trainer: Any = rung.build(NET, CONFIG, State(initial(NET, 0)))
    trainer.load(data)
    return trainer, trainer.process


def living(process: ForeignProcess, others: tuple[int, ...] = ()) -> list[int]:
    """The members of a process's family, and others, that have not ended."""
    alive = []
    for member in (*process.family.members(), *others):
        try:
            state = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        alive += [member] * (state != "Z")
    return alive


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("segfault", "ended by SIGSEGV: a read or write outside of its memory"),
        ("_exit", "exit code 3"),
        ("sys.exit", "SystemExit in ending.py, line 12: 4"),
        ("raise", "IndexError in ending.py, line 13: list index out of range"),
        ("mute", "Mute in ending.py, line 14: its text cannot be made, for that raises IndexError"),
        ("abort", "ended by SIGABRT"),
        ("killed", "ended by SIGKILL"),
        ("stopped", "did not answer within"),
        ("endless", "did not answer within"),
        ("memory", "GiB of memory"),
        ("forks", "started"),
        ("garbage", "its process sent"),
    ],
)
@pytest.mark.by_day("segfault", "raise", "mute", "endless", "memory")
def test_its_end_is_an_error_with_the_reason_and_nothing_is_left(how, words, file, data):
    rung = foreign.find(f"{file}:how={how}")
    trainer, process = opened(rung, data)
    process.call = 1.5 if how in ("stopped", "endless") else 60.0
    process.memory = 400 << 20 if how == "memory" else 16 << 30
    with pytest.raises((RungError, ForeignFault)) as error:
        trainer.run(Order(0, 0, 96), 0, 3)
        process.pause()
    place = getattr(error.value, "place", "")
    assert words in f"{type(error.value).__name__} in {place}: {error.value}"
    foreign.end(rung)
    assert living(process) == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="the system lets users write, or forbids it")
@pytest.mark.parametrize("how", ["writes", "slows"])
def test_it_has_no_rights_over_the_process_of_the_climb(how, file, data):
    rung = foreign.find(f"{file}:how={how}")
    trainer, _ = opened(rung, data)
    with pytest.raises(ForeignFault, match=r"not permitted|denied"):
        trainer.run(Order(0, 0, 96), 0, 3)
    foreign.end(rung)


@pytest.mark.skipif(not rights.scopes(), reason="the system lets a user's processes send each other signals")
@pytest.mark.parametrize("how", ["signals", "writes", "limits"])
def test_its_signals_and_its_reach_into_memory_end_at_its_family(how, file, data):
    rung = foreign.find(f"{file}:how={how}")
    trainer, process = opened(rung, data)
    with pytest.raises(ForeignFault, match=r"not permitted|denied"):
        trainer.run(Order(0, 0, 96), 0, 3)
    foreign.end(rung)
    assert living(process) == []


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell")
def test_changed_processors_of_the_climb_are_found_and_restored():
    own = os.sched_getaffinity(0)
    before = rights.scheduling()
    assert rights.restored(before) == ""
    os.sched_setaffinity(0, {min(own)})
    assert rights.restored(before) == ("processors" if len(own) > 1 else "")
    assert os.sched_getaffinity(0) == own


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell")
def test_a_paused_process_gets_back_what_another_rung_has_taken(file, data):
    victim, rung = foreign.find(str(file)), foreign.find(f"{file}:how=renices")
    trainer, process = opened(victim, data)
    process.pause()
    before = rights.scheduling(process.child.pid)
    opened(rung, data)[0].run(Order(0, 0, 96), 0, 3)
    assert os.getpriority(os.PRIO_PROCESS, process.child.pid) == 19
    trainer.run(Order(0, 0, 96), 0, 3)
    assert rights.scheduling(process.child.pid) == before
    foreign.end(rung)
    foreign.end(victim)


@pytest.mark.parametrize("how", ["honest", "flood", "daemon", "escapes", "changes", "patches", "busy", "own limits"])
@pytest.mark.by_day("honest", "busy")
def test_it_trains_as_in_this_process_whatever_else_it_does(how, file, data):
    rung = foreign.find(f"{file}:how={how}")
    assert rung.name == f"ending:how={how}" and rung.path == str(file)
    trainer, process = opened(rung, data)
    log, state = trainer.run(Order(0, 0, 96), 0, 3), trainer.state()
    began = time.perf_counter()
    own = rung_of_numpy(data)
    want = own.run(Order(0, 0, 96), 0, 3)
    assert log.loss.tobytes() == want.loss.tobytes() and state.bits() == own.state().bits()
    assert trainer.predict(data.train_x, data.scale).tobytes() == own.predict(data.train_x, data.scale).tobytes()
    assert trainer.flops() == NET.train_flops and trainer.peak() is None
    assert time.perf_counter() > began and not np.array_equal([1], [2])
    if how == "flood":
        until = time.perf_counter() + 20  # a thread reads the lines
        while "it printed 100,000 lines" not in process.output() and time.perf_counter() < until:
            time.sleep(0.1)
        assert "it printed 100,000 lines" in process.output()
    process.pause()
    before = process.cpu_seconds()
    time.sleep(0.1)
    assert process.cpu_seconds() - before < 0.03  # a thread that goes on computing is stopped meanwhile
    trainer.set_state(state)
    trainer.close()
    started = tuple(living(process))[1:]
    assert len(started) == (how in ("daemon", "escapes"))
    foreign.end(rung)
    assert living(process, started) == []
    assert Path.cwd() != Path("/")


def test_a_changed_file_of_the_package_ends_it(file, data, tmp_path, monkeypatch):
    package = tmp_path / "package"
    (package / "ops" / "__pycache__").mkdir(parents=True)
    (package / "ops" / "linear.py").write_text("x = 1\n")
    monkeypatch.setattr(process_file, "stamps", lambda: own_files.stamps(package))
    monkeypatch.setattr(process_file, "changed", lambda before: own_files.changed(before, package))
    rung = foreign.find(f"{file}:how=honest")
    trainer, process = opened(rung, data)
    trainer.state()
    (package / "ops" / "__pycache__" / "linear.pyc").write_text("bytecode")
    process.pause()
    trainer.state()
    (package / "ops" / "linear.py").write_text("x = 2\n")
    with pytest.raises(RungError, match=r"own file ops.linear\.py was changed while it ran.*install warpladder anew"):
        process.pause()
    assert living(process) == []


def test_bytecode_that_is_written_while_it_runs_is_removed(file, data, tmp_path, monkeypatch):
    cache = tmp_path / "package" / "__pycache__"
    cache.mkdir(parents=True)
    files = [cache / f"{name}.cpython-311.pyc" for name in ("kept", "changed")]
    for each in files:
        each.write_bytes(b"bytecode")
    for name in ("bytecode", "remove_bytecode"):
        whole = getattr(own_files, name)
        monkeypatch.setattr(process_file, name, lambda *given, whole=whole: whole(*given, folder=tmp_path / "package"))
    monkeypatch.setenv("BYTECODE", str(files[1]))
    rung = foreign.find(f"{file}:how=bytecode")
    trainer, process = opened(rung, data)
    trainer.run(Order(0, 0, 96), 0, 3)
    process.pause()
    assert [each.exists() for each in files] == [True, False]
    foreign.end(rung)


def test_its_peak_memory_is_the_systems_figure(file, data):
    found, reason = peak_rss(foreign.find(f"{file}:how=small"), NET, data, CONFIG)
    assert found is not None and found > 16 << 20, reason


def test_sources_are_those_of_the_files(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("class Mine:\n    pass\n\nclass Other:\n    pass\n")
    told = {
        "mine.py": ("class Lovely: pass",),
        "mine.py, Mine": ("class Mine:", "    pass"),
        "mine.py, Lovely": ("class Lovely: pass",),
        "ops/relu/array.py": ("class Lovely: pass",),
        "helper.py": ("x = 1",),
    }
    found = confirmed(told, str(mine))
    assert list(found) == ["mine.py", "mine.py, Mine", "helper.py"] and found["mine.py"][0] == "class Mine:"


def test_a_long_text_ends_between_words():
    assert [shorten(text, 9) for text in ("one two", "one two three", "x" * 12)] == [
        "one two",
        "one two ...",
        "x" * 9 + " ...",
    ]


def test_what_a_trainer_returns_has_its_type():
    log = StepLog(np.zeros(1), np.zeros(1, int), np.ones(1, int))
    assert wanted(StepLog, "run", log) is log
    with pytest.raises(RungError, match="its method run returned None, and must return a StepLog"):
        wanted(StepLog, "run", None)
    with pytest.raises(RungError, match="its method state returned an object of type 'Mine', and must return a State"):
        wanted(State, "state", Unknown("an object of type 'Mine'"))


def test_it_gets_the_weights_of_samples(file, data):
    data = data.but(train_weight=np.linspace(0.5, 2, len(data.train_x)).astype(np.float32))
    rung = foreign.find(f"{file}:how=honest")
    trainer, process = opened(rung, data)
    own = rung_of_numpy(data)
    assert trainer.run(Order(0, 0, 96), 0, 3).loss.tobytes() == own.run(Order(0, 0, 96), 0, 3).loss.tobytes()
    assert trainer.state().bits() == own.state().bits()
    foreign.end(rung)
    assert living(process) == []


def rung_of_numpy(data: Dataset) -> Any:
    from warpladder.ladder import find

    trainer = find("numpy").build(NET, CONFIG, State(initial(NET, 0)))
    trainer.load(data)
    return trainer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os\nos._exit(5)\n", "exit code 5, as os._exit(5) does, while the file was read"),
        ("import ctypes\nctypes.string_at(8)\n", "SIGSEGV"),
        ("x = 1\nx = 1 / 0\n", "line 2: ZeroDivisionError"),
        ("RUNG = 7\n", "RUNG wants to be a warpladder.ladder.Rung"),
    ],
)
@pytest.mark.by_day("_exit")
def test_a_file_that_cannot_be_read_is_one_line(text, words, tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    with pytest.raises(RungError, match=r"wrong\.py") as error:
        foreign.find(str(path))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_messages_carry_logs_states_and_orders_to_the_bit():
    import socket

    log = StepLog(np.array([0.5, np.nan]), np.array([1, 2]), np.array([3, 4]))
    state = State(np.array([1, -0.0], np.float32), {"v": np.array([3, 4], np.float32)}, 7)
    value = [
        log,
        state,
        Order(3, 4, 5, False),
        (1, None, True, "x", 2.5),
        {"a": np.array([[1]], np.uint8)},
        np.float32(2),
        object(),
    ]
    a, b = socket.socketpair()

    def fill(buffer: memoryview) -> None:
        while buffer:
            buffer = buffer[b.recv_into(buffer) :]

    with a, b:
        send(a, value)
        got = receive(fill, 1 << 20)
        assert got[0].loss.tobytes() == log.loss.tobytes() and got[0].has_loss and got[1].bits() == state.bits()
        assert got[2:4] == value[2:4] and got[4]["a"].tolist() == [[1]] and got[5].dtype == np.float32
        assert "object" in got[6].kind and got[0].loss.flags.writeable
        send(a, np.zeros(1000))
        with pytest.raises(BrokenMessage):
            receive(fill, 100)


def test_the_kernels_that_a_file_names_are_found(tmp_path):
    (tmp_path / "relu.cu").write_text("")
    (tmp_path / "mine.py").write_text('A = "relu.cu"\nB = "other.cu"\n')
    assert kernel_files(str(tmp_path / "mine.py")) == [str(tmp_path / "relu.cu")] and kernel_files(None) == []


def test_a_process_ends_with_the_climb_that_started_it(file):
    rung = foreign.find(str(file))
    owner = foreign.of(rung)
    assert owner is not None
    process = owner.process()
    os.kill(process.child.pid, signal.SIGSTOP)
    foreign.end(rung)
    assert process.child.returncode == -signal.SIGKILL


def test_a_file_that_ends_its_process_is_a_row_next_to_others_and_alone_a_line(tmp_path, data):
    texts = {"ends": "import os\nos._exit(5)\n", "asked": ASKED}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    files = [str(tmp_path / f"{name}.py") for name in texts]
    results = climb(NET, data, CONFIG, ["numpy", *files], epochs=1, repeats=1, budget=0.05)
    timed, *failed = results.rungs
    assert timed.status == "timed" and [each.status for each in failed] == ["failed"] * 2
    for each, word in zip(failed, ("exit code 5", "SIGSEGV"), strict=True):
        assert word in each.reason
    with pytest.raises(RungError, match="exit code 5"):
        climb(NET, data, CONFIG, files[:1])


def test_calls_of_unknown_time_have_a_limit_together(file, data, monkeypatch):
    rung = foreign.find(f"{file}:how=endless")
    trainer, process = opened(rung, data)
    order = Order(0, 0, 96)
    monkeypatch.setattr(process_file, "CALLS", (process.spent + 0.2) / process.call)
    assert 0 < process.spent < process.call
    with pytest.raises(RungError, match="is too slow to be proven: its calls took"):
        trainer.run(order, 0, 3)
    assert living(process) == []
    trainer, process = opened(foreign.find(f"{file}:how=honest"), data)
    trainer.run(order, 0, 3)
    before = process.spent
    trainer.turn(None, [order], 3, seconds=0.1)
    assert process.spent == before > 0
    foreign.end(rung)
