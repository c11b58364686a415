// Weight gradient of a convolution as a matrix product without stored patches, and the sum of its partials.
// Launched by `WeightGradient` and `finish` of gradients.py.
//
//   part[o, (tap, c)] = sum over a part of the pixels of dy[o, pixel] x[c, pixel under the tap]
#include "four.cuh"
#include "gemm_pixels.cuh"
#include "parameter.cuh"
#include "turns.cuh"

// x: (n, c, h, w). dy: (n, o, oh, ow). part: (parts, o, columns), columns as gemm_pixels.cuh has them. FEW: c is below
// 4. x counts tiles, of columns first; y parts of `depth` pixels, a multiple of BK.
template <int BM, int BN, int BK, int TM, int TN, int STAGES, bool FEW>
__global__ void __launch_bounds__(Tile<BM, BN, BK, TM, TN, STAGES>::THREADS, Tile<BM, BN, BK, TM, TN, STAGES>::ROOMY)
correlate(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ part, int n, int c, int h,
    int w, int o, int oh, int ow, int k, int stride, int padding, int depth) {
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

// Writes dw and db from the partials, in a fixed order; and updates their parameters if params
// is not null (parameter.cuh).
// part: (parts, o, columns) for a k x k kernel over c channels. db_part: (db_parts, outputs), of db (outputs,).
// FOLD 1: dw is (o, c, k, k). Else dw is (c, o, size, size), size = k - FOLD + 1: `part` is the gradient of a folded
// kernel (folded.cuh), each number of which is a sum of numbers of w. Its roles are exchanged, since the small
// image was read as dy. A block has blockDim.x groups of four channels, or numbers of db, and blockDim.y threads for
// each, which take turns at the parts.
template <int FOLD>
__global__ void __launch_bounds__(THREADS, 2) finish_weights(
    const float4* __restrict__ part, float* __restrict__ dw, const float* __restrict__ db_part, float* __restrict__ db,
    int parts, int db_parts, int o, int c, int k, int outputs, float* grads, float* params, float* momentum_buffer,
    float rate, float momentum, int nesterov, float decay, float limit
) {
    __shared__ float4 sums[THREADS];
    const Flat flat = {grads, params, momentum_buffer, {rate, momentum, nesterov, decay}, limit};
    const int size = k - FOLD + 1, groups = padded_channels(c) / 4, all = o * size * size * groups;
    const int index = blockIdx.x * blockDim.x + threadIdx.x, number = index - all;
    const int group = index % groups, tap = index / groups % (size * size), output = index / groups / (size * size);
    float* to[4] = {};  // where the sums go that this thread finishes
    if (threadIdx.y == 0 && index < all) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int channel = channel_of(4 * group + i, c), pair = FOLD == 1 ? output * c + channel
                : channel * o + output;
            const bool first = channel >= 4 * group && channel < c;  // not one that the group before has
            if (first) to[i] = dw + static_cast<long long>(pair) * size * size + tap;
        }
    } else if (threadIdx.y == 0 && number < outputs) {
        to[0] = db + number;
    }
    Parameter own[4] = {{flat, to[0]}, {flat, to[1]}, {flat, to[2]}, {flat, to[3]}};
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (index < all) {  // channels fastest, as they lie in part
        const int first = FOLD == 1 ? tap : (size - 1 - tap / size) * k + size - 1 - tap % size;
        const float4* from = part + static_cast<long long>(output * k * k + first) * groups + group;
        const auto number = [&](int p) {
            const float4* at = from + static_cast<long long>(p) * o * k * k * groups;
            float4 all = at[0];
#pragma unroll
            for (int e = 1; e < FOLD * FOLD; ++e) all = all + at[(e / FOLD * k + e % FOLD) * groups];
            return all;
        };
        sum = sum_in_turns<FOLD == 1 ? 4 : 2>(number, threadIdx.y, blockDim.y, parts);
    } else if (number < outputs) {
        sum.x = sum_in_turns<16>([&](int p) { return db_part[static_cast<long long>(p) * outputs + number]; },
            threadIdx.y, blockDim.y, db_parts);
    }
    sums[threadIdx.y * blockDim.x + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0) return;
    for (int y = 1; y < blockDim.y; ++y) sum = sum + sums[y * blockDim.x + threadIdx.x];
    const float each[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (to[i] != nullptr) own[i].finish(flat, to[i], each[i]);
}
