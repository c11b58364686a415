"""The rules of the house: sizes of files and functions, lines of 120 columns, names that are used once, plain words."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "warpladder"
CODE = (".py", ".cu", ".cuh", ".cpp", ".h")
FILES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in CODE and "__pycache__" not in path.parts)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

MOST_LINES, MOST_FUNCTION, MOST_PARAMETERS, MOST_FILES, COLUMNS = 350, 60, 8, 24, 120

#: Functions that users call, or commands of the command line, where each option is a parameter.
PUBLIC = ("train/loop.py:train", "timing/__init__.py:climb", "proof/__init__.py:verify", "data/arrays.py:arrays",
          "data/__init__.py:load", "data/tables/load.py:table")  # fmt: skip

#: Words that have a plain one in the field, and the word to use. Laboratory notes and the list of changes keep theirs.
WORDS = {
    r"whoever": "name the reader, the caller or the thread",
    r"nobody": "no one thing: name it",
    r"told|tells": "message, reason, reported",
    r"such an? one": "name the thing",
    r"so much": "say how much",
    r"shall": "must",
    r"winners?": "argmax index",
    r"slabs?": "split-K partial",
    r"undo": "inverse scale",
    r"enlarge\w*": "upsample",
    r"rectif\w+": "relu, fused ReLU",
    r"behind": "after",
    r"beside": "next to, concurrently",
}
PLAIN = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(WORDS)})(?![A-Za-z])", re.IGNORECASE)


def name(path: Path) -> str:
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).as_posix()


@cache
def trees() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in FILES if path.suffix == ".py"]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Statements below a node, those in statements too."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.stmt | ast.excepthandler | ast.match_case):
            yield each
            yield from statements(each)


@cache
def functions() -> list[tuple[str, ast.FunctionDef]]:
    nodes = ((path, node) for path, tree in trees() for node in statements(tree))
    return [(f"{name(path)}:{node.name}", node) for path, node in nodes if isinstance(node, ast.FunctionDef)]


def parameters(function: ast.FunctionDef) -> int:
    taken = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return len([each for each in taken if each.arg not in ("self", "cls")])


def test_files_are_short() -> None:
    lines = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {file: count for file, count in lines.items() if count > MOST_LINES} == {}
    assert sorted(lines.values())[len(lines) // 2] <= 110


def test_folders_can_be_taken_in_at_a_glance() -> None:
    files: dict[str, int] = defaultdict(int)
    for path in FILES:
        files[name(path.parent)] += path.suffix in (".py", ".cu")
    assert {folder: count for folder, count in files.items() if count > MOST_FILES} == {}


def test_functions_are_short_and_take_few_parameters() -> None:
    long = {f: n for f, node in functions() if (n := (node.end_lineno or 0) - node.lineno + 1) > MOST_FUNCTION}
    wide = {f: n for f, node in functions() if node.name != "__init__" and (n := parameters(node)) > MOST_PARAMETERS}
    assert {each: n for each, n in long.items() if each not in PUBLIC} == {}
    assert {each: n for each, n in wide.items() if each not in PUBLIC and not each.startswith("cli/")} == {}


def test_no_two_test_files_have_one_name() -> None:
    """pytest and mypy take them for one module."""
    counts = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert {file for file, count in counts.items() if count > 1} == set()


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name(path))
    assert {each: found for each, found in places.items() if len(found) > 1} == {}


def test_lines_fit_the_page_and_words_are_plain() -> None:
    long, unplain = [], []
    for path in (*FILES, *PAGES):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > COLUMNS:
                long.append(f"{name(path)}:{number}: {len(line)}")
            if "notes" not in path.parts and PLAIN.search(line):
                unplain.append(f"{name(path)}:{number}: {line.strip()}")
    assert long == []
    assert unplain == []


def test_each_folder_says_what_lives_in_it() -> None:
    """Three lines or so: what lives here, what it may import, where to begin."""
    mute = []
    for path, tree in trees():
        if path.name == "__init__.py" and path.parent != PACKAGE:
            text = ast.get_docstring(tree) or ""
            if "import" not in text or "egin with" not in text:
                mute.append(name(path))
    assert mute == []


#: First words that put off the noun or the verb.
ARTICLES = re.compile(
    r"(?:An?|The|All|Each|Every|This|These|That|Its?|What|Which|Whether|Where|When|Who|How|Why|If|With|For|In|On|At|By|To|"
    r"From|Of|As|And|Such)\s"
)


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    texts = [(path, node, ast.get_docstring(node)) for path, tree in trees() for node in (tree, *statements(tree))
             if isinstance(node, kinds)]  # fmt: skip
    assert len([text for *_, text in texts if text]) > 5000
    late = [f"{name(path)}:{getattr(node, 'lineno', 1)}: {text}" for path, node, text in texts
            if text and ARTICLES.match(text)]  # fmt: skip
    assert late == []


#: Long subjects, one each, that others had fetched before the rule was checked on them: history is not rewritten.
LONG_SUBJECTS = {
    "Accept updates left out in fp16 where a gradient is not finite; fix tests",
    "Add an MLPClassifier for scikit-learn, trained by the rung that auto takes",
    "Keep lines of the libraries' headers within the page, and find host code where it is",
    "Look for poison among a page's tags and attributes; write the reference again",
}


def test_commit_subjects_are_short() -> None:
    """The newest commits; a shallow clone has fewer."""
    log = subprocess.run(["git", "log", "-30", "--format=%s"], cwd=ROOT, capture_output=True, text=True)
    assert [subject for subject in log.stdout.splitlines() if len(subject) > 72 and subject not in LONG_SUBJECTS] == []
