// Average pooling by a warp for each output: for windows of many pixels, such as a whole plane.
#include "index.cuh"
#include "warp.cuh"

// As avgpool2d_forward of naive.cu, count: outputs of all samples. Lane l adds pixels l, l + 32, ... of the window, and
// shuffles the 32 sums. Neighbouring lanes read neighbouring pixels; bound by memory.
extern "C" __global__ void avgpool2d_by_warps(const float* __restrict__ x, float* __restrict__ y, float share,
    long long count, int c, int h, int w, int oh, int ow, int rows, int columns, int stride) {
    const long long number = thread_number() / 32;
    if (number >= count) return;
    const int size = c * oh * ow, sample = static_cast<int>(number / size);
    const Pixel out = pixel(static_cast<int>(number % size), oh, ow);
    const float* corner = x + start(sample, c * h * w) + (out.channel * h + out.row * stride) * w + out.column * stride;
    float sum = 0.0f;
#pragma unroll 4
    for (int k = threadIdx.x % 32; k < rows * columns; k += 32) sum += corner[k / columns * w + k % columns];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) y[number] = sum * share;
}
