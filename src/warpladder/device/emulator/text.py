"""The text of a source, as far as one may look into it without a compiler: what is a comment or a string, and which
brace closes which.
"""

from __future__ import annotations

import re

_COMMENT = r"//[^\n]*|/\*.*?\*/"
_DIRECTIVE = r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"  # with its further lines
_STRING = r'R"(?P<raw>[^()\\\s]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\''  # or a letter
_ASIDE = re.compile(f"{_COMMENT}|{_DIRECTIVE}|{_STRING}", re.DOTALL | re.MULTILINE)
_SAID = re.compile(f"{_COMMENT}|{_STRING}", re.DOTALL)


def blank(text: str) -> str:
    """Blanks in place of everything but the line breaks."""
    return re.sub(r"[^\n]", " ", text)


def bare(text: str, directives: bool = False) -> str:
    """The text with blanks in place of comments and strings, and of directives unless these are wanted: every letter
    that is left stands where it stood.
    """
    return (_SAID if directives else _ASIDE).sub(lambda match: blank(match[0]), text)


def closing(text: str, position: int, pair: str = "{}") -> int:
    """Just behind the bracket that closes the one at `position`, or the end of the text."""
    depth = 0
    for bracket in re.compile(f"[{re.escape(pair)}]").finditer(text, position):
        depth += 1 if bracket[0] == pair[0] else -1
        if depth == 0:
            return bracket.end()
    return len(text)
