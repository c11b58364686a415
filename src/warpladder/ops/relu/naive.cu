// ReLU, one thread for each number. x, y, dy, dx: (count,), count = n * size of a sample; y may be x, and dx may be dy.
#include "index.cuh"
#include "nan.cuh"

// y[i] = max(x[i], 0). Reads and writes 4 bytes a thread; bound by memory.
extern "C" __global__ void relu_forward(const float* x, float* y, long long count) {
    const long long i = thread_number();
    if (i < count) y[i] = relu(x[i]);
}

// dx[i] = dy[i] where y[i] > 0, else 0. Reads 8 bytes a thread, writes 4; bound by memory.
extern "C" __global__ void relu_backward(const float* y, const float* dy, float* dx, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    const float gradient = dy[i];
    dx[i] = y[i] > 0.0f ? gradient : 0.0f;
}
