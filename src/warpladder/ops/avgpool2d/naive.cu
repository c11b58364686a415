// Average pooling, one thread for each number. x, dx: (n, c, h, w); y, dy: (n, c, oh, ow).
#include "index.cuh"
#include "window.cuh"

// y[n, c, p, q] = share * the sum of x[n, c, p s ... p s + rows - 1, q s ... q s + columns - 1]; share: 1 / (rows *
// columns). rows * columns loads a thread; bound by memory.
extern "C" __global__ void avgpool2d_forward(const float* __restrict__ x, float* __restrict__ y, float share, int size,
    int n, int c, int h, int w, int oh, int ow, int rows, int columns, int stride) {
    const int index = thread_number();
    if (index >= size) return;
    const Pixel out = pixel(index, oh, ow);
    for (int sample = blockIdx.y; sample < n; sample += gridDim.y) {
        const float* corner = x + start(sample, c * h * w) + (out.channel * h + out.row * stride) * w + out.column
            * stride;
        float sum = 0.0f;
        for (int i = 0; i < rows; ++i) {
            for (int j = 0; j < columns; ++j) sum += corner[i * w + j];
        }
        y[start(sample, size) + index] = sum * share;
    }
}

// dx[n, c, r, t] = share * the sum of dy[n, c, p, q] over the windows that hold the pixel. The input's thread adds
// them in the order of the windows, so that no addition is atomic.
extern "C" __global__ void avgpool2d_backward(const float* __restrict__ dy, float* __restrict__ dx, float share,
    int size, int n, int c, int h, int w, int oh, int ow, int rows, int columns, int stride) {
    const int index = thread_number();
    if (index >= size) return;
    const Pixel in = pixel(index, h, w);
    const Range above = outputs_over(in.row, oh, rows, stride, 0), left = outputs_over(in.column, ow, columns, stride,
        0);
    for (int sample = blockIdx.y; sample < n; sample += gridDim.y) {
        const long long image = start(sample, c * oh * ow) + in.channel * oh * ow;
        float sum = 0.0f;
        for (int p = above.first; p < above.last; ++p) {
            for (int q = left.first; q < left.last; ++q) sum += dy[image + p * ow + q];
        }
        dx[start(sample, size) + index] = sum * share;
    }
}
