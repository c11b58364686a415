"""Kill training at random moments, with SIGKILL, and see that nothing is lost but time: scripts/kill_test --count 500
--rung native

After every kill the checkpoint on disk, if the run came that far, must be one that the undisturbed run wrote,
bit for bit; a run resumed from it must end as the undisturbed run does, bit for bit; and no temporary
file may stay. Every other kill hits a run that was itself resumed.

The parent trains once, which loads and compiles everything, and then forks a child for each run, so that a
run takes a fraction of a second and the kills fall on training and on writing, not on start-up.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy starts its threads: they would not survive a fork

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from runs import facts

import warpladder as wl
from warpladder.checkpoint import Checkpoint, load, save
from warpladder.config import TrainConfig
from warpladder.data import load as load_data
from warpladder.train import saving

EVERY = 3  # steps between two checkpoints
CONFIG = TrainConfig(epochs=4, batch_size=32, learning_rate=0.05, momentum=0.9, nesterov=True, seed=7, log_every=5)
#: The same run with other optimizers, whose slots, count and schedule have to come back as well.
OTHERS = {
    "adam": CONFIG.but(optimizer=wl.Adam(0.005), schedule=wl.Cosine(warmup=1)),
    "adamw": CONFIG.but(optimizer=wl.AdamW(0.005), schedule=wl.StepDecay(every=1, gamma=0.5)),
}
SAMPLES, VALIDATION = 400, 100  # 12 batches and a half
DEADLINE = 120.0  # seconds that a run may take; one that was stopped in a lock, say, would take for ever

Facts = dict[str, Any]


@dataclass
class Tally:
    """What was seen. Where a kill fell: before the first checkpoint, while a file was written (it left a temporary
    one), or elsewhere.
    """

    rung: str
    kills: int = 0
    before_the_first_checkpoint: int = 0
    while_writing: int = 0
    of_resumed_runs: int = 0
    equal_checkpoints: int = 0
    equal_ends: int = 0
    too_late: int = 0
    places: set[tuple] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        """The same for a JSON file."""
        return asdict(self) | {"places": len(self.places)}


class Victim:
    """A run in a child process, which keeps its checkpoint in `path` and goes on from what it finds there."""

    def __init__(self, train: Callable[[Path], object], path: Path) -> None:
        ready, started = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.write(started, b".")
                train(path)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(started)
        os.read(ready, 1)
        os.close(ready)

    def kill_after(self, seconds: float) -> bool:
        """Kill it then; False where it had ended before."""
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def wait(self) -> None:
        """Wait for its end; raises where it failed or hangs."""
        until = time.monotonic() + DEADLINE
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, f"a resumed run failed (status {status})"
                return
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"a resumed run did not end in {DEADLINE:.0f} s")
            time.sleep(0.001)


class KillTest:
    """The undisturbed run of a rung, and others that are killed and compared with it."""

    def __init__(self, rung: str, folder: Path, seed: int = 0) -> None:
        self.folder, self.random, self.tally = folder, random.Random(seed), Tally(rung)
        self.data = load_data("digits", limit=SAMPLES + VALIDATION, validation=VALIDATION, progress=False)
        self.net = wl.nets.mlp(self.data.in_shape)
        self.path = folder / "run.safetensors"
        self.left: set[Path] = set()
        self.train(folder / "warm-up.safetensors")
        self.undisturbed: dict[tuple, Facts] = {}
        began = time.perf_counter()
        with patch.object(saving, "save", self._save_and_note):
            self.train(folder / "undisturbed.safetensors")
        self.seconds = time.perf_counter() - began
        self.end = facts(load(folder / "undisturbed.safetensors"))

    def train(self, path: Path) -> None:
        """A run to its end, from the checkpoint if there is one."""
        resume = path if path.exists() else None
        wl.train(
            self.net, self.data, CONFIG, rung=self.tally.rung, checkpoint=path, checkpoint_every=EVERY, resume=resume
        )

    def _save_and_note(self, path: Path, checkpoint: Checkpoint) -> None:
        save(path, checkpoint)
        noted = facts(load(path))
        self.undisturbed[noted["place"]] = noted

    def run(self, count: int, say: Callable[[str], None] = lambda line: None) -> Tally:
        """So many kills, each with its resume; stops at the tenth failure."""
        while self.tally.kills < count and len(self.tally.failures) < 10:
            resumed = self.path.exists()
            if not self._kill():
                self.path.unlink()  # it had ended: a new one
                continue
            self.tally.of_resumed_runs += resumed
            try:
                self._check()
            except (AssertionError, wl.WarpladderError) as error:
                self.tally.failures.append(f"kill {self.tally.kills}: {error}")
                self.path.unlink(missing_ok=True)
            if self.tally.kills % 50 == 0:
                say(f"{self.tally.rung}: {self.tally.kills} kills, {len(self.tally.failures)} failures")
            if resumed:
                self.path.unlink(missing_ok=True)
        return self.tally

    def _kill(self) -> bool:
        """Start or resume the run and kill it at a random moment."""
        began = time.perf_counter()
        victim = Victim(self.train, self.path)
        if victim.kill_after(self.random.uniform(0, self.seconds)):
            self.tally.kills += 1
            return True
        self.tally.too_late += 1
        self.seconds = max(0.02, min(self.seconds, time.perf_counter() - began))  # runs end earlier than was thought
        return False

    def _check(self) -> None:
        """What the kill left, and what comes of it."""
        left = self._temporary_files(self.path)
        assert len(left) <= 1, f"{len(left)} temporary files after one kill"
        self.tally.while_writing += len(set(left) - self.left)
        self.left = set(left)
        copy = self.folder / "resumed.safetensors"
        copy.unlink(missing_ok=True)
        if self.path.exists():
            found = facts(load(self.path))
            assert found["place"] in self.undisturbed, f"the undisturbed run has no checkpoint at {found['place']}"
            _compare(found, self.undisturbed[found["place"]], f"the checkpoint at {found['place']}")
            self.tally.equal_checkpoints += 1
            self.tally.places.add(found["place"])
            shutil.copyfile(self.path, copy)
        else:
            self.tally.before_the_first_checkpoint += 1
        for file in left:
            shutil.copyfile(file, file.with_name(file.name.replace(self.path.name, copy.name)))
        Victim(self.train, copy).wait()
        _compare(facts(load(copy)), self.end, "the end of the resumed run")
        assert not self._temporary_files(copy), "a temporary file stays after the resumed run"
        self.tally.equal_ends += 1

    def _temporary_files(self, path: Path) -> list[Path]:
        lock = f".{path.name}.lock"  # of the run that writes the checkpoint
        return [each for each in self.folder.iterdir() if each.name.startswith(f".{path.name}.") and each.name != lock]


def _compare(found: Facts, expected: Facts, what: str) -> None:
    unlike = [key for key in expected if found[key] != expected[key]]
    assert not unlike, f"{what} differs in {', '.join(unlike)}"


def machine() -> dict[str, str | int]:
    """What of this machine bears on the result."""
    from warpladder.machine.facts import facts as machine_facts

    found = machine_facts()
    told = {key: found[key] for key in ("cpu", "cores", "system", "python")}
    return told | {"numpy": np.__version__}


def main() -> int:
    """Kill as the command line asks; 1 where a failure was seen."""
    global CONFIG
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", action="append", help="may be given several times; numpy and native if not given")
    parser.add_argument("--count", type=int, default=500, help="kills of each rung's runs")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, help="a JSON file for what was seen")
    parser.add_argument("--optimizer", choices=sorted(OTHERS), help="in place of SGD with momentum")
    options = parser.parse_args()
    CONFIG = OTHERS.get(options.optimizer, CONFIG)
    tallies = []
    for rung in options.rung or ["numpy", "native"]:
        with tempfile.TemporaryDirectory() as folder:
            test = KillTest(rung, Path(folder), options.seed)
            began = time.perf_counter()
            tally = test.run(options.count, lambda line: print(line, flush=True))
        tallies.append(tally)
        print(
            f"{rung}: {tally.kills} kills, {tally.while_writing} of them during a write and {tally.before_the_first_checkpoint} before the "
            f"first checkpoint; {tally.equal_checkpoints} checkpoints from {len(tally.places)} places and {tally.equal_ends} ends of "
            f"resumed runs equal; {len(tally.failures)} failures; {time.perf_counter() - began:.0f} s",
            flush=True,
        )
        for failure in tally.failures:
            print(f"  {failure}")
    if options.out is not None:
        run = {
            "net": "mlp",
            "data": f"digits, {SAMPLES} samples",
            "config": CONFIG.as_dict(),
            "checkpoint_every": EVERY,
            "seed": options.seed,
        }
        date = datetime.now(UTC).isoformat(timespec="seconds")
        told = {"date": date, "machine": machine(), "run": run, "rungs": [tally.told() for tally in tallies]}
        options.out.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return int(any(tally.failures or tally.kills < options.count for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
