// Activations, one thread for each number. x, y, saved, dy, dx: (count,), count = n * size of a sample.
// instance: activation_forward<0>; activation_forward<1>; activation_forward<2>
// instance: activation_forward<3>; activation_forward<4>; activation_forward<5>
// instance: activation_backward<0>; activation_backward<1>; activation_backward<2>
// instance: activation_backward<3>; activation_backward<4>; activation_backward<5>
#include "activation.cuh"
#include "index.cuh"

// y[i] = f(x[i]). Reads and writes 4 bytes a thread; bound by memory.
template <int FUNCTION>
__global__ void activation_forward(const float* __restrict__ x, float* __restrict__ y, float slope, long long count) {
    const long long i = thread_number();
    if (i < count) y[i] = value<FUNCTION>(x[i], slope);
}

// dx[i] = f'(x[i]) dy[i], from `saved`: y of TANH and SIGMOID, x of the others. Reads 8 bytes a thread, writes 4.
template <int FUNCTION>
__global__ void activation_backward(const float* __restrict__ saved, const float* __restrict__ dy,
    float* __restrict__ dx, float slope, long long count) {
    const long long i = thread_number();
    if (i < count) dx[i] = derivative<FUNCTION>(saved[i], slope) * dy[i];
}
