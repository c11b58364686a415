// ELU, one thread for each number. x, y, dy, dx: (count,).
#include "index.cuh"

// y[i] = x[i] where x[i] > 0, else alpha * (exp(x[i]) - 1).
extern "C" __global__ void elu_forward(const float* __restrict__ x, float* __restrict__ y, float alpha, long long count) {
    const long long i = thread_number();
    if (i < count) y[i] = x[i] > 0.0f ? x[i] : alpha * expm1f(x[i]);
}

// dx[i] = dy[i] where x[i] > 0, else alpha * expf(x[i]) * dy[i].
extern "C" __global__ void elu_backward(
    const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dx, float alpha, long long count
) {
    const long long i = thread_number();
    if (i < count) dx[i] = x[i] > 0.0f ? dy[i] : alpha * expf(x[i]) * dy[i];
}
