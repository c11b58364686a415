"""Faults of device code that nvcc refuses and a C++ compiler takes: calls of host functions, host variables,
exceptions, arrays whose length is a parameter, and kernels that return a value.

    int count(int n) { ... }                               int count(int n) { ... }
    __global__ void k(int* y) { *y = count(3); }           __global__ void k(int* y) { *y = emu_calls_count(3); }

The compiler knows no such name, so it reports the line, and nothing if the preprocessor takes the line out. `reason`
makes one line of its message. A name is replaced only where no declaration in the program's files could give it another
meaning: no macro, no member, no local variable.

In a template the name depends on its parameters, emu_within<T>::emu_calls_count(3), so that it is an error where an
instance is made, and only there.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache, lru_cache
from pathlib import Path

from ..declarations import split
from .functions import functions, of_device, of_templates
from .rewrite import bare, closing

_BUILT_IN = (
    r"(?:unsigned|signed|long|short|int|char|bool|float|double|void|size_t|u?int(?:8|16|32|64)_t|dim3|"
    r"(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]|std::string|std::vector|cudaError_t)"
)
_NAMED = re.compile(
    r"\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(\w+)|\btypedef\b[^;{}]*?(\w+)\s*;|\busing\s+(\w+)\s*="
    r"|\btypedef\s+(?:struct|union|enum)\b[^;{}]*\{[^{}]*\}\s*(\w+)\s*;"
)
_KEYWORDS = r"return|else|case|throw|new|delete|goto|do|in|and|or|not|sizeof|using|typename|operator|co_return"
_FUNCTION = (
    r"(?:template\s*<[^<>]*>\s*)?(?:(?:static|inline|extern)\s+)*(?:const\s+)?(?P<type>{types})[\s*&]+(?P<name>\w+)\s*"
)
_VARIABLE = r"(?:static\s+)?(?:volatile\s+)?(?P<type>{types})(?P<rest>[\s*]+\w[^()]*)"
#: What may be a declaration of a name: a type before it, which no operator precedes.
_DECLARED = (
    rf"(?:^|[;{{{{}}}}(,:)>\w])\s*(?<!\w)(?!(?:{_KEYWORDS})\b)[A-Za-z_]\w*(?:\s*<[^<>;{{{{}}}}()]*>)?"
    r"[\s*&]+{name}\b"
)
_CALL = re.compile(r"(?<![\w.>:~])(?P<name>[A-Za-z_]\w*)\s*\(")
#: Functions of the C library that are the host's alone.
_LIBRARY = frozenset(
    ("rand", "srand", "drand48", "exit", "abort", "time", "getchar", "putchar", "puts", "scanf", "fprintf", "sprintf",
     "snprintf", "fflush", "strcpy", "strcmp", "atoi", "atof", "qsort", "calloc", "realloc", "memmove", "memcmp")
)  # fmt: skip
_PARAMETER = re.compile(
    r"(?:(?P<type>typename|class)|unsigned(?:\s+int)?|int|bool|size_t|char|short|long|auto)\s*(?P<pack>\.\.\.)?\s*"
    r"(?P<name>\w+)\s*(?:=.*)?",
    re.DOTALL,
)
#: A local array whose length is one name: float s[n];
_ARRAY = re.compile(
    rf"[;{{}}]\s*(?:const\s+|volatile\s+)*{_BUILT_IN}\s+(?P<array>\w+)\s*\[\s*(?P<name>[a-zA-Z_]\w*)\s*\]"
)
_VALUE = re.compile(
    r"(?<![\w:])(?P<before>(?:(?:static|inline|extern)\s+)*)(?P<type>unsigned|int|float|double|bool|char|long|short|"
    r"size_t)\b(?=[\s*]+(?:__global__\b|\w+\s*\())"
)
_SAYS = re.compile(r"['‘]emu_(?P<what>calls|reads|tries|throws|returns|length)_?(?P<name>\w*)['’]")


def reason(why: str) -> str | None:
    """Reason of a compiler's error that `marked` made; None for another error."""
    match = _SAYS.search(why)
    if match is None:
        return None
    name = match["name"]
    array, _, length = name.partition("_of_parameter_")
    return {
        "length": f"{array}[{length}] has no constant length, which device code needs: take a constant, or shared "
        "memory whose bytes the launch gives",
        "calls": f"device code calls {name}, a function of the host: a kernel calls __device__ functions",
        "reads": f"device code uses {name}, a variable of the host, which no kernel can reach: pass it as an argument",
        "tries": "try and catch are not for device code: there are no exceptions",
        "throws": "throw is not for device code: there are no exceptions",
        "returns": f"a kernel returns void, and this one {name}: a result goes to memory of the device",
    }[match["what"]]


