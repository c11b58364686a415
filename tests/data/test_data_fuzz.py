"""A short run of the fuzzer on every file parser, and proof that the fuzzer sees what it is for."""

from __future__ import annotations

import time

import fuzz_parsers
import pytest

from warpladder.errors import DataError


@pytest.mark.parametrize("target", fuzz_parsers.TARGETS, ids=lambda target: target.name)
def test_nearly_right_inputs_are_read_or_refused(target):
    outcome = fuzz_parsers.run(target, count=1500, seed=1)
    assert not outcome.failures
    # Both ends are reached, so the run is not vacuous.
    assert outcome.valid > 50 and sum(outcome.refusals.values()) > 500 and len(outcome.refusals) >= 4


@pytest.mark.parametrize("target", fuzz_parsers.TARGETS, ids=lambda target: target.name)
def test_seeds_are_valid_as_they_are(target):
    for seed in target.seeds:
        target.parse(seed)


def test_inputs_repeat():
    target = fuzz_parsers.TARGETS[0]
    inputs = [[fuzz_parsers.mutate(target, seed, number) for number in range(50)] for seed in (1, 1, 2)]
    assert inputs[0] == inputs[1] != inputs[2]


def parser_with(flaw):
    def parse(content: bytes) -> None:
        if content != b"right":
            flaw()

    return fuzz_parsers.Target("flawed", parse, [b"right"])


def refuse_in_two_lines():
    raise DataError("one\ntwo")


def crash():
    raise KeyError("untyped")


def want_memory():
    raise MemoryError


def hang():
    while True:
        time.sleep(0.01)


def dawdle():
    start = time.process_time()
    while time.process_time() < start + 0.02:
        pass


@pytest.mark.parametrize(
    ("flaw", "words"),
    [
        (crash, "KeyError"),
        (want_memory, "MemoryError"),
        (hang, "longer than"),
        (dawdle, "of CPU time"),
        (refuse_in_two_lines, "not one line"),
    ],
)
def test_flaws_are_caught(monkeypatch, flaw, words):
    monkeypatch.setattr(fuzz_parsers, "SECONDS_PER_INPUT", 1.0 if flaw is dawdle else 0.05)
    monkeypatch.setattr(fuzz_parsers, "CPU_SECONDS_PER_INPUT", 0.01)
    outcome = fuzz_parsers.run(parser_with(flaw), count=20, seed=0, most_failures=2)
    assert len(outcome.failures) == 2 and all(words in what for _, what in outcome.failures)


def test_an_input_that_was_slow_once_is_parsed_again(monkeypatch):
    monkeypatch.setattr(fuzz_parsers, "CPU_SECONDS_PER_INPUT", 0.01)
    calls = []

    def parse(content: bytes) -> None:
        calls.append(content)
        if len(calls) == 1:
            dawdle()

    outcome = fuzz_parsers.run(fuzz_parsers.Target("slow at first", parse, [b"right"]), count=20, seed=0)
    assert not outcome.failures and len(calls) == 23 and outcome.slowest < 0.01
