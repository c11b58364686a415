// One layer whose inputs are divided over a cluster: BLOCKS blocks, each with the weights of a slice of the inputs, in
// registers for the whole launch. A step has two waits. Each block multiplies its slice of the batch with its weights
// on tensor cores, and sends the partial outputs to the blocks that own the samples; these add them, and send the
// gradient by the outputs to all; each block updates its weights. Every block has the bias.
//
// Shapes: n samples of at most BATCH in groups of 8, dealt to the blocks in turn; IN inputs in tiles of 16, OUT outputs
// in bands of 16. Factors are halves of 16 bits as in tile_products.cuh: weights are scaled by tile and output,
// gradients by group and output. Half of the warps compute; the others gather samples, add up the bias's gradient and
// write losses.
#pragma once
#include "../held.cuh"
#include "slice_gather.cuh"
#include "slice_weights.cuh"

__device__ constexpr int min_of(int a, int b) { return a < b ? a : b; }

template <class Pixel_, int IN_, int OUT_, int BLOCKS_, int BATCH_, bool RELU_, int SLOTS_>
struct Inputs {
    using Pixel = Pixel_;
    static constexpr int IN = IN_, OUT = OUT_, BLOCKS = BLOCKS_, BATCH = BATCH_, SLOTS = SLOTS_;
    static constexpr bool RELU = RELU_, BYTES = sizeof(Pixel) == 1;
    static constexpr int WARPS = THREADS / 64, COMPUTING = 32 * WARPS;  // that compute, and their threads
    static constexpr int CLERK = THREADS - 32;                          // first thread of the warp that writes losses
    static constexpr int ALL = (IN + 15) / 16, TILES = (ALL + BLOCKS - 1) / BLOCKS;  // tiles, and of a block at most
    static constexpr int HELD = (TILES + WARPS - 1) / WARPS, BANDS = (OUT + 15) / 16;
    static constexpr int GROUPS = (BATCH + 7) / 8, OWNED = (GROUPS + BLOCKS - 1) / BLOCKS;  // and of a block at most
    // Groups that a warp multiplies at once, how often, and samples of a batch that are multiplied.
    static constexpr int EACH = min_of((GROUPS + WARPS - 1) / WARPS, BANDS > 2 ? 2 : 4);
    static constexpr int ROUNDS = (GROUPS + WARPS * EACH - 1) / (WARPS * EACH), ROWS = 8 * WARPS * EACH * ROUNDS;
    static constexpr int STAGES = 3, PITCH = (IN * sizeof(Pixel) + 15) / 16 * 16;
    static constexpr int LINE = (TILES * sizeof(Pixel) | 1) * 16;  // bytes of a sample's slice in shared memory
    static constexpr int BAND = 128 + 4, GRADIENT = BANDS * BAND;  // floats of a group's gradient: fragments, exponents

    static __device__ __forceinline__ int rank() { return blockIdx.x % BLOCKS; }
    static __device__ __forceinline__ bool clerk() { return threadIdx.x >= CLERK && rank() == 0; }
    static __device__ __forceinline__ bool computes() { return threadIdx.x < COMPUTING; }
    // First tile of the block, and number of its tiles.
    static __device__ __forceinline__ int first() { return rank() * ALL / BLOCKS; }
    static __device__ __forceinline__ int count() { return (rank() + 1) * ALL / BLOCKS - first(); }
    // Bytes that other blocks send this one before a step's waits: partial outputs, gradients, and losses.
    static __device__ __forceinline__ int bytes(int wait, int n) {
        const int groups = (n + 7) / 8;
        if (wait == 0) return (groups + BLOCKS - 1 - rank()) / BLOCKS * 8 * BLOCKS * 16 * ((OUT + 3) / 4);
        return wait == 1 ? groups * (32 * OUT + 16 * BANDS) : rank() == 0 ? 16 * n : 0;
    }
};

// Rows and columns exchanged of 4 x 4 numbers, a row in each of four lanes, 4 apart.
__device__ __forceinline__ void turn_four(float (&z)[4], int row) {
    const bool odd = row % 2, upper = row / 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const float other = __shfl_xor_sync(EVERY_LANE, odd ? z[i] : z[i + 1], 4);
        (odd ? z[i] : z[i + 1]) = other;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float other = __shfl_xor_sync(EVERY_LANE, upper ? z[i] : z[i + 2], 8);
        (upper ? z[i] : z[i + 2]) = other;
    }
}

