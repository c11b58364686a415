"""No string of a results file reaches a page as markup: each one is poisoned where the file's check lets it pass."""

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from climbs import example
from stored_results import STORED, full

from warpladder.appendix.reproduce.report.page import page as report_page
from warpladder.appendix.reproduce.results import Reproduction
from warpladder.errors import ResultsError
from warpladder.results import Results
from warpladder.results.profiled import Profile
from warpladder.results.report.page import page, sweep_page
from warpladder.results.stored import to_tree
from warpladder.results.sweep import Sweep

POISON = "<x-poison a=\"b\" c='d'>&lt;"


class Names(HTMLParser):
    """Names of all tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Container and key of every string of a JSON tree."""
    items = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    for key, value in items:
        if isinstance(value, str):
            yield tree, key
        yield from places(value)


def poisoned(tree: Any, read: Any) -> tuple[Any, int]:
    """What `read` makes of a tree whose strings end in the poison, but those that it then refuses; and how many do.

    Strings are poisoned by halves, so that few trees are read.
    """
    count = 0

    def poison(some: list[tuple[Any, Any]]) -> None:
        nonlocal count
        before = [container[key] for container, key in some]
        for container, key in some:
            container[key] += POISON
        try:
            read(tree)
            count += len(some)
        except (ResultsError, KeyError):
            for (container, key), value in zip(some, before, strict=True):
                container[key] = value
            if len(some) > 1:
                poison(some[: len(some) // 2])
                poison(some[len(some) // 2 :])

    poison(list(places(tree)))
    return read(tree), count


def climb(results: Results) -> str:
    return page(results, pictures=False)


def several(number: int) -> Any:
    return lambda results: page([results] * number, [f"{POISON}{at}" for at in range(number)], pictures=False)


def several_tasks(results: Results) -> str:
    return sweep_page(Sweep(1, (POISON, f"{POISON}2"), (results,)), pictures=False)


def with_profile(found: Profile) -> str:
    return page(example(), profiles=[found], pictures=False)


def stored(*parts: str) -> Any:
    return json.loads(STORED.joinpath("h200", *parts).read_bytes())


#: A tree, what reads it, the page of that, and how many strings are poisoned at least.
TREES: dict[str, tuple[Any, Any, Any, int]] = {
    "climb": (lambda: full().to_tree(), Results.from_tree, climb, 70),
    "compared": (lambda: full().to_tree(), Results.from_tree, several(2), 70),
    "ranked": (lambda: full().to_tree(), Results.from_tree, several(5), 70),
    "sweep": (lambda: full().to_tree(), Results.from_tree, several_tasks, 70),
    "profile": (lambda: stored("profiles", "cnn-gemm.json"), Profile.from_tree, with_profile, 60),
    "report": (lambda: stored("reproduce", "s4", "results.json"), Reproduction.from_tree, lambda found: report_page([found]), 600),
}  # fmt: skip


@pytest.mark.parametrize("name", [*(name for name in TREES if name != "report"), pytest.param("report", marks=pytest.mark.slow)])  # fmt: skip
def test_no_string_of_a_results_file_is_markup(name, monkeypatch):
    monkeypatch.setattr(
        "warpladder.results.report.html.picture", lambda name, alt, draw: f"<svg aria-label='{len(alt)}'></svg>"
    )
    make, read, show, least = TREES[name]
    found, count = poisoned(json.loads(json.dumps(to_tree(make()))), read)
    text = show(found)
    assert count >= least and "&lt;x-poison" in text
    seen = Names(text)
    assert "x-poison" not in seen.tags and not {"a", "c"} & seen.attributes
