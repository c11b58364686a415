"""Code blocks of the documentation's pages."""

from __future__ import annotations

from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]


def tokens(page):
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        yield token
        yield from token.children or ()


def code(page, language):
    return [token.content for token in tokens(page) if token.type == "fence" and token.info == language]
