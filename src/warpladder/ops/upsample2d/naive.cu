// Nearest-neighbour upsampling, one thread for each number. x, dx: (n, c, h, w); y, dy: (n, c, s h, s w).
#include "index.cuh"

// y[n, c, p, q] = x[n, c, p / s, q / s]. Bound by memory.
extern "C" __global__ void upsample2d_forward(const float* __restrict__ x, float* __restrict__ y, int size, int n,
    int c, int h, int w, int scale) {
    const int index = thread_number();
    if (index >= size) return;
    const Pixel out = pixel(index, h * scale, w * scale);
    const int from = (out.channel * h + out.row / scale) * w + out.column / scale;
    for (int sample = blockIdx.y; sample < n; sample += gridDim.y) {
        y[start(sample, size) + index] = x[start(sample, c * h * w) + from];
    }
}

// dx[n, c, r, t] = sum of dy over the s * s pixels copied from it, row by row. Bound by memory.
extern "C" __global__ void upsample2d_backward(const float* __restrict__ dy, float* __restrict__ dx, int size, int n,
    int h, int w, int scale) {
    const int index = thread_number();
    if (index >= size) return;
    const Pixel in = pixel(index, h, w);
    const int wide = w * scale, corner = (in.channel * h + in.row) * scale * wide + in.column * scale;
    for (int sample = blockIdx.y; sample < n; sample += gridDim.y) {
        const float* shown = dy + start(sample, size * scale * scale) + corner;
        float sum = 0.0f;
        for (int i = 0; i < scale; ++i) {
            for (int j = 0; j < scale; ++j) sum += shown[i * wide + j];
        }
        dx[start(sample, size) + index] = sum;
    }
}
