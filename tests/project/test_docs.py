"""What the documents say exists: links lead somewhere, commands parse, Python runs."""

import re
import shlex
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from warpladder.cli import group

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "local" for part in path.relative_to(ROOT).parts)
)


def tokens(page):
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        yield token
        yield from token.children or ()


def code(page, language):
    return [token.content for token in tokens(page) if token.type == "fence" and token.info == language]


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    found = list(tokens(page))
    headings = [after.content for before, after in pairwise(found) if before.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def named(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    broken = []
    for token in tokens(page):
        target = str(token.attrs.get("href") or token.attrs.get("src") or "")
        if not target or re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or not there.is_relative_to(ROOT) or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


def documented_commands():
    for page in PAGES:
        for block in code(page, "sh"):
            for line in block.splitlines():
                yield named(page), line.partition("#")[0]
    for name, command in group.commands.items():
        assert "Example" in (command.help or ""), f"{name} --help shows no example"
        for line in (command.help or "").splitlines():
            yield f"{name} --help", line


COMMANDS = [(where, line.strip().removeprefix(".venv/bin/")) for where, line in documented_commands()]
COMMANDS = [(where, line) for where, line in COMMANDS if line.startswith("warpladder ")]


@pytest.mark.parametrize(("where", "line"), COMMANDS, ids=[f"{where}: {line}" for where, line in COMMANDS])
def test_commands_are_ones_that_exist(where, line):
    name, *arguments = shlex.split(line)[1:]
    group.commands[name].make_context(name, arguments)


@pytest.mark.parametrize("page", [page for page in PAGES if code(page, "python")], ids=named)
def test_python_can_be_read(page):
    for block in code(page, "python"):
        compile(block, named(page), "exec")


@pytest.mark.usefixtures("small_climbs")
def test_the_python_of_the_readme_runs_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in code(ROOT / "README.md", "python"):
        exec(compile(block, "README.md", "exec"), names)


@pytest.mark.slow
@pytest.mark.usefixtures("small_climbs")
def test_the_python_of_its_page_runs_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in code(ROOT / "docs" / "python.md", "python"):
        if "torch" in block and find_spec("torch") is None:
            continue
        exec(compile(block, "python.md", "exec"), names)
    assert {path.name for path in tmp_path.iterdir()} >= {"mlp.safetensors", "results.json"}


def test_documents_name_no_folder_of_any_one_machine():
    for page in PAGES:
        assert not re.search(r"/(home|root|work|tmp|Users)/", page.read_text(encoding="utf-8")), named(page)


def test_the_readme_starts_with_the_two_commands_that_ci_runs_in_fresh_clones():
    assert [block.strip() for block in code(ROOT / "README.md", "sh")][:2] == ["scripts/demo", "scripts/test"]


def test_scripts_are_executable():
    if sys.platform != "win32":
        for script in (*(ROOT / "scripts").iterdir(), ROOT / ".ci" / "run"):
            assert script.stat().st_mode & 0o100, script
