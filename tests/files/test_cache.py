"""The package's disk cache: whole entries or none, limits, and one warning where nothing can be stored."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from warpladder.files import cache as module
from warpladder.files.cache import DAY, Cache, CacheLimits

MARK = b"entries 1\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / name))
    monkeypatch.setattr(module, "_warned", set())
    return tmp_path / "warpladder"


def made(**more: CacheLimits) -> Cache:
    return Cache("things", "things", "every start makes them again", MARK, ".thing", **more)


def aged(path: Path, seconds: float) -> Path:
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


@pytest.mark.parametrize("content", [b"", b"\n", b"\x00\nentry\n", MARK])
def test_what_is_written_is_read(home: Path, content: bytes) -> None:
    assert made().read("a") is None
    made().write("a", content)
    assert made().read("a") == content
    assert [path.name for path in (home / "things").iterdir()] == ["a.thing"]


def test_a_damaged_entry_is_absent_and_made_anew(home: Path) -> None:
    things = made()
    things.write("a", b"content")
    whole = things.path("a").read_bytes()
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            things.path("a").write_bytes(damaged)
            assert things.read("a") is None
    things.write("a", b"content")
    assert things.path("a").read_bytes() == whole
    assert Cache("things", "", "", b"entries 2\n", ".thing").read("a") is None


def test_a_folder_that_is_deleted_is_made_again(home: Path) -> None:
    things = made()
    things.write("a", b"1")
    things.path("a").unlink()
    (home / "things").rmdir()
    things.write("a", b"2")
    assert things.read("a") == b"2"


def test_a_folder_that_cannot_be_written_costs_one_warning(home: Path) -> None:
    home.write_text("a file where the folder should be")
    things = made()
    with pytest.warns(UserWarning, match="things cannot be stored in .*things .*: every start makes them") as caught:
        assert things.folder() is None
        assert things.folder() is None
        things.write("a", b"1")
        things.write("b", b"1")
    assert len(caught) == 1
    assert things.read("a") is None


def test_a_full_disk_costs_one_warning(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    things = made()
    assert things.folder() == home / "things"
    monkeypatch.setattr(module, "write_atomically", full)
    with pytest.warns(UserWarning, match="No space left on device") as caught:
        things.write("a", b"1")
        things.write("b", b"1")
    assert len(caught) == 1


def test_the_least_recently_used_entries_go_first(home: Path) -> None:
    things = made(limits=CacheLimits(entries=3))
    for age, key in enumerate("cba"):
        things.write(key, b"1")
        aged(things.path(key), 10 * DAY - age)
    assert things.read("c") == b"1"  # used: it stays
    things.write("d", b"1")
    assert sorted(path.stem for path in (home / "things").iterdir()) == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        (CacheLimits(), "abc"),
        (CacheLimits(entries=1), "a"),
        (CacheLimits(entries=0), ""),
        (CacheLimits(size=250), "ab"),
        (CacheLimits(age=1.5 * DAY), "ab"),
        (CacheLimits(entries=1, young=1.5 * DAY), "ab"),
    ],
)
def test_limits(tmp_path: Path, limits: CacheLimits, left: str) -> None:
    for age, name in enumerate("abc"):
        aged(tmp_path / name, age * DAY) if (tmp_path / name).write_bytes(bytes(100)) else None
    module.prune(tmp_path, limits)
    assert "".join(sorted(path.name for path in tmp_path.iterdir())) == left


def test_folders_are_entries_and_old_temporary_files_go(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "old")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
        aged(tmp_path / name, age * 2 * DAY)
        aged(tmp_path / f".{name}.tmp", age * 2 * DAY) if (tmp_path / f".{name}.tmp").write_text(".") else None
    (tmp_path / "another").write_text("not an entry: it has another ending")
    module.prune(tmp_path, CacheLimits(age=DAY), "w")
    module.prune(tmp_path, CacheLimits(age=DAY), "d")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".new.tmp", "another", "new"]


WRITER = """
import sys
from warpladder.files.cache import Cache, CacheLimits
things = Cache("things", "", "", b"entries 1\\n", limits=CacheLimits(entries=3))
for number in range(60):
    key = str(number % 5)
    assert things.read(key) in (None, key.encode() * 9999)
    things.write(key, key.encode() * 9999)
"""


def test_many_processes_write_read_and_prune_at_once(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-W", "error", "-c", WRITER], env=environment) for _ in range(4)]
    assert [process.wait(120) for process in running] == [0] * 4


def test_reading_rarely_touches_an_entry(home: Path) -> None:
    things = made()
    things.write("a", b"1")
    aged(things.path("a"), 60)
    before = things.path("a").stat().st_mtime
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert things.read("a") == b"1"
    assert things.path("a").stat().st_mtime == before
