"""Launches become calls; names, line numbers and everything else stay."""

from __future__ import annotations

import pytest

from warpladder.cli.kernels import has_main
from warpladder.errors import ConfigError, KernelError
from warpladder.programs.gpus import GPUS, described, find
from warpladder.programs.launch_macros import defined, expanded
from warpladder.programs.rewrite import kernels, program_text
from warpladder.programs.sources import collected, read


def rewritten(text: str) -> str:
    return program_text(text, "a.cu", kernels([text]))


def test_a_launch_becomes_a_call():
    text = "__global__ void add(float* x, int n) {}\nvoid f(float* x) { add<<<(3 + 1) / 2, dim3(16, 16)>>>(x, 4); }"
    out = rewritten(text)
    assert "<<<" not in out and out.count("\n") == 1
    call = '(add, [=](auto&... emu_a) { add(emu_a...); }, "add", 0, emu::Config((3 + 1) / 2, dim3(16, 16)), x, 4);'
    assert f"emu::start{call}" in out


@pytest.mark.parametrize(
    ("head", "launch", "kind"),
    [
        ("template <typename T> __global__ void k(T* x) {}", "k<<<1, 2>>>(x);", "emu::deduced("),
        ("template <typename T> __global__ void k(T* x) {}", "k<float><<<1, 2>>>(x);", "emu::start(k<float>, "),
        ("template <int N, class T> __global__ void k(T* x) {}", "k<4><<<1, 2>>>(x);", "emu::deduced("),
        ("namespace a { __global__ void k(int* x) {} }", "a::k<<<1, 2>>>(x);", "emu::start(a::k, "),
        ("__global__ void k(int* x) {}\n__global__ void k(float* x) {}", "k<<<1, 2>>>(x);", "emu::deduced("),
        ("", "(*kernel)<<<1, 2>>>(x);", "emu::start((*kernel), "),
        (
            "template <class F> __global__ void k(const float4 a, F f) {}",
            "k<<<1, 2>>>({1,\n 2}, f);",
            ", std::remove_cvref_t<const float4>{1,\n 2}, f)",
        ),
        ("__global__ void k() {}", "k<<<1, 2>>>();", "emu::Config(1, 2))"),
        ("__global__ void k() {}", "k<<<1, 2, 0, NULL>>>();", "emu::Config(1, 2, 0, nullptr))"),
        ("__global__ void __launch_bounds__(64) k() {}", "k<<<1, 128>>>();", '"k", 64, emu::Config(1, 128))'),
        (
            "#define B 64\nconst int W = 2;\n__global__ void __launch_bounds__(B * W) k() {}",
            "k<<<1, 128>>>();",
            '"k", 128, emu::Config(1, 128))',
        ),
        (
            "template <int B> __global__ void __launch_bounds__(B) k() {}",
            "cudaFuncGetAttributes(&k1, k<4>);",
            'cudaFuncGetAttributes(&k1, emu::declared(k<4>, "k", unsigned(4)))',
        ),
        ("#define RUN(g) k<<<g, 2>>>(x)\n", "RUN(3);", "emu::Config(g, 2), x)"),
    ],
)
def test_every_form_of_a_launch_is_read(head, launch, kind):
    assert kind in rewritten(f"{head}\nvoid f() {{ {launch} }}")


def test_comments_and_strings_stay():
    text = '// k<<<1, 2>>>(x)\nconst char* s = "k<<<1, 2>>>(x)";\n'
    assert rewritten(text) == text


def test_an_unreadable_launch_is_named():
    with pytest.raises(KernelError, match=r"a\.cu:2: cannot read the launch"):
        rewritten("void f() {\n k<<<1, 2; }")


def test_the_host_may_name_its_sizes_as_the_device_does():
    out = rewritten("__global__ void k() { int n = gridDim.x; }\nvoid f() { dim3 gridDim(4); k<<<gridDim, 1>>>(); }")
    assert "int n = gridDim.x" in out and "dim3 emu_gridDim(4)" in out and "emu::Config(emu_gridDim, 1)" in out
    assert "uint emu_gridDim = 64" in rewritten("void f(int n) { uint gridDim = 64; g(gridDim + n); }")
    assert "int n = gridDim.x" in rewritten("__device__ int g() { int n = gridDim.x, m = gridDim.y; return n; }")


