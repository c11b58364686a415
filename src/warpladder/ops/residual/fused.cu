// Sum of a residual connection with what follows it: y = f(x + skip). Four numbers a thread; bound by memory.
//
// x, skip, y, dy, dskip, dx: (count,), count = n * size of a sample. FUNCTION: f, of activation.cuh.
// arch: sm_80, sm_90, sm_100
// instance: sum_forward<3>; sum_forward<6>; sum_forward<7>; sum_backward<3>; sum_backward<6>; sum_backward<7>
#include "../activation/activation.cuh"
#include "four.cuh"
#include "index.cuh"

template <int FUNCTION>
__global__ void sum_forward(const float* __restrict__ x, const float* __restrict__ skip, float* __restrict__ y,
    float slope, long long count) {
    const long long i = 4 * thread_number();
    if (i >= count) return;
    const int left = count - i < 4 ? static_cast<int>(count - i) : 4;
    const float4 v = load_four(x + i, left, true) + load_four(skip + i, left, true);
    store_four(y + i, make_float4(value<FUNCTION>(v.x, slope), value<FUNCTION>(v.y, slope),
        value<FUNCTION>(v.z, slope), value<FUNCTION>(v.w, slope)), left, true);
}

// dy becomes f'(x + skip) (dy + dskip), the gradient of both summands, and dx the same unless null. saved + skip, or
// saved if skip is null: x + skip, or y if f is a ReLU. dskip: a Branch's second gradient, or null.
template <int FUNCTION>
__global__ void sum_backward(const float* __restrict__ saved, const float* __restrict__ skip, float* dy,
    const float* __restrict__ dskip, float* __restrict__ dx, float slope, long long count) {
    const long long i = 4 * thread_number();
    if (i >= count) return;
    const int left = count - i < 4 ? static_cast<int>(count - i) : 4;
    float4 v = load_four(saved + i, left, true), g = load_four(dy + i, left, true);
    if (skip != nullptr) v = v + load_four(skip + i, left, true);
    if (dskip != nullptr) g = g + load_four(dskip + i, left, true);
    g = make_float4(through<FUNCTION>(g.x, v.x, slope), through<FUNCTION>(g.y, v.y, slope),
        through<FUNCTION>(g.z, v.z, slope), through<FUNCTION>(g.w, v.w, slope));
    store_four(dy + i, g, left, true);
    if (dx != nullptr) store_four(dx + i, g, left, true);
}
