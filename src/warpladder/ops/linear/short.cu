// Linear layer on a short batch: too small for a pipeline, bound by latency. A block loads all its numbers at
// once.
// instance: short_forward<1, unsigned char>; short_forward<0, unsigned char>; short_forward<1, float>
// instance: short_forward<0, float>; short_weight_gradient<1>; short_weight_gradient<0>
#include "async.cuh"
#include "four.cuh"
#include "nan.cuh"
#include "order.cuh"
#include "pixels.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr unsigned EVERY = 0xffffffffu;

// Four floats, of which the first `count` exist (any number; none below 1), the others 0. With WIDE all or none exist,
// at a multiple of 16 bytes: one access without a branch, so that several can be in flight.
template <int WIDE>
__device__ __forceinline__ void copy_four(float* shared, const float* global, int count) {
    if constexpr (WIDE) {
        copy_sixteen(shared, global, count > 0 ? 4 : 0);
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) copy_float(shared + e, global + e, e < count);
    }
}
template <int WIDE>
__device__ __forceinline__ float4 read_four(const float* from, int count) {
    if constexpr (WIDE) return count > 0 ? *reinterpret_cast<const float4*>(from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    else return load_four(from, count, false);
}

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

constexpr int OUTPUTS = 32, INPUTS = 64, SAMPLES = 64;  // of a block; and that it takes at a time
constexpr int PITCH_G = OUTPUTS + 4, PITCH_X = INPUTS + 4;
constexpr int HALF = THREADS / 2;                       // threads that cover dw's tile, 4 x 4 numbers each
constexpr int LOADS = SAMPLES * OUTPUTS / 4 / THREADS;  // of four gradients by each thread

// dw[o, i] = sum over n of g[n, o] x[n, i], db[o] = sum of g[n, o]; g is dy, or 0 where y (null without a ReLU) is not
// above 0. x: (n, inputs). dy, y: (n, outputs). WIDE: four divides inputs and outputs. Block (32 outputs, 64 inputs);
// one half of its threads takes the even samples, the other the odd ones.
template <int WIDE>
__global__ void __launch_bounds__(THREADS) short_weight_gradient(
    const float* __restrict__ x, const float* __restrict__ dy, const float* __restrict__ y, float* __restrict__ dw,
    float* __restrict__ db, int n, int inputs, int outputs
) {
    __shared__ float4 memory[SAMPLES * (PITCH_G + PITCH_X) / 4];
    float *g = reinterpret_cast<float*>(memory), *some = g + SAMPLES * PITCH_G;
    const int o0 = blockIdx.x * OUTPUTS, i0 = blockIdx.y * INPUTS;
    const int half = threadIdx.x / HALF, place = threadIdx.x % HALF;
    // A warp's lanes have four rows and eight columns: a read of 32 x 16 bytes is one of 64 or 128.
    const int row = (place % 2 + place / 8 % 2 * 2 + place / 64 * 4) * 4,
        column = (place / 2 % 4 + place / 16 % 4 * 4) * 4;
    float sum[4][4] = {}, bias = 0.0f;
    for (int first = 0; first < n; first += SAMPLES) {
        const int count = min(SAMPLES, n - first);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SAMPLES * INPUTS / 4 / THREADS; ++k) {
            const int t = threadIdx.x + k * THREADS, s = t / (INPUTS / 4), i = t % (INPUTS / 4) * 4;
            const float* from = x + static_cast<long long>(first + s) * inputs + i0 + i;
            copy_four<WIDE>(some + s * PITCH_X + i, from, s < count ? inputs - i0 - i : 0);
        }
        commit_copies();
        float4 value[LOADS], mask[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            const int t = threadIdx.x + k * THREADS, s = t / (OUTPUTS / 4), o = o0 + t % (OUTPUTS / 4) * 4;
            const long long at = static_cast<long long>(first + s) * outputs + o;
            const int left = s < count ? outputs - o : 0;
            value[k] = read_four<WIDE>(dy + at, left);
            mask[k] = y != nullptr ? read_four<WIDE>(y + at, left) : make_float4(1.0f, 1.0f, 1.0f, 1.0f);
        }
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            const int t = threadIdx.x + k * THREADS;
            *reinterpret_cast<float4*>(g + t / (OUTPUTS / 4) * PITCH_G + t % (OUTPUTS / 4) * 4) = make_float4(
                mask[k].x > 0.0f ? value[k].x : 0.0f, mask[k].y > 0.0f ? value[k].y : 0.0f, mask[k].z > 0.0f
                ? value[k].z : 0.0f, mask[k].w > 0.0f ? value[k].w : 0.0f
            );
        }
        wait_for_copies<0>();
        __syncthreads();
#pragma unroll 4
        for (int s = half; s < count; s += 2) {
            const float4 a = *reinterpret_cast<const float4*>(g + s * PITCH_G + row);
            const float4 b = *reinterpret_cast<const float4*>(some + s * PITCH_X + column);
            const float left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int r = 0; r < 4; ++r)
#pragma unroll
                for (int c = 0; c < 4; ++c) sum[r][c] = fmaf(left[r], right[c], sum[r][c]);
        }
        if (blockIdx.y == 0)
#pragma unroll
            for (int k = 0; k < SAMPLES * OUTPUTS / THREADS; ++k)
                bias += g[(threadIdx.x / OUTPUTS + k * WARPS) * PITCH_G + threadIdx.x % OUTPUTS];
    }
    // Each half sends the other one two of its four rows.
    float* biases = reinterpret_cast<float*>(memory + 4 * HALF);
    float held[2][4];
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float sent[4];
#pragma unroll
        for (int c = 0; c < 4; ++c)
            held[r][c] = half ? sum[r + 2][c] : sum[r][c], sent[c] = half ? sum[r][c] : sum[r + 2][c];
        memory[(2 * half + r) * HALF + place] = make_float4(sent[0], sent[1], sent[2], sent[3]);
    }
    biases[threadIdx.x] = bias;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const float4 total = make_float4(held[r][0], held[r][1], held[r][2], held[r][3])
            + memory[(2 * (1 - half) + r) * HALF + place];
        const int o = o0 + row + 2 * half + r;
        if (o < outputs)
            store_four(dw + static_cast<long long>(o) * inputs + i0 + column, total, inputs - i0 - column, WIDE);
    }
    if (blockIdx.y > 0 || threadIdx.x >= OUTPUTS || o0 + static_cast<int>(threadIdx.x) >= outputs) return;
    for (int t = OUTPUTS; t < THREADS; t += OUTPUTS) bias += biases[threadIdx.x + t];
    db[o0 + threadIdx.x] = bias;
}