def test_pointers_are_named_and_unread_calls_marked():
    out = rewritten(
        "void f() { float* x; cudaMalloc((void**)&x, 4); if (cudaMalloc(&x, 8)) return; cudaCheckErrors(1); }"
    )
    assert 'emu_unread(cudaMalloc((emu::name_next_pointer("x", &x), (void**)&x), 4), "cudaMalloc");' in out
    assert (
        'if (cudaMalloc((emu::name_next_pointer("x", &x), &x), 8)) return;' in out
        and "emu_unread(cudaCheckErrors" not in out
    )


def test_headers_of_the_program_are_found_and_others_left(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "far.h").write_text("#pragma once\n")
    (tmp_path / "near.cuh").write_text('#include <far.h>\n#include "stdio.h"\n')
    main = tmp_path / "main.cu"
    main.write_bytes(b'#include "near.cuh"\n#include <cuda_runtime.h>\n// caf\xe9\r\nint main() {}\n')
    sources = collected((main,), (tmp_path / "lib",))
    assert [path.name for path in sources.files] == ["main.cu", "near.cuh", "far.h"]
    assert '"/b/1.cuh"' in sources.redirected(sources.files[main.resolve()], {main.with_name("near.cuh"): "/b/1.cuh"})
    assert "\xe9\n" in read(main)


def test_includes_of_the_compilers_headers_are_read_as_windows_takes_them(tmp_path):
    main = tmp_path / "main.cu"
    main.write_text("#include< sys\\time.h>\n#include <device_launch_parameters.h>\nint main() {}\n")
    sources = collected((main,), ())
    out = sources.redirected(sources.files[main.resolve()], {})
    assert out.startswith("#include<sys/time.h>\n\nint main")


@pytest.mark.parametrize("name", ["missing.cu", "."])
def test_files_that_cannot_be_read_are_named(tmp_path, name):
    with pytest.raises(ConfigError, match=r"there is no file|is a folder"):
        collected((tmp_path / name,), ())


def test_gpus_are_found_by_name():
    assert find("t4") is GPUS["T4"] and find("rtx 4090").major == 8
    assert "name=Tesla T4;major=7;minor=5;" in described(find("T4"), 2)
    with pytest.raises(ConfigError, match="there is no GPU 'H10'"):
        find("H10")


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("f((void*)k);", 'f(emu::address(k, "k"));'),
        ("p.func = (void *)k<float>;", 'p.func = emu::address(k<float>, "k");'),
        ("f(reinterpret_cast<void*>(&k), 2);", 'f(emu::address(k, "k"), 2);'),
        ("f((const void*)(void (*)(int*))k);", 'f(emu::address((void (*)(int*))k, "k"));'),
        ("f((void*)other);", "f((void*)other);"),
        ("p.gridDim = dim3(2);", "p.emu_gridDim = dim3(2);"),
    ],
)
def test_the_address_of_a_kernel_notes_how_it_is_launched(text, new):
    assert new in rewritten(f"template <class T> __global__ void k(T* x) {{}}\nvoid g() {{ {text} }}")


def test_arguments_that_a_launch_leaves_out_are_the_kernels_own():
    assert "emu::deduced(" in rewritten("__global__ void k(int* x, int n = 4) {}\nvoid g() { k<<<1, 2>>>(x); }")


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("extern __shared__ T s[][N + 1];", 'auto* s = emu::dynamic_shared<T[N + 1]>("s");'),
        ("double extern __shared__ s[];", 'auto* s = emu::dynamic_shared<double>("s");'),
        ("__shared__ extern float s[];", 'auto* s = emu::dynamic_shared<float>("s");'),
        ("\n#define S extern __shared__ int s[]\nS;", 'define S auto* s = emu::dynamic_shared<int>("s")\nS;'),
        ("extern double __shared__ s[];", 'auto* s = emu::dynamic_shared<double>("s");'),
        ("struct A { int a; };\n#ifdef B\n#endif\n extern A __shared__ s[];", 'auto* s = emu::dynamic_shared<A>("s");'),
        ("extern __shared__ __align__(sizeof(T)) unsigned char s[];", "emu::dynamic_shared<unsigned char>"),
        ("unsigned int __shared__ a[4];", "{ unsigned int a[4]; "),
    ],
)
def test_every_form_of_shared_memory_is_read(text, new):
    assert new in rewritten(f"__global__ void k() {{ {text} }}")


