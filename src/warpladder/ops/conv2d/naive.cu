// Two-dimensional cross-correlation, one thread for each computed number.
// Launched by `NaiveConv2d` of cuda.py.
// x, dx: (n, c, h, w); weight, dweight: (o, c, k, k); bias: (o,); y, dy: (n, o, oh, ow).
// Output (p, q) multiplies element (i, j) of the kernel by the input at row p * stride - padding + i and column
// q * stride - padding + j.
#include "dot.cuh"
#include "index.cuh"
#include "window.cuh"

// y[n, f, p, q] = bias[f] + sum over channels, i, j of weight[f, channel, i, j] x[n, channel, p s - padding + i, q s -
// padding + j]. Threads along q: coalesced reads of x. Two loads for a multiply-add.
extern "C" __global__ void conv2d_forward(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ y, int size, int n, int c, int h, int w, int oh, int ow, int k, int stride, int padding
) {
    const int index = thread_number();
    if (index >= size) return;
    const Pixel out = pixel(index, oh, ow);
    const Range rows = seen_by_output(out.row, h, k, stride, padding),
        columns = seen_by_output(out.column, w, k, stride, padding);
    const int row = out.row * stride - padding + rows.first, column = out.column * stride - padding + columns.first;
    for (int sample = blockIdx.y; sample < n; sample += gridDim.y) {
        const float* seen = x + start(sample, c * h * w) + row * w + column;
        const float* filter = weight + start(out.channel, c * k * k) + rows.first * k + columns.first;
        y[start(sample, size) + index] =
            bias[out.channel] + dot_windows(filter, k * k, k, 1, seen, h * w, w, 1, c, rows.last - rows.first,
                columns.last - columns.first);
    }
}

// dx[n, channel, r, t] = sum over f and the outputs (p, q) that read the pixel of weight[f, channel, i, j] dy[n, f, p,
// q], i = r + padding - p s, j = t + padding - q s. Threads along t; as many loads as the forward pass.
extern "C" __global__ void conv2d_input_gradient(
    const float* __restrict__ dy, const float* __restrict__ weight, float* __restrict__ dx, int size, int n, int c,
    int h, int w, int o, int oh, int ow, int k, int stride, int padding
) {
    const int index = thread_number();
    if (index >= size) return;
    const Pixel in = pixel(index, h, w);
    const Range rows = outputs_over(in.row, oh, k, stride, padding),
        columns = outputs_over(in.column, ow, k, stride, padding);
    // in the first of those windows
    const int i = in.row + padding - rows.first * stride, j = in.column + padding - columns.first * stride;
    for (int sample = blockIdx.y; sample < n; sample += gridDim.y) {
        const float* gradient = dy + start(sample, o * oh * ow) + rows.first * ow + columns.first;
        const float* filter = weight + start(in.channel, k * k) + i * k + j;
        dx[start(sample, size) + index] = dot_windows(
            filter, c * k * k, -stride * k, -stride, gradient, oh * ow, ow, 1, o, rows.last - rows.first,
                columns.last - columns.first
        );
    }
}

// parts[s, f, channel, i, j] = sum over the samples n of part s and over p, q of dy[n, f, p, q] x[n, channel, p s -
// padding + i, q s - padding + j]; part s holds the samples from s * part_images on. Rows are summed, then samples,
// then the part. With one part, parts is dweight. Threads along i, j: dy is nearly equal for a warp, x is in
// about twelve lines of L1, which bounds the kernel.
extern "C" __global__ void conv2d_weight_gradient(
    const float* __restrict__ dy, const float* __restrict__ x, float* __restrict__ parts, int weights, int n,
    int part_images, int part_count, int c, int h, int w, int o, int oh, int ow, int k, int stride, int padding
) {
    const int index = thread_number();
    if (index >= weights) return;
    const Pixel at = pixel(index, k, k);  // row i, column j, and f * c + channel
    const int f = at.channel / c, channel = at.channel % c;
    const Range rows = outputs_with(at.row, h, oh, stride, padding),
        columns = outputs_with(at.column, w, ow, stride, padding);
    for (int s = blockIdx.y; s < part_count; s += gridDim.y) {
        const int first = s * part_images, last = n - first < part_images ? n : first + part_images;
        float sum = 0.0f;
        for (int sample = first; sample < last; ++sample) {
            const float* gradient = dy + start(sample, o * oh * ow) + f * oh * ow + columns.first;
            const float* image = x + start(sample, c * h * w) + channel * h * w
                + (columns.first * stride - padding + at.column);
            float part = 0.0f;
            for (int p = rows.first; p < rows.last; ++p) {
                const float* line = image + (p * stride - padding + at.row) * w;
                const int count = columns.last - columns.first;
                part += stride == 1 ? dot_row(gradient + p * ow, 1, line, 1, count)
                    : dot_row(gradient + p * ow, 1, line, stride, count);
            }
            sum += part;
        }
        parts[start(s, weights) + index] = sum;
    }
}
