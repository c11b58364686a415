"""The cache of compiled code: used again, never stale, and in nobody's way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpladder.files.cache import DAY, prune
from warpladder.ops.jit import cache as module
from warpladder.ops.jit import sources

PACKAGE = Path(module.__file__).parents[2]

INNER = """
from .jit.cache import compiled
FACTOR = {factor}
@compiled
def inner(x):
    return x * FACTOR
"""
OUTER = """
from .jit.cache import compiled
from .probe_inner import inner
@compiled
def outer(x):
    return inner(x) + 1
print(outer(10), sum(outer.stats.cache_hits.values()))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the copies, one after another, and of what they store, which is known by its path."""
    return tmp_path_factory.mktemp("compiled") / "home"


@pytest.fixture
def copy(home: Path) -> Iterator[Path]:
    """Copy of the package with two compiled functions more, one of which calls the other."""
    package = home / "src" / "warpladder"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "ops" / "probe_inner.py").write_text(INNER.format(factor=2))
    (package / "ops" / "probe_outer.py").write_text(OUTER)
    yield package
    shutil.rmtree(home)


@pytest.fixture
def compiled(copy: Path, home: Path) -> Path:
    """Such a copy, whose functions a process has compiled and stored: once, and restored for each further test."""
    stored = home.with_name("stored")
    if not stored.exists():
        assert run(copy) == "21 0\n"
        shutil.copytree(home, stored)
    shutil.rmtree(home)
    shutil.copytree(stored, home)
    return copy


def run(package: Path, code: str = "import warpladder.ops.probe_outer", **more: str) -> str:
    home = package.parent.parent
    environment = {
        **os.environ,
        "PYTHONPATH": str(package.parent),
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        **more,
    }
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.nightly
def test_a_second_process_compiles_nothing(compiled: Path) -> None:
    assert run(compiled) == "21 1\n"


@pytest.mark.slow
def test_a_change_in_what_a_function_imports_is_seen(compiled: Path) -> None:
    inner = compiled / "ops" / "probe_inner.py"
    for number, (factor, said) in enumerate(((3, "31 0\n"), (2, "21 1\n")), start=1):
        inner.write_text(INNER.format(factor=factor))
        os.utime(inner, (number, number))  # Python takes its bytecode for the file's while size and second are the same
        assert run(compiled) == said


@pytest.mark.slow
def test_an_edit_of_comments_docstrings_and_lines_compiles_nothing(compiled: Path) -> None:
    outer = compiled / "ops" / "probe_outer.py"
    outer.write_text(
        f'"""Another docstring."""\n\n# and a comment\n{OUTER}'.replace(
            "def outer(x):", 'def outer(x):\n    """Twice and one."""'
        )
    )
    inner = compiled / "ops" / "probe_inner.py"
    inner.write_text("\n\n" + inner.read_text().replace("return", "# said\n    return"))
    os.utime(inner, (1, 1))
    assert run(compiled) == "21 1\n"


@pytest.mark.slow
def test_a_change_in_a_file_outside_the_package_is_seen(copy: Path) -> None:
    """The folder's hash does not know it, and bytecode without its constants is the same."""
    mine = copy.parent / "mine.py"
    source = "from warpladder.ops.jit.cache import compiled\n@compiled\ndef twice(x):\n    return x * 2\n"
    source += "print(twice(10), sum(twice.stats.cache_hits.values()))\n"
    for text, said in ((source, "20 0\n"), ("# mine\n" + source, "20 1\n"), (source.replace("2", "3"), "30 0\n")):
        mine.write_text(text)
        assert run(copy, "import mine", PYTHONDONTWRITEBYTECODE="1") == said


@pytest.mark.slow
def test_functions_of_one_name_keep_their_own_code(copy: Path) -> None:
    """numba's index knows bytecode, not constants: two functions of one name in one file must not share it."""
    (copy / "ops" / "probe_twins.py").write_text(
        "from .jit.cache import compiled\n"
        "def first():\n    @compiled\n    def twin(x):\n        return x + 1\n    return twin\n"
        "a = first()\n"
        "def first():\n    @compiled\n    def twin(x):\n        return x + 2\n    return twin\n"
        "b = first()\n"
        "print(a(10), b(10), sum(a.stats.cache_hits.values()) + sum(b.stats.cache_hits.values()))\n"
    )
    assert run(copy, "import warpladder.ops.probe_twins") == "11 12 0\n"
    assert run(copy, "import warpladder.ops.probe_twins") == "11 12 2\n"


