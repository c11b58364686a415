"""The deadline of a launch: what it calls, and that its thread holds nothing afterwards."""

from __future__ import annotations

import threading
import weakref
from functools import partial

import pytest

from warpladder.device.emulator.deadline import deadline


class Held:
    pass


def test_a_thread_of_a_context_in_time_holds_nothing_afterwards() -> None:
    """The launch, whose arrays it would free while another thread allocates some."""
    called: list[Held] = []
    for _ in range(50):
        held = Held()
        seen, before = weakref.ref(held), threading.active_count()
        with deadline(60.0, partial(called.append, held)):
            pass
        del held
        assert seen() is None and threading.active_count() == before
    assert not called


@pytest.mark.parametrize("seconds", [0.0, 0.01])
def test_a_late_context_is_reported_once_and_one_without_a_deadline_never(seconds: float) -> None:
    called = threading.Event()
    with deadline(seconds, called.set):
        assert called.wait(5.0 if seconds else 0.05) == bool(seconds)


def test_an_error_in_the_context_ends_the_deadline_too() -> None:
    called = threading.Event()
    with pytest.raises(ZeroDivisionError), deadline(60.0, called.set):
        raise ZeroDivisionError
    assert not called.is_set() and not any(isinstance(each, threading.Timer) for each in threading.enumerate())
