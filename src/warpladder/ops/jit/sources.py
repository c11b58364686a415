"""Hash of all inputs of machine code: sources that compiled code can reach, and versions of compilers."""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path

from .target import versions

PACKAGE = Path(__file__).resolve().parents[2]
#: Files that compiled code can reach: kernels are in ops and trainers, which may import no more than these.
FOLDERS = "errors", "nets", "config", "optimizers", "ops", "trainers"
REACHABLE = (*(f"{folder}/**/*.py" for folder in FOLDERS), "data/order.py")


def key() -> str:
    """Hash of the sources without comments, of the versions of numba and LLVM, and of the CPU."""
    return _hash((name, meaning(source)) for name, source in _sources())


def exact_key() -> str:
    """Hash like `key`, but of the bytes of the sources: equal exact keys mean equal keys. It needs no parsing."""
    return _hash(_sources())


@lru_cache(maxsize=1024)
def meaning(source: bytes) -> bytes:
    """Syntax tree of a module without comments, docstrings and positions; the source itself if it does not parse."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and body and _is_text(body[0]):
            node.body = body[1:]
    return ast.dump(tree).encode()


@cache
def functions_of(path: str) -> tuple[list[int], str]:
    """First line of each function of a file, decorators included, in order; and a hash of the file without comments."""
    source = Path(path).read_bytes()
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    lines = sorted(min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) for node in functions)
    return lines, hashlib.sha256(meaning(source)).hexdigest()


def _sources() -> Iterator[tuple[str, bytes]]:
    """Modules that compiled code can reach: (path in the package, source)."""
    for path in sorted(p for pattern in REACHABLE for p in PACKAGE.glob(pattern)):
        yield path.relative_to(PACKAGE).as_posix(), path.read_bytes()


def _hash(modules: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256(versions().encode())
    for name, content in modules:
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:20]


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
