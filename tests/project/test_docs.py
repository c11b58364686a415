"""What the documents say exists: links lead somewhere, commands parse, Python runs."""

import functools
import importlib
import os
import re
import shlex
import sys
from importlib.util import find_spec
from itertools import pairwise

import click
import pytest
from pages import ROOT, code, tokens

import warpladder
from warpladder.cli import group
from warpladder.ladder import LADDER

PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "local" for part in path.relative_to(ROOT).parts)
)


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    found = list(tokens(page))
    headings = [after.content for before, after in pairwise(found) if before.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def named(page):
    return page.relative_to(ROOT).as_posix()


def leads_somewhere(page, target):
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    return there.exists() and there.is_relative_to(ROOT) and (not anchor or anchor in anchors(there))


def test_links_lead_somewhere():
    links = [
        (page, str(token.attrs.get("href") or token.attrs.get("src") or "")) for page in PAGES for token in tokens(page)
    ]
    own = [(page, target) for page, target in links if target and not re.match(r"[a-z]+:", target)]
    assert [f"{named(page)}: {target}" for page, target in own if not leads_somewhere(page, target)] == []


def documented_lines():
    for page in PAGES:
        for block in code(page, "sh"):
            for line in block.replace("\\\n", "").splitlines():
                yield named(page), line.partition("#")[0].strip().removeprefix(".venv/bin/")
    for name, command in group.commands.items():
        assert "Example" in (command.help or ""), f"{name} --help shows no example"
        for line in (command.help or "").splitlines():
            yield f"{name} --help", line.strip()


def documented_commands():
    found = [(where, line) for where, line in documented_lines() if line.startswith("warpladder ")]
    assert len(found) > 150
    return found


def test_commands_are_ones_that_exist():
    wrong = []
    for where, line in documented_commands():
        name, *arguments = shlex.split(line)[1:]
        try:
            group.commands[name].make_context(name, arguments)
        except (KeyError, click.ClickException) as error:
            wrong.append(f"{where}: {line}: {error}")
    assert wrong == []


def test_python_can_be_read():
    for page in PAGES:
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


OWNED = [page for page in PAGES if page.parent == ROOT or page.is_relative_to(ROOT / "docs")]
#: Pages that describe today's tree; the change log describes every day's.
TODAY = [page for page in OWNED if page.name != "CHANGELOG.md"]
#: Files that a reader makes, or a command writes.
MADE = re.compile(
    r"(mine|my\w*|FILE|NET|net|blobs|wave|s1|s5|measured|data|train|test|digits|submission|features|f|cnn|mlp|"
    r"autoencoder|results?|report|scores|model|profile|weights|state|climb|smooth|races|tensor|masks|lanes|sums?|confusion|wrong|linear)"
    r"\.(py|toml|cu|csv|json|html|safetensors|npy|npz|md|png|svg)"
)
SUFFIXES = ("py", "cu", "cuh", "md", "toml", "json", "cpp", "svg", "png", "html", "sh")


@functools.cache
def tracked():
    """Every file of the repository, with "/" before its path, and every folder, with "/" before and after."""
    found = set()
    for top in ("src", "tests", "docs", "benchmarks", "scripts", "examples", ".ci"):
        found.add(f"/{top}/")
        for path in (ROOT / top).rglob("*"):
            if "__pycache__" not in path.parts:
                found.add("/" + path.relative_to(ROOT).as_posix() + ("/" if path.is_dir() else ""))
    return found | {"/" + path.name for path in ROOT.iterdir() if path.is_file()}


def spans(page):
    """Code between single backticks in a page's text, tables and lists."""
    for token in tokens(page):
        if token.type == "code_inline":
            yield token.content


def is_path(text):
    """True if a piece of code is a path of this repository: a known suffix, or a slash at its end."""
    if (
        not re.fullmatch(r"[\w.*/-]+", text)
        or MADE.fullmatch(text.removeprefix("./"))
        or text.startswith(("/", "-", "*.", "runs/"))
    ):
        return False
    if re.fullmatch(r"\.\w+", text):  # a suffix alone
        return False
    return text.rpartition(".")[2] in SUFFIXES or (text.endswith("/") and len(text) > 1)


def pattern(text):
    """A regular expression of the paths that a piece of code stands for; * and capitals (NAME) are any name."""
    literal = re.escape(text.removeprefix("./"))
    return re.compile(".*/" + re.sub(r"\\\*|\b[A-Z]{4,}\b", "[^/]*", literal))


def test_paths_that_a_page_names_exist():
    named_here = {(named(page), text) for page in TODAY for text in spans(page) if is_path(text)}
    there = {text for _, text in named_here if any(map(pattern(text).fullmatch, tracked()))}
    assert sorted((page, text) for page, text in named_here if text not in there) == []


def test_dotted_names_that_a_page_mentions_exist():
    dotted = re.compile(r"\b(?:warpladder|wl)(?:\.\w+)+")
    found = {(named(page), name) for page in TODAY for text in spans(page) for name in dotted.findall(text)}
    names = {(page, name) for page, name in found if name.rpartition(".")[2] not in SUFFIXES}
    assert sorted((page, name) for page, name in names if not resolves(name.split(".")[1:])) == []


def resolves(names):
    """True if these names lead from the package to a module, or to what a module holds."""
    value: object = warpladder
    for at, name in enumerate(names):
        if not hasattr(value, name):
            try:
                importlib.import_module(".".join(("warpladder", *names[: at + 1])))
            except ImportError:
                return False
        value = getattr(value, name, None)
    return True


def includes(page):
    """(file, options) of each literalinclude of a page."""
    for token in tokens(page):
        if token.type == "fence" and token.info.startswith("{literalinclude}"):
            path = page.parent / token.info.split(maxsplit=1)[1].strip()
            yield path, dict(re.findall(r"^:([\w-]+):[ ]*(.*)$", token.content, re.MULTILINE))


#: Told by their text: to parse every page takes each process that collects the tests most of a second.
SHOWING = [page for page in TODAY if "```{literalinclude}" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", SHOWING, ids=named)
def test_code_that_a_page_shows_is_found_in_the_source(page):
    text = page.read_text(encoding="utf-8")
    assert any(includes(page))
    for path, options in includes(page):
        lines = path.read_text(encoding="utf-8").splitlines()
        first = [at for at, line in enumerate(lines) if options["start-at"] in line]
        assert first, f"{path.name} has no line with {options['start-at']!r}"
        end = options.get("end-at", options.get("end-before"))
        after = [at for at in range(first[0], len(lines)) if end is not None and end in lines[at]]
        assert after or end is None, f"{path.name} has no line with {end!r} after {options['start-at']!r}"
        count = (after[0] if after else len(lines)) - first[0] + ("end-at" in options)
        assert count <= 30, f"{page.name} shows {count} lines of {path.name}"
        link = os.path.relpath(path.resolve(), page.parent).replace(os.sep, "/")
        assert f"({link})" in text, f"{page.name} shows {path.name} without a link to it"


RUNG_PAGES = sorted((ROOT / "docs" / "rungs").glob("*.md"))


def test_every_rung_has_a_page_with_its_core():
    assert {page.stem for page in RUNG_PAGES} == {rung.name for rung in LADDER}
    for page in RUNG_PAGES:
        text = page.read_text(encoding="utf-8")
        assert any(includes(page)), f"{page.name} shows no code"
        assert "## Predicted and measured" in text and "## What to try" in text, page.name


def test_lines_fit_in_120_columns():
    numbered = [
        (named(page), *line) for page in OWNED for line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    ]
    assert [f"{page}:{number}" for page, number, line in numbered if len(line) > 120] == []
