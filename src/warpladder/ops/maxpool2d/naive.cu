// Max pooling, one thread for each number. x, dx: (n, c, h, w); y, dy, argmax: (n, c, oh, ow).
#include "index.cuh"
#include "nan.cuh"
#include "window.cuh"

// y[n, c, p, q] = the maximum of x[n, c, p s ... p s + k - 1, q s ... q s + k - 1]; argmax is its index i * k + j, the
// first among equals. argmax may be null if no gradient is computed. k * k loads a thread; bound by memory.
extern "C" __global__ void maxpool2d_forward(const float* __restrict__ x, float* __restrict__ y,
    int* __restrict__ argmax, int size, int n, int c, int h, int w, int oh, int ow, int k, int stride) {
    const int index = thread_number();
    if (index >= size) return;
    const Pixel out = pixel(index, oh, ow);
    for (int sample = blockIdx.y; sample < n; sample += gridDim.y) {
        const float* corner = x + start(sample, c * h * w) + (out.channel * h + out.row * stride) * w + out.column
            * stride;
        float best = corner[0];
        int place = 0;
        for (int i = 0; i < k; ++i) {
            for (int j = 0; j < k; ++j) {
                const float value = corner[i * w + j];
                if (beats(value, best)) {
                    best = value;
                    place = i * k + j;
                }
            }
        }
        y[start(sample, size) + index] = best;
        if (argmax != nullptr) argmax[start(sample, size) + index] = place;
    }
}

// dx[n, c, r, t] = sum of dy[n, c, p, q] over the windows whose argmax is the pixel. The input's thread adds them
// in the order of the windows, so that no addition is atomic.
extern "C" __global__ void maxpool2d_backward(const float* __restrict__ dy, const int* __restrict__ argmax,
    float* __restrict__ dx, int size, int n, int c, int h, int w, int oh, int ow, int k, int stride) {
    const int index = thread_number();
    if (index >= size) return;
    const Pixel in = pixel(index, h, w);
    const Range rows = outputs_over(in.row, oh, k, stride, 0), columns = outputs_over(in.column, ow, k, stride, 0);
    for (int sample = blockIdx.y; sample < n; sample += gridDim.y) {
        const long long image = start(sample, c * oh * ow) + in.channel * oh * ow;
        float sum = 0.0f;
        for (int p = rows.first; p < rows.last; ++p) {
            for (int q = columns.first; q < columns.last; ++q) {
                const int place = (in.row - p * stride) * k + in.column - q * stride;
                const float gradient = dy[image + p * ow + q];
                sum += argmax[image + p * ow + q] == place ? gradient : 0.0f;
            }
        }
        dx[start(sample, size) + index] = sum;
    }
}