// The block's part of the outputs of EACH groups, from `first` on.
template <class D, class To>
__device__ __forceinline__ void outputs_of_groups(
    const Samples<D>& x, const uint4* fragments, const float2* scales, float* received, float by, int first, To to
) {
    const int lane = threadIdx.x % 32, g = lane / 4;
    float sum[D::EACH][D::BANDS][4] = {};
#pragma unroll 4
    for (int tile = 0; tile < D::TILES; ++tile) {  // weights of tiles that the block lacks are zeros
        unsigned four[D::EACH], high[D::EACH][2], low[D::EACH][2];
        if constexpr (D::BYTES) x.template load<false, 8 * D::EACH>(four, 8 * first, tile);
#pragma unroll
        for (int e = 0; e < D::EACH; ++e)
            if constexpr (D::BYTES) x.inputs(high[e], four[e]);
            else x.inputs(high[e], low[e], 8 * (first + e) + g, tile);
#pragma unroll
        for (int b = 0; b < D::BANDS; ++b) {
            const int at = tile * D::BANDS + b;
            const uint4 up = fragments[(2 * at) * 32 + lane], rest = fragments[(2 * at + 1) * 32 + lane];
            const float2 down = scales[at * 8 + g];
            const unsigned a_high[4] = {up.x, up.y, up.z, up.w}, a_low[4] = {rest.x, rest.y, rest.z, rest.w};
            float one[D::EACH][4] = {};
#pragma unroll
            for (int part = D::BYTES ? 1 : 0; part < 3; ++part)
#pragma unroll
                for (int e = 0; e < D::EACH; ++e)
                    mma_half(one[e], part == 1 ? a_low : a_high, part == 0 ? low[e] : high[e]);
#pragma unroll
            for (int e = 0; e < D::EACH; ++e)
#pragma unroll
                for (int i = 0; i < 4; ++i) sum[e][b][i] += one[e][i] * (i < 2 ? down.x : down.y);
        }
    }
    const int row = g % 4;
#pragma unroll
    for (int e = 0; e < D::EACH; ++e) {
        const int group = first + e, own = group / D::BLOCKS;
        if (8 * group >= x.n) break;
        const int sample = (own * D::BLOCKS + D::rank()) * 8 + lane % 4 * 2 + row % 2;
        float* const to_sample = received + sample * 16 * D::BANDS;
#pragma unroll
        for (int b = 0; b < D::BANDS; ++b) {
            float z[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) z[i] = sum[e][b][i] * by;
            turn_four(z, row);
            const int output = 16 * b + row / 2 * 8 + g / 4 * 4;
            if (output < D::OUT)
                to.template put<D::BLOCKS>(to_sample + output, group % D::BLOCKS, make_float4(z[0], z[1], z[2], z[3]));
        }
    }
}

// The block's part of the outputs, its slice of the samples times its weights and `by`, to the owners of the samples'
// groups: received (OWNED, BLOCKS, 8, BANDS, 16).
template <class D, class To>
__device__ __forceinline__ void partial_outputs(
    const Samples<D>& x, const uint4* fragments, const float2* scales, float* received, float by, To to
) {
#pragma unroll 1
    for (int first = threadIdx.x / 32 * D::EACH; 8 * first < x.n; first += D::WARPS * D::EACH)
        outputs_of_groups<D>(x, fragments, scales, received, by, first, to);
}

// Four words that are sent as they are.
__device__ __forceinline__ float4 four_words(unsigned a, unsigned b, unsigned c, unsigned d) {
    return make_float4(__uint_as_float(a), __uint_as_float(b), __uint_as_float(c), __uint_as_float(d));
}

// Losses and gradients of the block's own group r, a half-warp for each sample: adds the bias and the blocks' parts of
// the outputs; softmax cross-entropy; dx, the gradient by the outputs before a ReLU, (OWNED, BANDS, 16, 10) in shared
// memory.
// The first block gets what each sample's loss is made of: losses (BATCH, 4) of this step.
template <class D, class To>
__device__ __forceinline__ void own_losses(
    const float* received, const float* bias, const int* label, float* dx, float* losses, int r, int n, To to
) {
    const int s = threadIdx.x / 16, m = 8 * (r * D::BLOCKS + D::rank()) + s, wanted = label[m];
    const int c = threadIdx.x % 16;
    float z[D::BANDS], one[D::BANDS], largest = __uint_as_float(0xFF800000u), total = 0.0f, own = 0.0f;
#pragma unroll
    for (int b = 0; b < D::BANDS; ++b) {
        float half[2] = {bias[16 * b + c], 0.0f};
#pragma unroll
        for (int other = 0; other < D::BLOCKS; ++other)
            half[other % 2] += received[((r * D::BLOCKS + other) * 8 + s) * 16 * D::BANDS + 16 * b + c];
        z[b] = half[0] + half[1];
        if (D::RELU) z[b] = relu(z[b]);
        if (16 * b + c < D::OUT) largest = fmaxf(largest, z[b]);
    }
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(EVERY_LANE, largest, offset));
    unsigned best = 0;  // the first class with the largest logit; NaN and minus infinity are none
    bool right = false;
