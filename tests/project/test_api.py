"""The reference of the public names is what their docstrings say."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import warpladder as wl

MAKER = Path(__file__).parents[2] / "docs" / "make_api.py"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_api", MAKER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(maker) -> str:
    return maker.page()


def test_the_page_is_up_to_date(maker, page):
    assert maker.PAGE.read_text(encoding="utf-8") == page, "a public docstring changed: python docs/make_api.py"


def test_every_public_name_is_described(page):
    for name in wl.__all__:
        value = getattr(wl, name)
        if not isinstance(value, (str, ModuleType)):
            assert f"\n### {value.__name__}\n" in page, name


def test_public_methods_of_models_are_described_with_their_arguments(page):
    for name, held in vars(wl.Model).items():
        if inspect.isfunction(held) and not name.startswith("_"):
            assert f"**`Model.{name}(" in page
    assert (
        "**`Model.score(x, y=None)`**" in page
        and "warpladder.Conv2d(*, out_channels, kernel_size, stride=1, padding=0, bias=True)" in page
    )


def test_nothing_of_sphinx_is_left(page):
    assert "eval-rst" not in page and "::" not in page.replace("`::`", "") and ":members:" not in page


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("One line.", ["One line."]),
        ("Two\nlines.\n\nAnd more.", ["Two lines.", "", "And more."]),
        ("A _b_ and `_c_`, *d, x * y, snake_case.", ["A \\_b\\_ and `_c_`, \\*d, x * y, snake_case."]),
        ("name : what\n    goes on. other, third : more.", ["- `name`: what goes on.", "- `other, third`: more."]),
    ],
)
def test_docstrings_become_markdown(maker, text, lines):
    class Told:
        pass

    Told.__doc__ = text
    assert maker._text(Told) == lines


def test_sections_become_lists(maker):
    def told(a, b=1):
        """It tells.

        Parameters
        ----------
        a : int
            What it
            is.
        b : str

        Raises
        ------
        ValueError
            Where it cannot.
        """

    assert maker._text(told) == [
        "It tells.", "", "*Parameters*", "", "- `a`, int: What it is.", "- `b`, str", "", "*Raises*", "", "- `ValueError`: Where it cannot.",
    ]  # fmt: skip
    assert maker._signature(told) == "(a, b=1)"


def test_names_are_where_the_page_says(page):
    places = [line.partition("(")[0] for line in page.splitlines() if line.startswith("warpladder.")]
    assert len(places) > 30
    for place in places:
        value = importlib.import_module("warpladder")
        for name in place.split(".")[1:]:
            value = getattr(value, name)
