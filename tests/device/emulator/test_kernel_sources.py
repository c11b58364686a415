"""Overloaded kernels by their types, kernels next to declarations that do not compile, CUDA's own functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpladder.device.declarations import callee, readable, signature
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.emulator.symbols import constants
from warpladder.device.source import assembled
from warpladder.errors import KernelError

SOURCE = assembled(
    Path("user.cu"),
    """
__device__ float broken(float x) { return nowhere(x); }
struct Odd { Missing m; };
#define CHECKED(x) checked(x)
class Owner { Missing handle; public: Owner() { CHECKED(handle); } };
class Held { int handle; public: Held() { CHECKED(handle); } };
template <class T> __device__ T twice(T x) { return x + x; }
struct Pair { float a, b; __device__ float sum() const { return a + b; } };
namespace a {
__global__ void fill(float* __restrict__ y, const float v = 1) { y[threadIdx.x] = twice(v); }
__global__ void fill(int* y, int v) { __shared__ int s[4]; s[0] = v; y[threadIdx.x] = std::fmaxf(0, ::fminf(9, 1 + std::sqrtf(twice(s[0]) * 6))); }
__global__ void fill(float (*y)[2], const int v[]) { y[0][threadIdx.x] = v[0]; }
__global__ void fill(const Pair p, float* y) { y[threadIdx.x] = p.sum(); }
}
template <class T, int N> struct Many { T v[N]; };
__constant__ Many<float, 2> many[2], one; __constant__ int whole;
struct Later { Odd odd; int f() { return odd.m; } };
__global__ void needs(float* y) { y[0] = broken(1); }
""",
)


def test_overloaded_kernels_are_named_with_their_types():
    names = ["a::fill(float*, const float)", "a::fill(int*, int)", "a::fill(float (*)[2], const int*)",
             "a::fill(const Pair, float*)"]  # fmt: skip
    assert readable(SOURCE) == [*names, "needs"]
    assert str(signature(SOURCE, "a::fill(int*,int)")) == "a::fill(int* y, int v)"
    assert callee(names[1]) == "*static_cast<void (*)(int*, int)>(&a::fill)"
    with pytest.raises(KernelError, match=r"several kernels 'fill': a::fill\(float\*, const float\), a::fill"):
        signature(SOURCE, "fill")


def test_functions_that_cpp_lacks():
    source = assembled(
        Path("math.cu"),
        """__global__ void k(double* y, const double* x) {
        double values[] = {normcdfinv(x[0]), erfinv(x[1]), erfcinv(x[2]), erfcx(x[3]), normcdf(x[4]),
            cyl_bessel_i0(x[5]), cyl_bessel_i1(x[5]), sinpi(x[6]), norm3d(1., 2., 2.), norm(6, x), erfinvf(0.25f),
            rcbrt(8.), erfcx(1.)};
        for (int i = 0; i < 13; ++i) y[i] = values[i];
    }""",
    )
    device = EmulatedDevice()
    x = np.array([0.975, 0.25, 1e-3, 30.0, 1.0, 2.5, 1e6 + 0.5])
    y = device.zeros((13,), np.float64)
    device.kernel(source, "k").bind(1, 1, y, device.array(x)).send()
    wanted: list[float] = [1.959963984540054, 0.22531205501217808, 2.326753765513525, 0.018795888861416751, 0.84134474606854293,
              3.2898391440501231, 2.5167162452886984, 1.0, 3.0, float(np.linalg.norm(x[:6])), 0.22531205, 0.5,
              0.42758357615580700]  # fmt: skip
    found = y.download()
    assert found[10] == np.float32(wanted.pop(10))
    np.testing.assert_allclose(np.delete(found, 10), wanted, rtol=1e-14)


def test_constants_of_template_types_are_named():
    assert list(constants(SOURCE)) == ["many", "one", "whole"]


def test_each_runs_without_the_declarations_that_do_not_compile():
    device = EmulatedDevice()
    y = device.zeros((4,), np.int32)
    kernel = device.kernel(SOURCE, "a::fill(int*, int)")
    kernel.bind(1, 4, y, 3).send()
    assert y.download().tolist() == [7] * 4
    assert [why.partition(": ")[2] for why in kernel.function.left_out] == ["'nowhere' was not declared in this scope"]
    x = device.zeros((2,))
    device.kernel(SOURCE, "a::fill(const Pair, float*)").bind(1, 2, {"a": 1.5, "b": 2}, x).send()
    assert x.download().tolist() == [3.5, 3.5]
    with pytest.raises(KernelError, match=r"user\.cu:2: 'nowhere' was not declared"):
        device.kernel(SOURCE, "needs")


def test_words_of_bytes_and_halfwords_wherever_their_functions_are_named():
    source = assembled(
        Path("words.cu"),
        """
#define LANES(name) __v##name##4
__device__ unsigned larger(unsigned a, unsigned b) { return __vmaxu2(a, b); }
__global__ void k(unsigned* y, unsigned a, unsigned b) {
    y[0] = LANES(add)(a, b), y[1] = larger(a, b), y[2] = __viaddmax_u32(a, b, 7u);
}""",
    )
    device = EmulatedDevice()
    y = device.zeros((3,), np.uint32)
    device.kernel(source, "k").bind(1, 1, y, 0x01FF0002, 0x00010003).send()
    assert y.download().tolist() == [0x01000005, 0x01FF0003, 0x02000005]


def test_short_floats_are_made_of_integers_and_back():
    source = assembled(
        Path("short.cu"),
        """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void k(float* y, int* z, int a) {
    y[0] = __half2float(__int2half_rd(a)), y[1] = __half2float(__int2half_ru(a));
    y[2] = __bfloat162float(__ushort2bfloat16_rz(513));
    z[0] = __half2int_ru(__float2half(2.5f)), z[1] = __bfloat162uint_rz(__float2bfloat16(3.75f));
}""",
    )
    device = EmulatedDevice()
    y, z = device.zeros((3,), np.float32), device.zeros((2,), np.int32)
    device.kernel(source, "k").bind(1, 1, y, z, 2049).send()
    assert y.download().tolist() == [2048, 2050, 512] and z.download().tolist() == [3, 3]
