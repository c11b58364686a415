// The weight gradient of a convolution as a product of matrices that are never written down, and its finish.
//
//   part[o, (tap, c)] = sum over a part of the pixels of dy[o, pixel] x[c, what the tap reads for the pixel]
#include "gemm_pixels.cuh"

// x: (n, c, h, w). dy: (n, o, oh, ow). part: (parts, o, columns), columns as gemm_pixels.cuh has them.
// FEW: c is below 4. The grid's x counts tiles, those of columns first; its y parts of `depth` pixels, a multiple of BK.
template <int BM, int BN, int BK, int TM, int TN, int STAGES, bool FEW>
__global__ void __launch_bounds__(Tile<BM, BN, BK, TM, TN, STAGES>::THREADS, Tile<BM, BN, BK, TM, TN, STAGES>::ROOMY)
correlate(
    const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ part, int n, int c, int h, int w, int o, int oh, int ow,
    int k, int stride, int padding, int depth
) {
    using T = Tile<BM, BN, BK, TM, TN, STAGES>;
    extern __shared__ float4 shared4[];
    const int columns = k * k * padded_channels(c), tiles = (columns + BN - 1) / BN;
    const int o0 = blockIdx.x / tiles * BM, column0 = blockIdx.x % tiles * BN;
    const int first = blockIdx.y * depth, last = min(n * oh * ow, first + depth);
    PixelPanels<T, FEW> source(Window{c, h, w, o, oh, ow, k, stride, padding}, x, dy, o0, column0, first, last);
    const Place<T> at;
    float sum[TM][TN];
    multiply<T>(sum, source, (last - first + BK - 1) / BK, reinterpret_cast<float*>(shared4), at);

    part += static_cast<long long>(blockIdx.y) * o * columns;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = o0 + at.row(i / 4) + i % 4;
#pragma unroll
        for (int j = 0; j < TN / 4; ++j) {
            const int column = column0 + at.column(j);
            if (row < o && column < columns)
                *reinterpret_cast<float4*>(part + static_cast<long long>(row) * columns + column) =
                    make_float4(sum[i][4 * j], sum[i][4 * j + 1], sum[i][4 * j + 2], sum[i][4 * j + 3]);
        }
    }
}

constexpr int THREADS = 256;

// dw and db from the sums of parts, in an order that the launch fixes.
// part: (parts, o, columns) for a k x k kernel over c channels. db_part: (db_parts, outputs), of db (outputs,).
// fold 1: dw is (o, c, k, k). Else dw is (c, o, size, size), size = k - fold + 1: `part` is the gradient of a folded kernel (pack.cu), whose
// every number is a sum of numbers of w, and whose roles are exchanged, since the small image was read as dy.
// A block has blockDim.x numbers and blockDim.y threads for each, which take turns at the parts.
extern "C" __global__ void finish_weights(
    const float* __restrict__ part, float* __restrict__ dw, const float* __restrict__ db_part, float* __restrict__ db, int parts, int db_parts,
    int o, int c, int k, int fold, int outputs
) {
    __shared__ float sums[THREADS];
    const int size = k - fold + 1, weights = o * c * size * size, columns = k * k * padded_channels(c);
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    float* target = nullptr;
    float sum = 0.0f;
    if (index < weights) {  // channels fastest, as they lie in part
        const int channel = index % c, tap = index / c % (size * size), output = index / c / (size * size);
        const int pair = fold == 1 ? output * c + channel : channel * o + output;
        target = dw + static_cast<long long>(pair) * size * size + tap;
        const float* from = part + static_cast<long long>(output) * columns + column_of(channel, c);
        const int stride = padded_channels(c), row = size - 1 - tap / size, column = size - 1 - tap % size;
        for (int e = 0; e < fold; ++e)
            for (int f = 0; f < fold; ++f) {
                const float* at = from + (fold == 1 ? tap : (row + e) * k + column + f) * stride;
#pragma unroll 4
                for (int p = threadIdx.y; p < parts; p += blockDim.y) sum += at[static_cast<long long>(p) * o * columns];
            }
    } else if (index < weights + outputs) {
        target = db + index - weights;
#pragma unroll 4
        for (int p = threadIdx.y; p < db_parts; p += blockDim.y) sum += db_part[static_cast<long long>(p) * outputs + index - weights];
    }
    sums[threadIdx.y * blockDim.x + threadIdx.x] = sum;
    __syncthreads();
    if (target == nullptr || threadIdx.y > 0) return;
    for (int y = 1; y < blockDim.y; ++y) sum += sums[y * blockDim.x + threadIdx.x];
    *target = sum;
}
