// Linear layer on a short batch, forward: too small for a pipeline, bound by latency. A block loads all its numbers at
// once.
// instance: short_forward<1, unsigned char>; short_forward<0, unsigned char>; short_forward<1, float>
// instance: short_forward<0, float>
#include "nan.cuh"
#include "order.cuh"
#include "pixels.cuh"
#include "short_batch.cuh"

constexpr unsigned EVERY = 0xffffffffu;

// One float, or four at a multiple of 16 bytes.
template <int STEP>
__device__ __forceinline__ void store(float* to, const float (&value)[STEP]) {
    if constexpr (STEP == 4) *reinterpret_cast<float4*>(to) = make_float4(value[0], value[1], value[2], value[3]);
    else *to = value[0];
}

constexpr int ROWS = 16, COLUMNS = 8;  // samples and outputs of a block
constexpr int SUMS = ROWS * COLUMNS;
constexpr int EACH = ROWS / WARPS;     // samples that a warp brings
static_assert(COLUMNS == WARPS, "a warp brings the weights of one output");

// y[n, o] = b[o] + sum over i of x[n, i] w[o, i], then max(., 0) if fused_relu is 1, with x[n] = scale * source[row].
// row is n, or with an order the sample at position step * batch + offset + n; then x (n, inputs) and target (n,) =
// labels[row] (null without labels) are written. source: (samples, inputs). w: (outputs, inputs). y: (n, outputs).
// `depth` inputs, a multiple of 4, are in shared memory at a time. WIDE: four divides inputs. Block (16 samples, 8
// outputs). A thread has 4 x 4 sums over every 32nd four inputs: 8 reads of 16 bytes for 64 multiply-adds.
template <int WIDE, class Pixel>
__global__ void __launch_bounds__(THREADS, 2) short_forward(
    const Pixel* __restrict__ source, float scale, const int* __restrict__ labels, const unsigned* __restrict__ order,
    const int* __restrict__ step, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ x,
    int* __restrict__ target, float* __restrict__ y, int n, int inputs, int outputs, int depth, int batch, int offset,
    int fused_relu
) {
    constexpr int STEP = WIDE ? 4 : 1;                 // numbers of a sample that are read at a time
    // reads of each sample by a lane that are in flight together
    constexpr int AHEAD = sizeof(Pixel) == 1 ? 8 : 4;
    extern __shared__ float4 memory[];
    __shared__ int row_of[ROWS];
    const int pitch = (depth + 15) / 16 * 16 + 8;  // so that the reads of `pixels` and `weights` meet no bank twice
    float *pixels = reinterpret_cast<float*>(memory), *weights = pixels + ROWS * pitch;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int begin = blockIdx.x * ROWS, o0 = blockIdx.y * COLUMNS;
    const bool gathers = order != nullptr && blockIdx.y == 0;
    // Lanes that differ in their lowest bit read the same pixels, those that differ in the next two the same weights.
    const int of_two = lane % 2, of_four = lane / 2 % 4, share = warp * 4 + lane / 8;
    float sum[4][4] = {};
    int label = 0;  // loaded with the row and stored at the end, so that nothing waits for it

    for (int first = 0; first < inputs; first += depth) {
        const int count = min(depth, inputs - first);
        __syncthreads();
        // Weights need no row index: they are loaded while the rows are computed. An output beyond the last one is
        // computed again, and not stored.
        const int output = min(o0 + warp, outputs - 1);
        for (int i = lane * 4; i < count; i += 128)
            copy_four<WIDE>(weights + warp * pitch + i, w + static_cast<long long>(output) * inputs + first + i,
                count - i);
        commit_copies();
        if (first == 0 && threadIdx.x < ROWS) {
            int row = min(begin + static_cast<int>(threadIdx.x), n - 1);
            if (order != nullptr) {
                const long long position = min(*step * static_cast<long long>(batch) + offset + row,
                    order_length(order) - 1LL);
                row = order_at(order, static_cast<unsigned>(position));
                if (gathers && labels != nullptr) label = labels[row];
            }
            row_of[threadIdx.x] = row;
        }
        __syncthreads();
        const int end = (count + 3) / 4 * 4;  // zeros up to there
        for (int i0 = lane * STEP; i0 < end; i0 += 32 * STEP * AHEAD) {
            Pixels<Pixel, STEP> some[EACH][AHEAD] = {};
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const Pixel* from = source + static_cast<long long>(row_of[warp + e * WARPS]) * inputs + first;
#pragma unroll
                for (int a = 0; a < AHEAD; ++a)
                    if (i0 + 32 * STEP * a < count) some[e][a].load(from + i0 + 32 * STEP * a);
            }
#pragma unroll
            for (int e = 0; e < EACH; ++e)
#pragma unroll
                for (int a = 0; a < AHEAD; ++a) {
                    const int s = warp + e * WARPS, i = i0 + 32 * STEP * a;
                    if (i >= end) break;
                    float value[STEP];
#pragma unroll
                    for (int k = 0; k < STEP; ++k) value[k] = some[e][a][k] * scale;
                    store<STEP>(pixels + s * pitch + i, value);
                    if (gathers && begin + s < n && i < count)
                        store<STEP>(x + static_cast<long long>(begin + s) * inputs + first + i, value);
                }
        }
        wait_for_copies<0>();
        __syncthreads();
#pragma unroll 2
        for (int i = share * 4; i < count; i += 128) {
            float4 right[4];
#pragma unroll
            for (int c = 0; c < 4; ++c)
                right[c] = *reinterpret_cast<const float4*>(weights + (of_two + 2 * c) * pitch + i);
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const float4 left = *reinterpret_cast<const float4*>(pixels + (of_four + 4 * r) * pitch + i);
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    sum[r][c] = fmaf(left.w, right[c].w,
                        fmaf(left.z, right[c].z, fmaf(left.y, right[c].y, fmaf(left.x, right[c].x, sum[r][c]))));
            }
        }
    }

    if (gathers && labels != nullptr && threadIdx.x < ROWS && begin + static_cast<int>(threadIdx.x) < n)
        target[begin + threadIdx.x] = label;

    // The 32 parts of a sum: first of four lanes, each with one of four rows, then of the warps.
    const bool upper = lane & 16, odd = lane & 8;
    float two[2][4], held[4];
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c)
            two[r][c] = (upper ? sum[r + 2][c] : sum[r][c])
            + __shfl_xor_sync(EVERY, upper ? sum[r][c] : sum[r + 2][c], 16);
#pragma unroll
    for (int c = 0; c < 4; ++c)
        held[c] = (odd ? two[1][c] : two[0][c]) + __shfl_xor_sync(EVERY, odd ? two[0][c] : two[1][c], 8);
    __syncthreads();
    const int r = 2 * upper + odd;
#pragma unroll
    for (int c = 0; c < 4; ++c) pixels[warp * SUMS + (of_four + 4 * r) * COLUMNS + of_two + 2 * c] = held[c];
    __syncthreads();
    const int s = begin + static_cast<int>(threadIdx.x) / COLUMNS, o = o0 + static_cast<int>(threadIdx.x) % COLUMNS;
    if (threadIdx.x >= SUMS || s >= n || o >= outputs) return;
    float total = pixels[threadIdx.x];
#pragma unroll
    for (int v = 1; v < WARPS; ++v) total += pixels[v * SUMS + threadIdx.x];
    total += b[o];
    y[static_cast<long long>(s) * outputs + o] = fused_relu ? relu(total) : total;
}