def test_a_size_of_a_sizeof_counts_bytes():
    text = "int f(int n, int parts) {{ int b = n * sizeof(int); cudaMemcpy(d, h, {}, cudaMemcpyHostToDevice); }}"
    for size, is_marked in (
        ("b / parts", True),
        ("sizeof(x)", True),
        ("sizeof(x) / sizeof(*x)", False),
        ("n(1)", False),
    ):
        assert (f"emu::bytes({size})" in rewritten(text.format(size))) is is_marked


@pytest.mark.parametrize(
    ("defined", "size", "is_count"),
    [
        ("const int n = 1000;", "n", True),
        ("#define N (1 << 20)", "N", True),
        ("int n = argc > 1 ? atoi(argv[1]) : 1000;", "n", True),
        ("int w = 64, h = 32; int size = w * h;", "size", True),
        ("void upload(float* x, int n) {}", "n", True),
        ("", "1000", True),
        ("const int n = 1000;", "n * sizeof(float)", False),
        ("const int n = 1000; size_t bytes = n * sizeof(float);", "bytes", False),
        ("#define N 64\n#define SIZE (N * sizeof(int))", "SIZE", False),
        ("const int n = 1000; int bytes = n * 4;", "bytes", False),
        ("int n = 64; n *= sizeof(int);", "n", False),
        ("for (int n = 64; n < 4096; n++) {}", "n", False),
        ("void upload(float* x, size_t bytes) {}", "bytes", False),
        ("", "total(3)", False),
        ("const int n = 1000;", "4 * n", False),
    ],
)
def test_a_size_counts_elements_if_no_sizeof_leads_to_it(defined, size, is_count):
    out = rewritten(f"{defined}\nvoid f() {{ cudaMemcpy(d, /* , */ h, {size}, cudaMemcpyHostToDevice); }}")
    assert (f"emu::elements({size})" in out) is is_count


def test_brackets_of_a_launch_may_be_a_macro():
    text = """#define ARGS2(grid, block) <<< grid, block >>>
#define ARGS4(grid, block, s, stream)  \\
<<< grid, block, s, stream >>>
#define MORE(grid, ...) <<<grid, __VA_ARGS__>>>
#define LAUNCH(k, g) k<<<g, 1>>>()
// ARGS2(1, 2)
void f() { k ARGS2(dim3(1, 2), 3)(x); s = "ARGS2(1, 2)";
    k<int> ARGS4(g,
        b, 0, grid)(x);
    k MORE(1, 2, 3)(); }
"""
    lines = expanded(text, defined([text])).splitlines()
    assert len(lines) == text.count("\n")
    assert [line for line in lines[:5] if "<<<" in line] == ["#define LAUNCH(k, g) k<<<g, 1>>>()"]
    assert lines[5:8] == ["// ARGS2(1, 2)", 'void f() { k <<< dim3(1, 2), 3 >>>(x); s = "ARGS2(1, 2)";',
                          "    k<int> <<< g, b, 0, grid >>>"]  # fmt: skip
    assert lines[9] == "    k <<<1, 2, 3>>>(); }"
    assert expanded(text, {}) is text


def test_a_program_without_kernels_of_its_own_is_one(tmp_path):
    file = tmp_path / "scan.cu"
    for text in (
        "int main() {}",
        "// no main() {} here",
        "__global__ void k() {}",
        "__global__ void k(){} int main() {}",
        "auto main() -> int {} // main() {}",
    ):
        file.write_text("#include <cub/cub.cuh>\n" + text + "\n")
        assert has_main(file) == text.endswith("main() {}")