#pragma unroll
    for (int b = 0; b < D::BANDS; ++b) {
        const bool exists = 16 * b + c < D::OUT;
        one[b] = exists ? expf(z[b] - largest) : 0.0f;
        total += one[b];
        if (16 * b + c == wanted) own = z[b];
        const bool is_best = exists && z[b] == largest && z[b] > __uint_as_float(0xFF800000u);
        const unsigned found = __ballot_sync(EVERY_LANE, is_best) >> threadIdx.x % 32 / 16 * 16 & 0xFFFFu;
        if (best == 0 && found != 0) right = 16 * b + __ffs(found) - 1 == wanted, best = found;
    }
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2) {
        total += __shfl_xor_sync(EVERY_LANE, total, offset);
        own += __shfl_xor_sync(EVERY_LANE, own, offset);
    }
#pragma unroll
    for (int b = 0; b < D::BANDS; ++b) {
        float change = (one[b] / total - (16 * b + c == wanted ? 1.0f : 0.0f)) / n;
        if ((D::RELU && !(z[b] > 0.0f)) || m >= n || 16 * b + c >= D::OUT) change = 0.0f;
        dx[((r * D::BANDS + b) * 16 + c) * 10 + s] = change;
    }
    if (c == 0 && m < n) to.template put<D::BLOCKS>(losses + 4 * m, 0, make_float4(total, own - largest, right, 0.0f));
}

// The gradient of the block's own group r to all blocks, (GROUPS, GRADIENT) there: of each band fragments (2, 32) of 8
// bytes and exponents of the scales, a byte for each output. Each warp sends it to some.
template <class D, class To>
__device__ __forceinline__ void send_gradients(const float* dx, float* gradients, int r, To to) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
    const bool odd = t % 2;  // lanes t and t + 1 exchange: one sends output g of four samples, the other g + 8
    float* const group = gradients + (r * D::BLOCKS + D::rank()) * D::GRADIENT;
#pragma unroll
    for (int b = 0; b < D::BANDS; ++b) {
        unsigned word[2][2], exponents[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float* const of = dx + ((r * D::BANDS + b) * 16 + g + 8 * half) * 10;
            const float2 two = *reinterpret_cast<const float2*>(of + 2 * t);
            const unsigned exponent = shared_exponent<1, 4>(max(bits_of_size(two.x), bits_of_size(two.y)));
            const float up = power_of_two(exponent);
            Packed<SPLIT>::halves(two.x * up, two.y * up, word[half][0], word[half][1]);
            const unsigned byte = exponent << 8 * (g % 4);
            exponents[2 * half] = __reduce_or_sync(EVERY_LANE, g < 4 ? byte : 0u);
            exponents[2 * half + 1] = __reduce_or_sync(EVERY_LANE, g < 4 ? 0u : byte);
        }
        const unsigned high = __shfl_xor_sync(EVERY_LANE, odd ? word[0][0] : word[1][0], 1);
        const unsigned low = __shfl_xor_sync(EVERY_LANE, odd ? word[0][1] : word[1][1], 1);
        const float4 v = odd ? four_words(high, low, word[1][0], word[1][1])
                             : four_words(word[0][0], word[0][1], high, low);
        const float4 scales = four_words(exponents[0], exponents[1], exponents[2], exponents[3]);
        float* const band = group + b * D::BAND;
#pragma unroll
        for (int i = 0; i < (D::BLOCKS + D::WARPS - 1) / D::WARPS; ++i) {
            const int other = warp + i * D::WARPS, rank = (D::rank() + other) % D::BLOCKS;
            if (other >= D::BLOCKS) break;
            if (16 * b + 8 * odd + g < D::OUT)
                to.template put<D::BLOCKS>(band + 64 * odd + 2 * (lane - odd), rank, v);
            if (lane == i) to.template put<D::BLOCKS>(band + 128, rank, scales);
        }
    }
}
