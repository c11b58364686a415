// LeakyReLU, one thread for each number. x, y, dy, dx: (count,).
#include "index.cuh"

// y[i] = x[i] where x[i] > 0, else slope * x[i].
extern "C" __global__ void leakyrelu_forward(const float* __restrict__ x, float* __restrict__ y, float slope, long long count) {
    const long long i = thread_number();
    if (i < count) y[i] = x[i] > 0.0f ? x[i] : slope * x[i];
}

// dx[i] = dy[i] where x[i] > 0, else slope * dy[i].
extern "C" __global__ void leakyrelu_backward(
    const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dx, float slope, long long count
) {
    const long long i = thread_number();
    if (i < count) dx[i] = x[i] > 0.0f ? dy[i] : slope * dy[i];
}
