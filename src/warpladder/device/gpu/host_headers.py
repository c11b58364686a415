"""Headers of the C and C++ libraries for NVRTC, which has none: CUDA's own counterparts, or nothing for host code."""

from __future__ import annotations

import re

#: Headers of host code, or of functions that NVRTC has built in.
_OMITTED = (
    "stdio.h|cstdio|stdlib.h|cstdlib|string.h|cstring|math.h|cmath|assert.h|cassert|time.h|ctime|iostream|iomanip|"
    "fstream|sstream|ostream|istream|string|vector|map|set|list|deque|queue|stack|unordered_map|unordered_set|memory|"
    "algorithm|numeric|random|chrono|thread|mutex|exception|stdexcept|sys/time.h|unistd.h|getopt.h|omp.h|errno.h"
)
#: Headers with counterparts in cuda/std, which have the names of C outside of a namespace too.
_NAMES = {"stdint.h": "cstdint", "limits.h": "climits", "float.h": "cfloat", "stddef.h": "cstddef"}
_STD = (
    "cstdint|climits|cfloat|cstddef|limits|type_traits|array|utility|tuple|functional|initializer_list|bit|optional|"
    "complex|span|numbers|concepts|iterator|" + "|".join(_NAMES)
)
_INCLUDE = re.compile(rf"^[ \t]*#[ \t]*include[ \t]*<(?:(?P<omitted>{_OMITTED})|(?P<std>{_STD}))>[^\n]*$", re.MULTILINE)
#: Macros and types that nvcc has without an include.
_UNDECLARED = re.compile(r"\b(?:U?(?:CHAR|SHRT|INT|LONG|LLONG)_MAX|(?:FLT|DBL)_(?:MAX|MIN|EPSILON)|u?int\d+_t)\b")


_LIMITS = {
    "FLT_MAX": "3.402823466e+38f", "FLT_MIN": "1.175494351e-38f", "FLT_EPSILON": "1.192092896e-07f",
    "DBL_MAX": "1.7976931348623158e+308", "DBL_MIN": "2.2250738585072014e-308", "DBL_EPSILON": "2.2204460492503131e-16",
}  # fmt: skip


def for_nvrtc(text: str) -> str:
    """Text without headers that NVRTC lacks, after declarations of their names; a text without such is unchanged."""
    names = {_NAMES.get(match["std"], match["std"]) for match in _INCLUDE.finditer(text) if match["std"]}
    own = set(re.findall(r"^[ \t]*(?:#[ \t]*define[ \t]+|typedef\b[^;\n]*[ \t])(\w+)", text, re.MULTILINE))
    needs_names = bool(set(_UNDECLARED.findall(text)) - own)
    if not names and not _INCLUDE.search(text) and not needs_names:
        return text
    if needs_names:
        names |= {"cstdint", "climits", "cfloat"}
    if "std::" in text:
        names.add("cmath")
    lines = [f"#include <cuda/std/{name}>" for name in sorted(names)]
    if names:
        lines.append("namespace std { using namespace cuda::std; }")
    if "cfloat" in names:
        lines += [f"#define {name} {value}" for name, value in _LIMITS.items()]
    if "cstdint" in names:
        kinds = (f"{sign}int{size}_t" for sign in ("", "u") for size in (8, 16, 32, 64))
        lines.append(" ".join(f"using cuda::std::{kind};" for kind in kinds))
    return "".join(f"{line}\n" for line in lines) + _INCLUDE.sub("", text)
