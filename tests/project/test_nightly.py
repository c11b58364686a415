"""What scripts/nightly asks for: its steps are commands that stand-ins write down here; `scripts/nightly 1000` shows
that the commands themselves start.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from large_batches import BATCHES
from sweep_proofs import NETS, Row

ROOT = Path(__file__).parents[2]
STEPS = [
    "tests",
    "repeated",
    "kept",
    "combinations",
    "bare",
    "honest",
    "heavy",
    "liars",
    "heavy-liars",
    "planted",
    "mutants",
    "processors",
    "kills",
    "adam-kills",
    "fuzz",
]
RECORD = '#!/bin/sh\necho "$0 $@" >> called\n[ ! -e fails ] || ! echo "$0 $@" | grep -q -f fails\n'

pytestmark = pytest.mark.skipif(not Path("/bin/sh").exists(), reason="needs a POSIX shell")


class Night:
    """A folder where scripts/nightly finds a stand-in for each program that it calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("scripts/setup", "scripts/test", "scripts/kill_test", ".venv/bin/python"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(RECORD)
            (folder / name).chmod(0o755)
        shutil.copy(ROOT / "scripts" / "nightly", folder / "scripts" / "nightly")

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "called").unlink(missing_ok=True)
        return subprocess.run([self.folder / "scripts" / "nightly", *arguments], capture_output=True, text=True)

    def called(self, *arguments: str) -> list[str]:
        """The commands of a night that ends well, set-up left out."""
        done = self(*arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("Everything holds\n")
        return (self.folder / "called").read_text().splitlines()[1:]


@pytest.fixture
def night(tmp_path: Path) -> Night:
    return Night(tmp_path)


def test_every_step_is_called_and_told(night: Night) -> None:
    done = night("--seed", "7")
    assert re.findall(r"^== (\S+):", done.stdout, re.M) == STEPS
    assert re.findall(r"^-- (\S+): \d+ s$", done.stdout, re.M) == STEPS
    assert night("--list").stdout.split() == STEPS


@pytest.mark.parametrize("step", STEPS)
def test_a_step_runs_alone(night: Night, step: str) -> None:
    done = night("--only", step, "--seed", "7")
    assert done.returncode == 0
    assert re.findall(r"^== (\S+):", done.stdout, re.M) == [step]


def test_a_night_goes_on_where_the_one_before_left_off(night: Night) -> None:
    def fuzzed(seed: int) -> str:
        (line,) = night.called("--only", "fuzz", "--seed", str(seed))
        return line.partition("fuzz_parsers.py ")[2]

    assert fuzzed(9) == "--seed 0 --first 900000 --count 100000"
    assert fuzzed(10) == "--seed 1 --first 0 --count 100000"
    kept = [line for seed in range(30, 37) for line in night.called("--only", "kept", "--seed", str(seed))]
    assert sorted(line.rpartition(" ")[2] for line in kept) == [f"{k}/7" for k in range(7)]
    assert "--seeds 2 --first-seed 14" in night.called("--only", "honest", "--seed", "7")[0]
    assert "--seeds 2 --first-seed 16" in night.called("--only", "honest", "--seed", "8")[0]


def test_a_part_of_a_night_has_a_part_of_everything(night: Night) -> None:
    called = "\n".join(night.called("100", "--seed", "7"))
    assert "--count 5\n" in called
    assert "--first 700000 --count 1000" in called
    assert "--part 7/700" in called
    assert "--part 7/100" in called


def test_a_step_that_fails_is_named_and_the_others_are_run(night: Night) -> None:
    (night.folder / "fails").write_text("optimizer adam\n")
    done = night("--seed", "7")
    assert done.returncode == 1
    assert done.stderr == "\nFailed in night 7: adam-kills\n"
    assert re.findall(r"^-- (\S+): \d+ s$", done.stdout, re.M) == STEPS


@pytest.mark.parametrize(
    "arguments", [("--only", "nope"), ("--only",), ("--seed", "-1"), ("--seed", "08"), ("--seed",), ("0",), ("soon",)]
)
def test_wrong_arguments_are_told_before_anything_is_run(night: Night, arguments: tuple[str, ...]) -> None:
    done = night(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("scripts/nightly: ")
    assert done.stderr.count("\n") == 1
    assert not (night.folder / "called").exists()


def test_heavy_rows_and_the_shares_of_liars_take_turns_that_meet() -> None:
    heavy = [
        row
        for row in (Row(data, net, batch) for data in ("digits", "mnist") for net in NETS for batch in BATCHES)
        if row.heavy(None)
    ]
    assert Row("mnist", "cnn", 10_000) in heavy
    assert Row("mnist", "cnn", 64) not in heavy
    assert len(heavy) % 2 == 1  # else half of the liars' shares, which are eight, would never meet half of the rows


def test_a_row_of_small_batches_has_no_liars_of_large_ones() -> None:
    command = [
        sys.executable,
        "tests/support/sweep_proofs.py",
        "--large",
        "--nets",
        "softmax",
        "--data",
        "digits",
        "--seeds",
        "1",
        "--batches",
    ]
    small = subprocess.run([*command, "7"], cwd=ROOT, capture_output=True, text=True)
    assert small.returncode == 0 and "nothing to prove" in small.stdout, small.stdout + small.stderr
    large = subprocess.run([*command, "255"], cwd=ROOT, capture_output=True, text=True)
    assert large.returncode == 0 and re.search(r"^[1-9]\d* proofs, 0 not as they should be$", large.stdout, re.M), (
        large.stdout + large.stderr
    )


def selected(*arguments: str) -> set[str]:
    """Names of the tests of a file that pytest would run."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--collect-only",
        "tests/files",
        *arguments,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.slow
def test_parts_of_the_tests_are_all_of_them() -> None:
    everything, first, second = selected(), selected("--part", "0/2"), selected("--part", "1/2")
    assert first | second == everything
    assert not first & second
    assert len(selected("--part", "12345/1000000")) == 1  # there is always one