def test_what_the_compiler_sees_decides() -> None:
    said = sources.meaning(b"def f(x):\n    return x + 1\n")
    assert said == sources.meaning(
        b'"""Of f."""\n\n# why\ndef f(x):\n    """Add."""\n    return (x\n            + 1)  # one\n'
    )
    for other in (
        b"def f(x):\n    return x + 2\n",
        b"def g(x):\n    return x + 1\n",
        b"@h\ndef f(x):\n    return x + 1\n",
        b"def f(x:",
    ):
        assert sources.meaning(other) != said
    assert sources.meaning(b'def f(x):\n    y = "a"\n') != sources.meaning(b'def f(x):\n    y = "b"\n')


@pytest.mark.slow
def test_a_full_disk_costs_a_warning_and_not_the_run(copy: Path) -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200)); import signal; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    )
    said = run(
        copy, code + "import warpladder.ops.probe_outer", PYTHONDONTWRITEBYTECODE="1"
    )  # Python would leave its own files cut short
    assert (
        said.startswith("21 0\n")
        and said.count("UserWarning: compiled code cannot be stored") == 1
        and "File too large" in said
    )


def test_without_a_place_for_it_everything_works(copy: Path) -> None:
    blocked = copy.parent / "a_file"
    blocked.write_text("")
    said = run(copy, XDG_CACHE_HOME=str(blocked), HOME=str(blocked))
    assert said.startswith("21 0\n")
    assert said.count("cannot be stored") == 1


@pytest.mark.slow
def test_files_of_different_processes_have_different_names(copy: Path) -> None:
    run(copy)
    code = (
        "import warpladder.ops.probe_outer as p; p.outer(1.5); from warpladder.ops.jit.cache import PROCESS; "
        "print(PROCESS)"
    )
    process = run(copy, code).split()[-1]
    names = [path.name for path in copy.parent.parent.rglob("*.nbc") if "outer" in path.name]
    assert len(names) == 2
    assert sum(process in name for name in names) == 1


def test_old_folders_go(tmp_path: Path) -> None:
    for age in range(5):
        folder = tmp_path / "numba" / str(age)
        folder.mkdir(parents=True)
        then = folder.stat().st_mtime - age * DAY * 0.6
        os.utime(folder, (then, then))
    prune(tmp_path / "numba", module.FOLDERS.limits._replace(entries=2))
    assert sorted(path.name for path in (tmp_path / "numba").iterdir()) == ["0", "1"]


def test_the_key_covers_every_source_that_is_compiled(monkeypatch: pytest.MonkeyPatch, copy: Path) -> None:
    monkeypatch.setattr(sources, "PACKAGE", copy)
    before = sources.key()
    users = [path for path in copy.rglob("*.py") if "jit.cache import compiled" in path.read_text()]
    assert len(users) > 8
    for path in users:
        source = path.read_text()
        path.write_text(source + "MORE = 1\n")
        assert sources.key() != before, path
        path.write_text(source)
    assert sources.key() == before
    (copy / "ops" / "linear" / "loops.py").rename(copy / "ops" / "linear" / "renamed.py")
    assert sources.key() != before


def test_sources_that_were_seen_are_not_parsed_again(monkeypatch: pytest.MonkeyPatch, copy: Path) -> None:
    """And an edit is seen all the same, whatever time and size the file has."""
    monkeypatch.setattr(sources, "PACKAGE", copy)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: str(copy.parent))
    first = module.cache_folder.__wrapped__()
    assert first is not None and first.name == sources.key()
    with monkeypatch.context() as patch:
        patch.setattr(sources, "meaning", lambda source: pytest.fail("parsed again"))
        assert module.cache_folder.__wrapped__() == first
    loops = copy / "ops" / "linear" / "loops.py"
    text, when = loops.read_text(), loops.stat().st_mtime_ns
    loops.write_text(text + "# a comment\n")
    assert module.cache_folder.__wrapped__() == first
    assert len(list(first.glob("seen-*"))) == 2
    loops.write_text(text.replace("+=", "-=", 1))
    os.utime(loops, ns=(when, when))
    assert module.cache_folder.__wrapped__() not in (None, first)


def test_code_that_is_not_ours_keeps_its_own_cache() -> None:
    import numba

    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]

    @module.compiled(nogil=True)
    def twice(x: float) -> float:
        return 2 * x

    assert twice(4) == 8
    assert before == numba.config.CACHE_DIR  # type: ignore[attr-defined]
    assert twice.targetoptions["nogil"]


@pytest.mark.parametrize("kind", ["nbi", pytest.param("nbc", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_damaged_file_is_compiled_anew(compiled: Path, kind: str) -> None:
    files = list(compiled.parent.parent.rglob(f"*.{kind}"))
    assert len(files) >= 2
    for file, damage in zip(files, (b"", files[1].read_bytes()[:40], *[b"rubbish"] * len(files)), strict=False):
        file.write_bytes(damage)
    assert run(compiled) == "21 0\n"
    assert run(compiled) == "21 1\n"