def marked(text: str, texts: Collection[str]) -> str:
    """Text in which device code that nvcc refuses has a name that no compiler knows. texts : the program's files."""
    plain = bare(text)
    changes = [change for match in re.finditer(r"\b__global__\b", plain) for change in _returned(plain, match)]
    known = _names(tuple(texts))
    device = [(*positions, "") for positions in of_device(plain)]
    templates = [(*each, scope) for each in of_templates(plain) if (scope := _dependent(plain[each[0] : each[1]]))]
    for first, body, last, scope in device + templates:
        inside, head = plain[body:last], plain[first:body]
        if "__CUDA_ARCH__" in text[body:last] or "NV_IF" in inside:
            continue
        changes += [
            (body + m.start(), m.start() + body, f"{scope}emu_tries; ")
            for m in re.finditer(r"\btry\b(?=\s*\{)", inside)
        ]
        changes += [(body + m.start("word"), body + m.start("word"), f"{scope}emu_throws; ")
                    for m in re.finditer(r"(?<=[;{}])\s*(?P<word>\bthrow\b)", inside)]  # fmt: skip
        given = head[head.find("(", head.rfind(">") if scope else 0) :]  # without a template's parameters
        changes += [
            (body + m.start("name"), body + m.end("name"), f"{scope}emu_length_{m['array']}_of_parameter_{m['name']}")
            for m in _ARRAY.finditer(inside)
            if re.search(rf"\b(?:int|unsigned|size_t|long|short|u?int\d+_t)\s+{m['name']}\s*[,)=]", given)
            and m["name"] not in known.macros
            and not re.search(rf"{_DECLARED.format(name=m['name'])}|,\s*{m['name']}\s*[=,;]", inside)
        ]  # fmt: skip
        if "__host__" in head or any(word in known.macros for word in re.findall(r"\w+", head)):
            continue
        for match in re.finditer(r"(?<![\w.>:~])[A-Za-z_]\w*\b", inside):
            name, is_call = match[0], bool(_CALL.match(inside, match.start()))
            what = "calls" if is_call else "reads"
            if known.is_of_host(name, is_call) and not _declares(head + inside, name):
                changes.append((body + match.start(), body + match.end(), f"{scope}emu_{what}_{name}"))
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _returned(plain: str, match: re.Match[str]) -> list[tuple[int, int, str]]:
    """Change that marks the type that a kernel returns, if it is a number."""
    start = max(plain.rfind(mark, 0, match.start()) for mark in ";{}") + 1
    end = plain.find("(", match.end())
    head = _VALUE.search(plain, start, end + 1)
    if head is None or re.search(r"__launch_bounds__|\bvoid\b|#", plain[start:end]):
        return []
    return [(head.start("type"), head.end("type"), f"emu_returns_{head['type']}")]


def _dependent(head: str) -> str:
    """Scope that depends on the parameters of a template, emu_within<T>::, or "" if none of them is understood."""
    start = head.find("<", re.search(r"\btemplate\b", head).start())  # type: ignore[union-attr]
    end = closing(head, start, "<>") if start >= 0 else 0
    given = (_PARAMETER.fullmatch(each.strip()) for each in split(head[start + 1 : end - 1]))
    names = [(match["name"] + (match["pack"] or ""), match["type"]) for match in given if match]
    types, values = ([name for name, kind in names if bool(kind) is is_type] for is_type in (True, False))
    if not names or len(re.findall(r"\btemplate\b", head)) > 1:
        return ""
    return f"emu_within<{', '.join(types)}>::" if types else f"emu_within_values<{', '.join(values)}>::"


