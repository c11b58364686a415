"""Errors of a command whose output is JSON: the same line, as JSON on stdout too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from ...errors import WarpladderError


@contextmanager
def json_errors(is_json: bool, empty: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Context in which an error is printed as JSON, {"error": message}, before it is raised.

    empty : further fields, those of an outcome in which nothing was found.
    """
    try:
        yield
    except (WarpladderError, click.UsageError, OSError) as error:
        if is_json:
            text = error.format_message() if isinstance(error, click.UsageError) else str(error)
            click.echo(json.dumps({**(empty or {}), "error": " ".join(text.split())}, indent=2))
        raise
