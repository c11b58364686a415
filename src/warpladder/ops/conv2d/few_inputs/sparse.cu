// The weight gradient of a convolution with few inputs (colours), directly from the gradient of its 2 x 2 pool.
// Launched by `PooledGradient` of few_inputs.py.
//
// Three quarters of the gradient after a pool are zeros. A thread holds the few weights of an output in registers, and
// reads only windows of argmax pixels; the large gradient is never stored.
#include "async.cuh"
#include "gemm_pixels.cuh"

constexpr int WINDOWS = 32;  // whose dy a warp keeps in shared memory, by as many outputs

// x: (n, C, h, w). dy, argmax: (n, o, oh / 2, ow / 2), of the pool; argmax as in pooled.cuh. Stride 1. part: (parts, o,
// columns), as in gemm_weights.cu: columns (tap, channel). db_part: (parts, o). A lane has an output and all its C K K
// numbers; warp blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32 has 32 outputs. Part blockIdx.x: images from
// blockIdx.x / ranges * part_images on, and range blockIdx.x % ranges of the windows of each. Shared memory: `lines`
// rows of each channel of the padded image, as many as a range reads; then 32 x 33 floats and bytes for each warp.
template <int C, int K>
__global__ void __launch_bounds__(256, 2) correlate_argmax(
    const float* __restrict__ x, const float* __restrict__ dy, const unsigned char* __restrict__ argmax,
    float* __restrict__ part, float* __restrict__ db_part, int n, int h, int w, int o, int oh, int ow, int padding,
    int part_images, int ranges, int range, int lines
) {
    extern __shared__ float4 shared4[];
    float* image = reinterpret_cast<float*>(shared4);
    const int wide = w + 2 * padding, warps = blockDim.x / 32;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float* gradient = image + C * lines * wide + warp * WINDOWS * 33;
    unsigned char* pool_argmax = reinterpret_cast<unsigned char*>(image + C * lines * wide + warps * WINDOWS * 33)
        + warp * WINDOWS * 33;
    const int output = (blockIdx.y * warps + warp) * 32 + lane;
    const int across = ow / 2, windows = (oh / 2) * across;
    const int begin = blockIdx.x % ranges * range, end = min(windows, begin + range);
    const int first = blockIdx.x / ranges * part_images, last = min(n, first + part_images);
    const int top = begin / across * 2;  // line of the padded image at which the range begins

    float sum[C * K * K], bias = 0.0f;
#pragma unroll
    for (int t = 0; t < C * K * K; ++t) sum[t] = 0.0f;
    for (int sample = first; sample < last; ++sample) {
        __syncthreads();
        for (int line = warp; line < C * lines; line += warps) {
            const int row = top + line % lines - padding;
            const float* from = x + (static_cast<long long>(sample) * C + line / lines) * (h * w) + row * w - padding;
            for (int column = lane; column < wide; column += 32)
                copy_float(image + line * wide + column, from + column, row >= 0 && row < h && column >= padding
                    && column < w + padding);
        }
        commit_copies();
        for (int window0 = begin; window0 < end; window0 += WINDOWS) {
            // Reads run along the windows, stores along the outputs. All loads are issued before the first wait.
            const long long at = (static_cast<long long>(sample) * o + output - lane) * windows + window0 + lane;
            const int outputs = window0 + lane < end ? o - output + lane : 0;
            int indices[WINDOWS];
            __syncwarp();
#pragma unroll
            for (int r = 0; r < 32; ++r) {
                copy_float(gradient + lane * 33 + r, dy + at + static_cast<long long>(r) * windows, r < outputs);
                indices[r] = r < outputs ? argmax[at + static_cast<long long>(r) * windows] : 4;
            }
            commit_copies();
#pragma unroll
            for (int r = 0; r < 32; ++r) pool_argmax[lane * 33 + r] = indices[r];
            wait_for_copies<0>();
            if (window0 == begin)
                __syncthreads();  // the image is whole
            else __syncwarp();
            const float* corner = image + (window0 / across * 2 - top) * wide;  // of the windows' row
            int column = window0 % across * 2;
            for (int s = 0; s < min(WINDOWS, end - window0); ++s) {
                const int position = pool_argmax[s * 33 + lane];
                const float g = position < 4 ? gradient[s * 33 + lane] : 0.0f;
                const float* seen = corner + position / 2 % 2 * wide + column + position % 2;
                column += 2;
                if (column == across * 2) column = 0, corner += 2 * wide;
                bias += g;
#pragma unroll
                for (int channel = 0; channel < C; ++channel)
#pragma unroll
                    for (int i = 0; i < K; ++i)
#pragma unroll
                        for (int j = 0; j < K; ++j) {
                            float& t = sum[(channel * K + i) * K + j];
                            t = fmaf(g, seen[(channel * lines + i) * wide + j], t);
                        }
            }
        }
    }
    if (output >= o) return;
    constexpr int PADDED = padded_channels(C);
    float* to = part + (static_cast<long long>(blockIdx.x) * o + output) * (K * K * PADDED);
#pragma unroll
    for (int t = 0; t < K * K * PADDED; ++t)
        to[t] = channel_of(t % PADDED, C) < C ? sum[channel_of(t % PADDED, C) * K * K + t / PADDED] : 0.0f;
    db_part[blockIdx.x * o + output] = bias;
}
