"""Structs by value as the compiler lays them out: each member arrives at the kernel with its value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpladder.device.declarations import signature
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.source import KernelSource
from warpladder.device.types import enumerators
from warpladder.errors import KernelError

KERNELS = """
#include <array>
#include <cstdint>
enum class Kind : short { plain = 3, doubled = 5 };
struct Base { int n; __host__ __device__ int half() const { return n / 2; } };
namespace shapes {
template <class T, int N> struct Vec { T v[N]; __device__ T operator[](int i) const { return v[i]; } };
class Params : public Base {
  public:
    __host__ __device__ explicit Params(float x) : a(x) {}
    static const int width = 4;
    static int count;
    __device__ float value() const { return a; }
    Kind kind;
    unsigned low : 3, high : 5;
    int sign : 4;
    union { float real; int bits; };
    union U { int i; double d; } u;
    const int* q;
    std::array<float, 3> more;
    Vec<float, 2> vec;
    bool on;
    std::uint8_t small;
    int grid[2][3];
  private:
    float a;
};
}
using P = shapes::Params;
struct Twice { __host__ __device__ float operator()(float x) const { return 2 * x; } };
template <class F> struct Plus { F f; float bias; __device__ float operator()(float x) const { return f(x) + bias; } };
namespace in { struct Point { double x; Kind kind; Point() : x(1) {} };
__global__ void points(const Point* p, double* y) {
    y[threadIdx.x] = p[threadIdx.x].x + int(p[threadIdx.x].kind);
} }
__global__ void all(P p, double* y) {
    double values[] = {double(p.half()), double(int(p.kind)), double(p.low), double(p.high), double(p.sign), p.real,
                       p.u.d, double(p.q[1]), p.more[2], p.vec[1], double(p.on), double(p.small), double(p.grid[1][2]),
                       p.value()};
    for (int i = 0; i < 14; ++i) y[i] = values[i];
}
template <class F> __global__ void apply(F f, float* y) { y[threadIdx.x] = f(y[threadIdx.x]); }
template __global__ void apply<Twice>(Twice, float*);
struct Virtual { virtual int f(); };
__global__ void refused(Virtual v) {}
struct Deep { Base** rows; };
__global__ void deep(Deep d) {}
"""
SOURCE = KernelSource(Path("user.cu"), KERNELS)


def test_members_of_every_kind_arrive_with_their_values():
    device = EmulatedDevice()
    numbers, y = device.array(np.array([7, 8], np.int32)), device.zeros((14,), np.float64)
    given = {
        "n": 9, "kind": 5, "low": 6, "high": 17, "sign": -8, "real": 0.5, "u.d": 1.25, "q": numbers, "more[0]": 0.0,
        "more[1]": 0.0, "more[2]": 2.5, "vec.v[0]": 0.0, "vec.v[1]": 3.5, "on": True, "small": 200, "a": -4.5,
        **{f"grid[{i}][{j}]": 10 * i + j for i in range(2) for j in range(3)},
    }  # fmt: skip
    kernel = device.kernel(SOURCE, "all")
    kernel.bind(1, 1, given, y).send()
    assert y.download().tolist() == [4, 5, 6, 17, -8, 0.5, 1.25, 8, 2.5, 3.5, 1, 200, 12, -4.5]
    for name, value, message in (("low", 8, "cannot hold 8"), ("sign", -9, "cannot hold -9"), ("n", 1 << 31, "hold")):
        with pytest.raises(KernelError, match=message):
            kernel.bind(1, 1, given | {name: value}, y)
    functor, x = device.kernel(SOURCE, "apply<Twice>"), device.array(np.array([1, 4], np.float32))
    functor.bind(1, 2, {}, x).send()
    assert x.download().tolist() == [2, 8]


def test_arrays_of_such_structs_have_their_fields():
    device = EmulatedDevice()
    kernel = device.kernel(SOURCE, "in::points")
    dtype = kernel.signature.parameters[0].dtype
    assert enumerators(dtype["kind"]) == (3, 5)
    points = np.zeros(3, dtype)
    points["x"], points["kind"] = [0.5, 1, 2], [3, 5, 3]
    y = device.zeros((3,), np.float64)
    kernel.bind(1, 3, device.array(points), y).send()
    assert y.download().tolist() == [3.5, 6, 5]


@pytest.mark.parametrize(("name", "reason"), [
    ("refused", "virtual functions"), ("deep", "has a member rows that is a pointer to pointer"),
])  # fmt: skip
def test_what_no_array_or_number_can_be(name, reason):
    with pytest.raises(KernelError, match=reason):
        signature(SOURCE, name)
