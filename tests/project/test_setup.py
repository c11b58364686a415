"""What scripts/setup says where Python is too old or lacks its venv module; what it does is shown by running it."""

import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "scripts" / "setup"

OLD = """#!/bin/sh
case $1 in --version) echo Python 3.9.2 ;; *) exit 1 ;; esac
"""
NO_VENV = """#!/bin/sh
case "$*" in *venv*) exit 1 ;; --version) echo Python 3.11.2 ;; esac
"""


@pytest.fixture
def run_with(tmp_path):
    if not Path("/bin/sh").exists():
        pytest.skip("needs a POSIX shell")
    (tmp_path / "scripts").mkdir()
    shutil.copy(SETUP, tmp_path / "scripts" / "setup")

    def run(python: str) -> subprocess.CompletedProcess[str]:
        fake = tmp_path / "fake-python"
        fake.write_text(python)
        fake.chmod(0o755)
        return subprocess.run(
            [tmp_path / "scripts" / "setup"],
            env={"PYTHON": str(fake), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )

    return run


def test_an_old_python_is_named(run_with):
    done = run_with(OLD)
    assert done.returncode == 2
    assert "Python 3.11 or newer is needed, found: Python 3.9.2" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_venv_module_is_named(run_with, tmp_path):
    done = run_with(NO_VENV)
    assert done.returncode == 2
    assert "Python 3.11.2 has no venv module" in done.stderr
    assert "python3-venv" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / ".venv").exists()
