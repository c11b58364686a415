"""Writes docs/api.md, the reference of the public names, from their docstrings: `python docs/make_api.py`.

The page is plain Markdown, so that it reads on GitHub and in an editor; tests/project/test_api.py holds it to the
docstrings.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import warpladder as wl
from warpladder import checkpoint, data, errors, ladder, nets, results
from warpladder.appendix import svm
from warpladder.appendix.svm import results as svm_results
from warpladder.data.dataset import pixels
from warpladder.results import classes
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, StepLog, Trainer

PAGE = Path(__file__).parent / "api.md"
#: Columns of a line of the page.
WIDTH = 120

#: The parts of the page: a heading, how its names are reached, and what is described.
PARTS: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    (
        "Networks",
        "warpladder.",
        (
            wl.Net,
            wl.Linear,
            wl.Conv2d,
            wl.ReLU,
            wl.Tanh,
            wl.Sigmoid,
            wl.LeakyReLU,
            wl.GELU,
            wl.SiLU,
            wl.BatchNorm1d,
            wl.BatchNorm2d,
            wl.Dropout,
            wl.Residual,
            wl.MaxPool2d,
            wl.AvgPool2d,
            wl.AdaptiveAvgPool2d,
            wl.Upsample2d,
            wl.Flatten,
            wl.load_net,
        ),
    ),
    ("Losses", "warpladder.", (wl.CrossEntropyLoss, wl.MSELoss, wl.L1Loss, wl.HuberLoss, wl.BCEWithLogitsLoss)),
    ("Networks of the ladder", "warpladder.nets.", (*nets.ZOO, nets.named)),
    (
        "Data",
        "warpladder.data.",
        (
            data.load,
            data.table,
            data.arrays,
            data.Dataset,
            data.Standard,
            data.split,
            data.download,
            data.write_submission,
            pixels,
        ),
    ),
    (
        "Optimizers and schedules",
        "warpladder.",
        (wl.SGD, wl.Adam, wl.AdamW, wl.RMSprop, wl.Constant, wl.StepDecay, wl.Cosine, wl.OneCycle),
    ),
    ("Training", "warpladder.", (wl.TrainConfig, wl.train, wl.Model, wl.Run, wl.load)),
    (
        "Support vector machines",
        "warpladder.appendix.svm.",
        (svm.classify, svm.SvmSettings, svm.FeaturePart, svm.of_arrays, svm.of_file, svm.of_extraction),
    ),
    ("What a support vector machine returns", "warpladder.appendix.svm.results.", (svm_results.SvmResults,)),
    ("Scores of classes", "warpladder.results.classes.", (classes.ClassScores, classes.class_scores)),
    ("What a run reports", "warpladder.train.", (checkpoint.EpochLog, checkpoint.Score)),
    ("The ladder", "warpladder.ladder.", (ladder.find, ladder.load, ladder.is_peer, ladder.outside, ladder.spelled)),
    ("What rungs are made of", "", (Rung, Trainer, State, StepLog)),
    (
        "Options of rungs",
        "warpladder.ladder.",
        (
            ladder.Options,
            ladder.option,
            ladder.Whole,
            ladder.OneOf,
            ladder.SomeOf,
            ladder.YesNo,
            ladder.ThreadOptions,
            ladder.KernelOptions,
            ladder.GraphOptions,
        ),
    ),
    ("Proof and timing", "warpladder.", (wl.verify, wl.climb)),
    (
        "What a climb returns",
        "warpladder.results.",
        (results.load, results.Results, results.RungResult, results.Timing, results.Checked),
    ),
)
_HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w[\w, *]*) : (.*)$")


def page() -> str:
    """The whole page."""
    parts = [*PARTS, *_others()]
    every = [value for _, _, values in parts for value in values]
    classes = {value for value in every if isinstance(value, type)}
    lines = [
        "# Reference",
        "",
        "Written by `docs/make_api.py` from the docstrings. Public names are imported when they are first used.",
        "",
    ]
    lines += [f"- [{title}](#{title.lower().replace(' ', '-')})" for title, _, _ in parts]
    for title, where, values in parts:
        lines += ["", f"## {title}"]
        for value in values:
            lines += _described(value, where, classes)
    return "\n".join(_wrapped(lines)) + "\n"


def _wrapped(lines: list[str]) -> list[str]:
    """The lines with paragraphs and list entries wrapped at WIDTH columns, and with them signatures in code blocks."""
    out: list[str] = []
    language = None  # of the code block that a line is in
    for line in lines:
        if line.startswith("```"):
            language = line[3:] if language is None else None
            out.append(line)
        elif language == "text":
            out += _filled(line, "    ")
        elif language is None and not line.startswith("#"):
            out += _filled(line, "  " if line.startswith("- ") else "")
        else:
            out.append(line)
    return out


def _filled(line: str, indent: str) -> list[str]:
    """A line in pieces of at most WIDTH columns. Code between backticks stays in one piece."""
    words = re.findall(r"(?:`[^`]*`|[^\s`])+", line)
    filled: list[str] = [] if words else [line]
    for word in words:
        if filled and len(filled[-1]) + 1 + len(word) <= WIDTH:
            filled[-1] += f" {word}"
        elif filled and re.fullmatch(r"[-+*=|>#]+|\d+[.)]", word):  # at the beginning of a line it would be markup
            last, _, moved = filled[-1].rpartition(" ")
            filled[-1:] = [last, f"{indent}{moved} {word}"]
        else:
            filled.append((indent if filled else "") + word)
    return filled


def _others() -> list[tuple[str, str, tuple[Any, ...]]]:
    """Errors, and whatever is public and has no place of its own."""
    told = {id(value) for _, _, values in PARTS for value in values}
    faults = tuple(
        value for value in vars(errors).values() if isinstance(value, type) and value.__module__ == errors.__name__
    )
    left = [getattr(wl, name) for name in wl.__all__ if name != "__version__"]
    rest = tuple(
        value for value in left if not isinstance(value, ModuleType) and id(value) not in told and value not in faults
    )
    more = [getattr(ladder, name) for name in getattr(ladder, "__all__", ())]
    climbing = tuple(value for value in more if inspect.isfunction(value) and id(value) not in told)
    found = [
        ("More of the ladder", "warpladder.ladder.", climbing),
        ("More", "warpladder.", rest),
        ("Errors", "warpladder.errors.", faults),
    ]
    return [part for part in found if part[2]]


def _described(value: Any, where: str, classes: set[type]) -> list[str]:
    """A function or class, and the members of a class."""
    name = value.__name__
    lines = ["", f"### {name}", ""]
    if not (isinstance(value, type) and issubclass(value, BaseException)):
        lines += ["```text", f"{where}{name}{_signature(value)}", "```", ""]
    lines += _text(value)
    if not isinstance(value, type):
        return lines
    parents = [parent for parent in value.__mro__[1:] if parent in classes]
    if parents and not issubclass(value, BaseException):
        lines += ["", f"Has everything that [{parents[0].__name__}](#{parents[0].__name__.lower()}) has."]
    for member, held in vars(value).items():
        if member.startswith("_") or not _is_member(held):
            continue
        held = inspect.unwrap(getattr(held, "func", getattr(held, "fget", getattr(held, "__func__", held))))
        shown = _signature(held, bound=True) if not _is_property(vars(value)[member]) else ""
        if held.__doc__:
            lines += ["", f"**`{name}.{member}{shown}`**", "", *_text(held)]
    return lines


def _is_property(held: Any) -> bool:
    return isinstance(held, property) or type(held).__name__ == "cached_property"


def _is_member(held: Any) -> bool:
    return _is_property(held) or inspect.isfunction(held) or isinstance(held, (classmethod, staticmethod))


def _signature(value: Any, bound: bool = False) -> str:
    """Names and defaults; types stand in the text."""
    shown = []
    star = False
    parameters = list(inspect.signature(value).parameters.values())[int(bound) :]
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not star:
            shown.append("*")
        star = star or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        mark = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        shown.append(f"{mark}{each.name}" + ("" if each.default is each.empty else f"={_default(each.default)}"))
    return f"({', '.join(shown)})"


def _default(value: Any) -> str:
    return (
        f"{value.__name__}"
        if callable(value) and hasattr(value, "__name__")
        else "..."
        if "object at 0x" in repr(value)
        else repr(value)
    )


def _text(value: Any) -> list[str]:
    """A docstring as Markdown: its text, then each numpydoc section as a list."""
    text = inspect.cleandoc(value.__doc__ or "")
    pieces = _HEADING.split(text)
    lines = _paragraphs(pieces[0])
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        lines += ["", f"*{title}*", ""] if lines else [f"*{title}*", ""]
        lines += _section(title, body.strip("\n"))
    return lines


def _section(title: str, body: str) -> list[str]:
    if title == "Examples":
        return ["```pycon", *body.split("\n"), "```"]
    if title == "Notes":
        return _paragraphs(body)
    lines = []
    for entry in re.split(r"\n(?=\S)", body):
        head, _, rest = entry.partition("\n")
        names, colon, kind = head.partition(" : ")
        about = _joined(inspect.cleandoc(rest))
        lines.append(f"- `{names}`" + (f", {_plain(kind)}" if colon else "") + (f": {about}" if about else ""))
    return lines


def _paragraphs(text: str) -> list[str]:
    """Paragraphs on a line each; one whose lines are `name : text` is a list."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        entries = _entries(paragraph)
        lines += [
            "",
            *([f"- `{names}`: {_plain(about)}" for names, about in entries] if entries else [_joined(paragraph)]),
        ]
    return lines[1:]


def _entries(paragraph: str) -> list[tuple[str, str]] | None:
    """(names, text) of each entry of a paragraph of them; None for prose. Several entries may share a line, after a
    full stop.
    """
    found: list[tuple[str, str]] = []
    for line in re.sub(r"\. (?=\w+(?:, \w+)* : )", ".\n", paragraph).split("\n"):
        if match := _ENTRY.match(line):
            found.append((match[1], match[2]))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        else:
            return None
    return found


def _joined(text: str) -> str:
    return _plain(" ".join(line.strip() for line in text.split("\n") if line.strip()))


def _plain(text: str) -> str:
    """Text whose signs mean nothing in Markdown, but for code between backticks."""
    parts = text.split("`")
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(
            r"(?<=\w)_(?!\w)|(?<!\w)_(?=\w)|\*(?=\S)|<(?=\w)|(?<=\])\(", lambda match: "\\" + match[0], parts[at]
        )
    return "`".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
