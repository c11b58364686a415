"""Code blocks of the documentation's pages."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]


@cache
def tokens(page):
    """A page's tokens, those within lines too; each process parses a page once."""
    found = MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))
    return [each for token in found for each in (token, *(token.children or ()))]


def code(page, language):
    return [token.content for token in tokens(page) if token.type == "fence" and token.info == language]