def _declares(text: str, name: str) -> bool:
    """True if a function's text may declare a name, or ask for its size or type alone."""
    return bool(
        re.search(_DECLARED.format(name=name), text)
        or re.search(
            rf"[,\[]\s*[*&]*{name}\s*(?:=[^=]|[,;\[\]{{:])|\b(?:sizeof|decltype|typeof)\s*\(?\s*{name}\b", text
        )
    )


class _Names:
    """Names of host functions and of host variables at the top level of a program's files."""

    def __init__(self, texts: Collection[str]) -> None:
        self._whole = whole = "\n;\n".join(bare(text) for text in texts)
        self.macros = {m for text in texts for m in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.MULTILINE)}
        named = {name for match in _NAMED.findall(whole) for name in match if name} - self.macros
        types = "|".join((_BUILT_IN, *sorted(map(re.escape, named), key=len, reverse=True)))
        types = rf"(?:{types})(?:\s*<[^<>;{{}}()]*>|\s+(?:{types})\b)*"
        self._function, self._variable = (re.compile(form.format(types=types)) for form in (_FUNCTION, _VARIABLE))
        self._functions: set[str] = set()
        self._variables: set[str] = set()
        self._certain: dict[str, bool] = {}
        outside, position = [], 0
        for first, last in functions(whole):
            head = whole[first:last].partition("{")[0]
            if match := self._function.fullmatch(head.partition("(")[0].strip()):
                self._functions.add(match["name"])
            outside.append(whole[position:first])
            position = last
        outside.append(whole[position:])
        for statement in re.split(r"[;{}]", ";".join(outside)):
            if match := self._variable.fullmatch(statement.partition("=")[0].strip()):
                names = (re.match(r"[\s*]*(\w+)\s*(?:\[[^\]]*\]\s*)*$", part) for part in split(match["rest"]))
                self._variables |= {name[1] for name in names if name}

    def is_of_host(self, name: str, is_call: bool) -> bool:
        """True if a name can only be the host's: a function that is called, or a variable."""
        known = (name in self._functions or name in _LIBRARY) if is_call else name in self._variables
        if not known or name in self.macros or name == "main":
            return False
        if name not in self._certain:
            self._certain[name] = self._is_certain(name, is_call)
        return self._certain[name]

    def _is_certain(self, name: str, is_call: bool) -> bool:
        """True if all declarations of a name are the host's, and it is no word of the emulator's headers."""
        if re.search(rf"\b(?:enum|auto|using)\b[^;{{}}=]*\b{name}\b|\benum\b[^;]*\b{name}\b", self._whole):
            return False
        if name not in _LIBRARY and name in _words():
            return False
        count, form = 0, self._function if is_call else self._variable
        for match in re.finditer(_DECLARED.format(name=name), self._whole):
            start = max(self._whole.rfind(mark, 0, match.end()) for mark in ";{}") + 1
            if not form.fullmatch(self._whole[start : match.end()].strip()):
                return False
            count += 1
        return name in _LIBRARY or (count > 0 if is_call else count == 1)


@lru_cache(2)  # a program's files have the same names
def _names(texts: tuple[str, ...]) -> _Names:
    return _Names(texts)


@cache
def _words() -> frozenset[str]:
    """Functions and macros of the emulator's headers."""
    folder = Path(__file__).resolve().parent / "headers"
    declared = re.compile(r"[\w>][\s*&]+(\w+)\s*\(|#[ \t]*define[ \t]+(\w+)")
    texts = (path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file())
    return frozenset(name for text in texts for names in declared.findall(text) for name in names)
