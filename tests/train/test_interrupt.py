"""Ctrl-C and SIGTERM: training stops between two steps, with a checkpoint, and everything is as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rungs_here import NAMES
from runs import CNN, CONFIG, Hook, data, facts, hooked

from warpladder.checkpoint import load
from warpladder.data.order import Order
from warpladder.errors import Stopped
from warpladder.ladder import find
from warpladder.train import scoring, train
from warpladder.train.interrupt import Interrupt
from warpladder.trainers.base import Trainer


def send_at(epoch: int, step: int, signum: int = signal.SIGINT, times: int = 1) -> Hook:
    """Signals this process, as a terminal would, while the call that trains this step runs."""

    def before(trainer: Trainer, order: Order, first: int, last: int) -> None:
        if order.epoch == epoch and first <= step < last:
            for _ in range(times):
                signal.raise_signal(signum)

    return before


@pytest.mark.parametrize("rung", NAMES)
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("epoch", "step", "place"), [(1, 2, (1, 4)), (1, 6, (1, 7)), (0, 0, (0, 1))])
def test_a_signal_stops_training_with_a_checkpoint_that_goes_on_bit_for_bit(tmp_path, rung, signum, epoch, step, place):
    previous = signal.getsignal(signum)
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stopped) as stopped:
        train(CNN, data(), CONFIG, rung=hooked(rung, before=send_at(epoch, step, signum)), checkpoint=path)
    assert signal.getsignal(signum) is previous
    assert stopped.value.exit_code == 128 + signum
    assert (
        str(stopped.value)
        == f"training stopped after step {place[1]} of 7 in epoch {place[0] + 1} of 3; resume from {os.fspath(path)!r}"
    )
    assert (load(path).epoch, load(path).step) == place
    assert facts(train(CNN, data(), resume=path).checkpoint) == facts(train(CNN, data(), CONFIG, rung=rung).checkpoint)


@pytest.mark.parametrize(("step", "ending"), [(2, "no checkpoint was written yet"), (9, "resume from '.*'")])
def test_a_signal_that_also_breaks_the_trainer_stops_the_run(tmp_path, step, ending):
    """As Ctrl-C at a terminal does, which ends the processes of a DataLoader too."""
    path = tmp_path / "run.safetensors"

    def broken(trainer: Trainer, order: Order, first: int, last: int) -> None:
        send_at(step // 7, step % 7)(trainer, order, first, last)
        if order.epoch == step // 7 and last > step % 7:
            raise RuntimeError("DataLoader worker exited unexpectedly")

    with pytest.raises(Stopped, match=f"training stopped after .*; {ending}") as stopped:
        train(CNN, data(), CONFIG, rung=hooked("numpy", before=broken), checkpoint=path)
    assert stopped.value.exit_code == 128 + signal.SIGINT
    assert isinstance(stopped.value.__cause__, RuntimeError) and path.exists() == (step > 6)


def test_an_error_without_a_signal_stays_itself():
    def broken(trainer: Trainer, order: Order, first: int, last: int) -> None:
        raise RuntimeError("a worker exited")

    with pytest.raises(RuntimeError, match="a worker exited"):
        train(CNN, data(), CONFIG, rung=hooked("numpy", before=broken))


def test_a_signal_without_a_checkpoint_file_says_that_nothing_is_saved():
    with pytest.raises(Stopped, match="after step 4 of 7 in epoch 2 of 3; nothing is saved"):
        train(CNN, data(), CONFIG, rung=hooked("numpy", before=send_at(1, 2)))


def test_nothing_that_catches_errors_swallows_it():
    assert issubclass(Stopped, KeyboardInterrupt) and not issubclass(Stopped, Exception)


@pytest.mark.parametrize(
    ("call", "place", "finished"),
    [(10, (1, 7), False), (25, (3, 0), False), (30, (3, 0), True)],
    ids=["validation", "test", "the last moment"],
)
def test_a_signal_while_scoring_stops_too(tmp_path, monkeypatch, call, place, finished):
    """Seven calls of predict after each of three epochs, then nine for the test part."""
    monkeypatch.setattr(scoring, "SLICE_NUMBERS", 1)
    path = tmp_path / "run.safetensors"
    some = data(valid=7, test=9)
    wanted = facts(train(CNN, some, CONFIG).checkpoint)
    plain, calls = find("numpy"), []

    def build(net, config, state):
        trainer = plain.build(net, config, state)
        predict = trainer.predict

        def predict_and_signal(x, scale):
            calls.append(len(x))
            if len(calls) == call:
                signal.raise_signal(signal.SIGINT)
            return predict(x, scale)

        trainer.predict = predict_and_signal  # type: ignore[method-assign]
        return trainer

    with pytest.raises(Stopped):
        train(CNN, some, CONFIG, rung=replace(plain, build=build), checkpoint=path)
    assert len(calls) == call
    assert (load(path).epoch, load(path).step) == place and load(path).finished == finished
    assert facts(train(CNN, some, resume=path).checkpoint) == wanted


def test_a_second_signal_stops_at_once_and_leaves_the_file_of_before(tmp_path):
    path = tmp_path / "run.safetensors"
    with pytest.raises(KeyboardInterrupt) as stopped:
        train(CNN, data(), CONFIG, rung=hooked("numpy", before=send_at(1, 2, times=2)), checkpoint=path)
    assert not isinstance(stopped.value, Stopped)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert (load(path).epoch, load(path).step) == (1, 0)


def test_a_handler_of_the_callers_gets_the_second_signal():
    heard = []
    previous = signal.signal(signal.SIGTERM, lambda signum, frame: heard.append(signum))
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(signal.SIGTERM)
            assert interrupt.signum == signal.SIGTERM and not heard
            signal.raise_signal(signal.SIGTERM)
            assert heard == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_an_ignored_signal_stays_ignored():
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(signal.SIGINT)
            assert interrupt.signum is None and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)


def test_training_works_off_the_main_thread_and_sets_no_handler_there():
    handlers, runs = [], []

    def look(trainer: Trainer, order: Order, first: int, last: int) -> None:
        handlers.append((signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)))

    before = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    thread = threading.Thread(target=lambda: runs.append(train(CNN, data(), CONFIG, rung=hooked("numpy", before=look))))
    thread.start()
    thread.join()
    assert facts(runs[0].checkpoint) == facts(train(CNN, data(), CONFIG).checkpoint)
    assert set(handlers) == {before}


def test_a_process_that_is_interrupted_leaves_a_checkpoint(tmp_path):
    """A whole process, really signalled from outside."""
    path = tmp_path / "run.safetensors"
    code = (
        "import sys; from runs import *; from warpladder.train import train; from warpladder.errors import Stopped\n"
        "try: train(CNN, data(), CONFIG.but(epochs=10**6), checkpoint=sys.argv[1])\n"
        "except Stopped as stopped: print(stopped, file=sys.stderr); sys.exit(stopped.exit_code)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, os.fspath(path)],
        cwd=Path(__file__).parents[1] / "support",
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.startswith("training stopped after") and err.count("\n") == 1
    assert load(path).epoch > 0
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
