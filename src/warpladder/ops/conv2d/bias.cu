// Bias and ReLU after a convolution by a library. y: (n, o, pixels); bias: (o,); size = o * pixels.
#include "index.cuh"
#include "nan.cuh"

// y[n, f, p] += bias[f], then max(., 0) where has_relu is 1. One thread for each number of a sample; bound by memory.
extern "C" __global__ void conv2d_bias(float* __restrict__ y, const float* __restrict__ bias, int size, int n,
    int pixels, int has_relu) {
    const int index = thread_number();
    if (index >= size) return;
    const float add = bias[index / pixels];
    for (int sample = blockIdx.y; sample < n; sample += gridDim.y) {
        float* at = y + start(sample, size) + index;
        const float sum = *at + add;
        *at = has_relu ? relu(sum) : sum;
    }
}
