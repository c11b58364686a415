"""What a kernel takes, read from sources as people write them."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from warpladder.device import Array, source
from warpladder.device.arguments import laid_out
from warpladder.device.declarations import instantiated, names, readable, signature, templates, unreadable
from warpladder.device.signature import Signature
from warpladder.device.source import KernelSource
from warpladder.device.types import resolve
from warpladder.errors import KernelError


def of(text: str) -> source.KernelSource:
    return source.KernelSource(Path("user.cu"), text)


def read(text: str, name: str = "k") -> Signature:
    return signature(of(text), name)


def kernel(parameters: str, before: str = "") -> Signature:
    return read(f"{before}\n__global__ void k({parameters}) {{}}")


TYPES = {
    "float* x": ("<f4", 1), "const unsigned char* __restrict__ x": ("|u1", 1), "unsigned char const *x": ("|u1", 1), "double x[]": ("<f8", 1),
    "const float x[16]": ("<f4", 1), "long unsigned int *x": ("<u8", 1), "std::uint32_t* x": ("<u4", 1), "short* const x": ("<i2", 1),
    "float3* x": ("<f4", 3), "ulonglong2* x": ("<u8", 2), "__half2 *x": ("<f2", 2), "volatile int* x": ("<i4", 1), "char *x": ("|i1", 1),
}  # fmt: skip


@pytest.mark.parametrize("text", TYPES)
def test_pointers(text: str) -> None:
    (parameter,) = kernel(text).parameters
    assert (parameter.name, parameter.pointer, (parameter.dtype.str, parameter.width)) == ("x", True, TYPES[text])


def test_const_is_what_is_pointed_to() -> None:
    assert [p.const for p in kernel("const float* a, float const* b, float* const c, const int n").parameters] == [
        True,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("int n", "<i4"),
        ("unsigned n", "<u4"),
        ("const size_t n", "<u8"),
        ("long long n = 3", "<i8"),
        ("bool n", "|b1"),
        ("float n = f(1, 2)", "<f4"),
    ],
)
def test_numbers(text: str, dtype: str) -> None:
    (parameter,) = kernel(text).parameters
    assert (parameter.pointer, parameter.dtype.str) == (False, dtype)


@pytest.mark.parametrize(
    "before",
    [
        "typedef unsigned char u8;",
        "using u8 = unsigned char;",
        "using byte = std::uint8_t;\nusing u8 = byte;",
        "#define u8 unsigned char",
    ],
)
def test_names_of_the_source_itself(before: str) -> None:
    (parameter,) = kernel("const u8* x", before).parameters
    assert parameter.dtype == np.uint8


def test_a_name_that_stands_for_itself_ends() -> None:
    with pytest.raises(KernelError, match="cannot be passed"):
        kernel("a* x", "using a = b; using b = a;")


HEADS = {
    "plain": "__global__ void k(int n) {}",
    "C": 'extern "C" __global__ void k(int n) {}',
    "the qualifier last": "void __global__ k(int n)\n{\n}",
    "static": "static __global__ void k(int n) {}",
    "bounds": "__global__ void __launch_bounds__(256, 2) k(int n) {}",
    "bounds first": "__global__ __launch_bounds__(THREADS * (1 + 1)) void k(int n) {}",
    "declared first": "__global__ void k(int n);\n__global__ void k(int n) {}",
    "a comment inside": "__global__ void k(/* how many (at most) */ int n) // {\n{}",
    "a macro makes others": "#define MAKE(name) \\\n  __global__ void name(float x) {}\n__global__ void k(int n) {}",
}


@pytest.mark.parametrize("head", HEADS)
def test_heads(head: str) -> None:
    assert names(of(HEADS[head])) == ["k"]
    assert str(read(HEADS[head])) == "k(int n)"


def test_nothing_to_pass() -> None:
    assert kernel("").parameters == kernel("void").parameters == ()


def test_namespaces() -> None:
    text = "namespace a { namespace b::c { struct S { int x; }; __global__ void k(int n) {} } namespace { __global__ void m() {} } }\n__global__ void m() {}"
    assert names(of(text)) == ["a::b::c::k", "a::m", "m"]
    assert read(text).name == read(text, "a::b::c::k").name == "a::b::c::k"
    assert read(text, "m").name == "m"
    twice = "namespace a { __global__ void k() {} } namespace b { __global__ void k(int n) {} }"
    with pytest.raises(KernelError, match="several kernels 'k': a::k, b::k"):
        read(twice)
    assert read(twice, "b::k").parameters[0].name == "n"


def test_templates() -> None:
    text = "namespace a { template <typename T, int N = 4, class U = float>\n__global__ void k(const T* x, U* y, int n) {} }"
    assert templates(of(text)) == {"a::k": "typename T, int N = 4, class U = float"}
    found = read(text, "k<double, 8, int>")
    assert found.name == "a::k<double, 8, int>"
    assert [p.dtype for p in found.parameters] == [np.float64, np.int32, np.int32]
    with pytest.raises(KernelError, match=r"a template: k<\.\.\.>"):
        read(text)


REFUSED = {
    "float** rows": "pointer to pointers",
    "float* rows[4]": "pointer to pointers",
    "const float& x": "reference",
    "cudaTextureObject_t t": "cannot be passed",
    "H* handles": "structs with pointers in them",
    "Node* list": "cannot be passed",
    "ARGUMENTS": "cannot read the parameter 'ARGUMENTS'",
    "long double x": "cannot be passed",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_passed(text: str) -> None:
    with pytest.raises(KernelError, match=REFUSED[text]):
        kernel(text, "struct H { float* x; }; struct Node { Node* next; };")


def test_structs_and_vectors_by_value() -> None:
    text = "struct Size { short rows, columns; }; struct P { char kind; Size size[2]; const float* x; float3 at; };"
    p, v = kernel("const P p, int2 v", text).parameters
    assert [(offset, str(member)) for offset, member in p.members] == [
        (0, "char p.kind"), (2, "short p.size[0].rows"), (4, "short p.size[0].columns"), (6, "short p.size[1].rows"), (8, "short p.size[1].columns"),
        (16, "const float* p.x"), (24, "float32 p.at.x"), (28, "float32 p.at.y"), (32, "float32 p.at.z"),
    ]  # fmt: skip
    assert (p.dtype.itemsize, p.pointer) == (40, False)
    assert [(offset, member.name) for offset, member in v.members] == [(0, "v.x"), (4, "v.y")]


def test_a_struct_is_packed_as_a_compiler_lays_it_out() -> None:
    signature = kernel("P p, int2 v", "struct P { char kind; double x; unsigned short n; };")
    p, v = signature.pack(None, ({"kind": -1, "x": 0.5, "n": 7}, {"x": 1, "y": 2}))
    assert p.tobytes() == struct.pack("@bdHxxxxxx", -1, 0.5, 7)
    assert v.tobytes() == struct.pack("@ii", 1, 2)
    with pytest.raises(KernelError, match="wants a mapping with kind, x, n, got"):
        signature.pack(None, ({"kind": 1}, {"x": 1, "y": 2}))
    with pytest.raises(KernelError, match=r"unsigned short p.n cannot hold 70000"):
        signature.pack(None, ({"kind": 1, "x": 1.0, "n": 70000}, {"x": 1, "y": 2}))
    held, pointers = laid_out((p, v, 5))
    assert [address % 16 for address in pointers[:3]] == [0, 0, 0]
    assert ctypes.string_at(pointers[1], 8) == v.tobytes()
    assert held.size >= 24 + 8 + 8


def test_instances_that_a_source_names() -> None:
    text = "// instance: k<int>\ntemplate <typename T> __global__ void k(T* x) {}\ntemplate __global__ void k<float>(float*);\n"
    text += "template void k< double >(double* x);\n"
    assert instantiated(of(text)) == ["k<float>", "k< double >", "k<int>"]
    assert names(of(text)) == ["k"]


def test_what_cannot_be_read_is_told_apart() -> None:
    source = of("__global__ MAKE(k) { }\n__global__ void m(int n) {}")
    assert readable(source) == ["m"]
    assert list(unreadable(source)) == ["MAKE"]
    assert signature(source, "m").parameters[0].name == "n"


def test_a_kernel_that_cannot_be_read_is_not_passed_over() -> None:
    with pytest.raises(KernelError, match="cannot read the kernel '__global__ MAKE"):
        names(of("__global__ MAKE(k) { }"))


def test_unknown_kernels_are_answered_by_the_known_ones() -> None:
    with pytest.raises(KernelError, match="has no kernel 'm'; it has k"):
        read("__global__ void k() {}", "m")


STRUCTS = """
struct Particle { float x, y; double mass; unsigned char kind; };
typedef struct { short a[3]; int b; } Pair;
struct alignas(16) Wide { float4 v; char flag; Pair p[2]; float3 w; };
"""


def test_structs() -> None:
    (parameter,) = kernel("const Particle* __restrict__ p", STRUCTS).parameters
    assert parameter.dtype.names == ("x", "y", "mass", "kind")
    assert (parameter.dtype.itemsize, parameter.alignment) == (24, 8)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_structs_have_the_layout_that_a_compiler_gives_them(tmp_path: Path) -> None:
    vectors = "struct alignas(16) float4 { float x, y, z, w; }; struct float3 { float x, y, z; };"
    wanted, prints = [], []
    for name in ("Particle", "Pair", "Wide"):
        kind = resolve(name, STRUCTS)
        assert kind is not None and kind.dtype.fields is not None
        wanted += [kind.size, kind.alignment, *(field[1] for field in kind.dtype.fields.values())]
        prints += [
            f"sizeof({name})",
            f"alignof({name})",
            *(f"offsetof({name}, {field})" for field in kind.dtype.fields),
        ]
    body = "".join(f'printf("%zu ", {what});' for what in prints)
    file = tmp_path / "layout.cpp"
    file.write_text(f"#include <cstdio>\n#include <cstddef>\n{vectors}\n{STRUCTS}\nint main() {{ {body} }}")
    subprocess.run(["g++", "-w", file, "-o", tmp_path / "layout"], check=True)
    out = subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True).stdout
    assert [int(number) for number in out.split()] == wanted


class Nowhere:
    """Stands for a device; nothing is sent to it."""

    name = "nowhere"


def array(shape: tuple[int, ...], dtype: Any, address: int = 256) -> tuple[Any, Array]:
    device = cast(Any, Nowhere())
    return device, Array(device, address, shape, np.dtype(dtype))


@pytest.mark.parametrize(
    ("text", "shape", "address", "fits"),
    [
        ("float3* x", (6,), 256, True),
        ("float3* x", (7,), 256, False),
        ("float4* x", (8,), 260, False),
        ("float2* x", (8,), 264, True),
    ],
)
def test_vectors_want_their_alignment_and_whole_values(
    text: str, shape: tuple[int, ...], address: int, fits: bool
) -> None:
    device, given = array(shape, np.float32, address)
    if fits:
        assert kernel(text).pack(device, (given,)) == (address,)
    else:
        with pytest.raises(KernelError, match=f"kernel k: {text.replace('*', '.')} wants an address"):
            kernel(text).pack(device, (given,))


@pytest.mark.parametrize("text", ["float (*x)[16]", "float x[][16]", "const float (*x)[4][16]"])
def test_arrays_of_rows_are_passed_as_their_numbers(text: str) -> None:
    found = kernel(text).parameters[0]
    assert (found.name, found.type, found.pointer, found.dtype) == ("x", "float", True, np.dtype(np.float32))


def test_a_kernel_that_states_its_result_after_its_parameters() -> None:
    source = KernelSource(Path("k.cu"), "__global__ auto k(float* x) -> void { }")
    assert str(signature(source, "k")) == "k(float* x)"
