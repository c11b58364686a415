// Two layers whose hidden units are divided over a cluster: BLOCKS blocks, each with the weights of at most 16 hidden
// units, to and from them, for the whole launch; those to them in registers. A step has two waits. Each block computes
// its units of the whole batch on tensor cores (tile_products.cuh), multiplies them with its weights of the second
// layer, and sends the partial outputs to the blocks that own the samples; these add them, and send the gradient by the
// outputs to all; each block updates its weights. All blocks gather all samples, a step ahead.
//
// Shapes: n samples of at most BATCH, in tiles of 64: n-tile w of 8 samples is finished by warp w. IN inputs, HIDDEN
// units, OUT outputs. Stored samples are PITCH bytes apart, a multiple of 16.
#pragma once
#include "../held.cuh"
#include "../stepper.cuh"
#include "stages.cuh"
#include "tile_products.cuh"

// Exchange of the outputs: each block owns ROWS samples of a batch, whose OUT outputs it adds up.
template <int OUT_, int BLOCKS_, int BATCH_>
struct Owners {
    static constexpr int OUT = OUT_, BLOCKS = BLOCKS_, BATCH = BATCH_;
    static constexpr int OUTS = (OUT + 3) / 4 * 4, G_LINE = held_line(OUT);
    static constexpr int ROWS = (BATCH + BLOCKS - 1) / BLOCKS;
    static __device__ __forceinline__ int rank() { return blockIdx.x % BLOCKS; }
    // Samples of n that this block owns.
    static __device__ __forceinline__ int owned(int n) { return max(0, min(ROWS, n - rank() * ROWS)); }
};

template <class Pixel_, int IN_, int HIDDEN_, int OUT_, int BLOCKS_, int BATCH_, bool RELU_, int SLOTS_, int STAGES_>
struct Units {
    using Pixel = Pixel_;
    using Exchange = Owners<OUT_, BLOCKS_, BATCH_>;
    static constexpr int IN = IN_, HIDDEN = HIDDEN_, OUT = OUT_, BLOCKS = BLOCKS_, BATCH = BATCH_, SLOTS = SLOTS_;
    static constexpr bool RELU = RELU_, BYTES = sizeof(Pixel) == 1;
    static constexpr int STAGES = STAGES_;  // batches in shared memory
    static constexpr int WARPS = THREADS / 32;
    static constexpr int CLERK = THREADS - 32;  // first thread of the warp that writes losses, in the first block
    static __device__ __forceinline__ bool clerk() { return threadIdx.x >= CLERK && Exchange::rank() == 0; }
    static constexpr int TILES = (IN + 15) / 16, HELD = (TILES + WARPS - 1) / WARPS;  // tiles of inputs, and of a warp
    static constexpr int BUSY = TILES < WARPS ? TILES : WARPS;  // warps with inputs
    // Samples of a product with all weights, and of a batch with those that fill it up.
    static constexpr int PASS = BATCH < 64 ? (BATCH + 15) / 16 * 16 : 64, ROWS = (BATCH + PASS - 1) / PASS * PASS;
    static constexpr int PITCH = (IN * sizeof(Pixel) + 15) / 16 * 16;
    static constexpr int LINE = (TILES * sizeof(Pixel) | 1) * 16;  // bytes of a sample in shared memory
    static constexpr int DZ_LINE = (ROWS + 31) / 32 * 32 + 8, OUTS = (OUT + 3) / 4 * 4, OUT_LINE = held_line(OUT);
    static constexpr int UNITS = (HIDDEN + BLOCKS - 1) / BLOCKS;
    // A thread's sums of a step: two units' dw2 and db1, and db2; a quarter of them are whole quads.
    static constexpr int SUMS = (3 * OUT + 2 + 15) / 16 * 16, SUMS_LINE = (SUMS / 4 | 1) * 4;
    static_assert(UNITS <= 16 && BATCH <= THREADS, "16 units of a block, a thread for each sample");
    // Bytes that other blocks send this one before a step's waits: partial outputs, gradients, and losses.
    static __device__ __forceinline__ int bytes(int wait, int n) {
        if (wait == 0) return 4 * OUTS * BLOCKS * Exchange::owned(n);
        return wait == 1 ? 4 * OUTS * n : Exchange::rank() == 0 ? 16 * n : 0;
    }
    static __device__ __forceinline__ int first() { return Exchange::rank() * UNITS; }
    static __device__ __forceinline__ int own() { return max(0, min(UNITS, HIDDEN - first())); }
};

// Partial sums of the warps' inputs: (BUSY, 8, 32) fragments of 8 samples, times `by`.
template <class U>
__device__ __forceinline__ void store_parts(
    float4* parts, const float (&sum)[U::PASS / 8][4], const UnitScales& scales, float by
) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp >= U::BUSY) return;
#pragma unroll
    for (int n = 0; n < U::PASS / 8; ++n)
        parts[(warp * 8 + n) * 32 + lane] = make_float4(
            sum[n][0] * by * scales.down[0], sum[n][1] * by * scales.down[0], sum[n][2] * by * scales.down[1],
            sum[n][3] * by * scales.down[1]
        );
}

// z of the lane's units g and g + 8 and samples 2t and 2t + 1 of the warp's eight: (g, 2t), (g, 2t + 1), (g + 8, 2t)...
template <class U>
__device__ __forceinline__ void add_parts(float (&z)[4], const float4* parts, const float (&bias)[2]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    z[0] = z[1] = bias[0], z[2] = z[3] = bias[1];
#pragma unroll
    for (int other = 0; other < U::BUSY; ++other) {
        const float4 v = parts[(other * 8 + warp) * 32 + lane];
        z[0] += v.x, z[1] += v.y, z[2] += v.z, z[3] += v.w;
    }
}

template <class U>
__device__ __forceinline__ float hidden(float z) { return U::RELU ? relu(z) : z; }

// Row of OUT numbers at a multiple of 16 bytes in registers, or zeros.
template <class U>
__device__ __forceinline__ void read_outputs(float (&to)[U::OUTS], const float* row, bool present) {
#pragma unroll
    for (int i = 0; i < U::OUTS; i += 4) {
        const float4 v = present ? *reinterpret_cast<const float4*>(row + i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
}

// The block's part of the outputs of the warp's samples row to row + 7, by w2 (16, OUT_LINE), to their owners' rows.
// sums: (64, OUTS) in shared memory.
template <class U, class To>
__device__ __forceinline__ void send_outputs(
    const float (&z)[4], const float* w2, float* sums, float* received, int row, int n, To to
) {
    using D = typename U::Exchange;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float value[2 * U::OUTS], near[U::OUTS], far[U::OUTS];
    read_outputs<U>(near, w2 + g * U::OUT_LINE, true);
    read_outputs<U>(far, w2 + (g + 8) * U::OUT_LINE, true);
#pragma unroll
    for (int c = 0; c < U::OUTS; ++c) {
        value[c] = hidden<U>(z[0]) * near[c] + hidden<U>(z[2]) * far[c];
        value[U::OUTS + c] = hidden<U>(z[1]) * near[c] + hidden<U>(z[3]) * far[c];
    }
    Share share = {0, 2 * U::OUTS};
    warp_sums<2 * U::OUTS, 4>(value, share);
    float* const own = sums + 8 * warp * U::OUTS;
#pragma unroll
    for (int k = 0; k < U::OUTS / 4; ++k) own[2 * t * U::OUTS + share.first + k] = value[k];
    __syncwarp();
    constexpr int QUADS = U::OUTS / 4;
#pragma unroll
    for (int i = lane; i < 8 * QUADS; i += 32) {
        const int m = row + i / QUADS, at = i % QUADS * 4;
        if (m < n)
            to.template put<U::BLOCKS>(
                received + (D::rank() * D::ROWS + m % D::ROWS) * D::G_LINE + at, m / D::ROWS,
                *reinterpret_cast<const float4*>(own + 4 * i)
            );
    }
    __syncwarp();
}

// Losses and gradients of the samples that the block owns, a warp for each: adds the bias b2 (OUT,) and the blocks'
// parts of its outputs, and sends the gradient by the outputs before a ReLU to all blocks' rows, with softmax
// cross-entropy. Afterwards the first block gets what its loss is made of. received: (BLOCKS, ROWS, G_LINE); losses:
// (BATCH, 4) of this step.
template <class U, bool RELU, class To>
__device__ __forceinline__ void own_losses(
    const float* received, const float* b2, const int* label, float* scratch, float* gradient, float* losses, int n,
    To to, To loss_to
) {
    using D = typename U::Exchange;
    const int lane = threadIdx.x % 32, c = lane % 16;
    for (int r = threadIdx.x / 32; r < D::owned(n); r += U::WARPS) {
        const int m = D::rank() * D::ROWS + r, wanted = label[m];
        float logit = lane < U::OUT ? b2[c] : 0.0f;  // half of the blocks' parts
        if (c < U::OUT)
#pragma unroll
            for (int other = 0; other < U::BLOCKS / 2; ++other)
                logit += received[((2 * other + lane / 16) * D::ROWS + r) * D::G_LINE + c];
        logit += __shfl_xor_sync(EVERY_LANE, logit, 16);
        if (RELU) logit = relu(logit);
        float largest = c < U::OUT ? logit : __uint_as_float(0xFF800000u);
#pragma unroll
        for (int offset = 8; offset > 0; offset /= 2)
            largest = fmaxf(largest, __shfl_xor_sync(EVERY_LANE, largest, offset));
        const float one = c < U::OUT ? expf(logit - largest) : 0.0f;
        float total = one;
#pragma unroll
        for (int offset = 8; offset > 0; offset /= 2) total += __shfl_xor_sync(EVERY_LANE, total, offset);
        float dx = (one / total - (c == wanted ? 1.0f : 0.0f)) / n;
        if (RELU && !(logit > 0.0f)) dx = 0.0f;
        if (lane < D::OUTS) scratch[r * D::G_LINE + c] = c < U::OUT ? dx : 0.0f;
        __syncwarp();
        constexpr int QUADS = D::OUTS / 4;
        for (int i = lane; i < U::BLOCKS * QUADS; i += 32) {
            const float4 v = *reinterpret_cast<const float4*>(scratch + r * D::G_LINE + i % QUADS * 4);
            to.template put<U::BLOCKS>(
                gradient + m * D::G_LINE + i % QUADS * 4, (D::rank() + i / QUADS) % U::BLOCKS, v
            );
        }
        const float own = __shfl_sync(EVERY_LANE, logit, wanted);
        // the first class with the largest logit; NaN and minus infinity are none
        const bool is_best = c < U::OUT && logit == largest && logit > __uint_as_float(0xFF800000u);
        const unsigned best = __ballot_sync(EVERY_LANE, is_best);
        const float right = __ffs(best) - 1 == wanted ? 1.0f : 0.0f;
        if (lane == 0)
            loss_to.template put<U::BLOCKS>(losses + 4 * m, 0, make_float4(total, own - largest, right, 0.0f));
        __syncwarp();
    }
}

// Backward through the second layer, of the lane's samples row and row + 1: stores dz times `by`, adds to the thread's
// sums of dw2, db1 and db2, and to the largest such dz of its units.
template <class U>
__device__ __forceinline__ void backward_units(
    float (&sums)[U::SUMS], unsigned (&largest)[2], const float4& units, const float* w2, const float* gradient,
    float* dz, int row, int n, float by
) {
    const int g = threadIdx.x % 32 / 4;
    const bool one = row < n, other = row + 1 < n;  // samples beyond the batch are of an earlier one
    const float z[4] = {one ? units.x : 0.0f, other ? units.y : 0.0f, one ? units.z : 0.0f, other ? units.w : 0.0f};
    float own[4] = {}, near[U::OUTS], far[U::OUTS], a[U::OUTS], b[U::OUTS];
    read_outputs<U>(near, w2 + g * U::OUT_LINE, true);
    read_outputs<U>(far, w2 + (g + 8) * U::OUT_LINE, true);
    read_outputs<U>(a, gradient + row * U::OUT_LINE, one);
    read_outputs<U>(b, gradient + (row + 1) * U::OUT_LINE, other);
#pragma unroll
    for (int c = 0; c < U::OUT; ++c) {
        own[0] += a[c] * near[c], own[1] += b[c] * near[c], own[2] += a[c] * far[c], own[3] += b[c] * far[c];
        sums[c] += hidden<U>(z[0]) * a[c] + hidden<U>(z[1]) * b[c];
        sums[U::OUT + 1 + c] += hidden<U>(z[2]) * a[c] + hidden<U>(z[3]) * b[c];
        sums[2 * U::OUT + 2 + c] += a[c] + b[c];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (U::RELU && !(z[i] > 0.0f)) own[i] = 0.0f;
    sums[U::OUT] += own[0] + own[1];
    sums[2 * U::OUT + 1] += own[2] + own[3];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        own[i] *= by;
        largest[i / 2] = max(largest[i / 2], bits_of_size(own[i]));
    }
    *reinterpret_cast<float2*>(dz + g * U::DZ_LINE + row) = make_float2(own[0], own[1]);
    *reinterpret_cast<float2*>(dz + (g + 8) * U::DZ_LINE + row) = make_float2(own[2], own[3]);
}

// The warp's sums to parts (WARPS, 8, SUMS_LINE), and the largest dz of its units to most (16, WARPS).
template <class U>
__device__ __forceinline__ void store_sums(
    float (&sums)[U::SUMS], unsigned (&largest)[2], float* parts, unsigned* most
) {
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
    Share share = {0, U::SUMS};
    warp_sums<U::SUMS, 1, 2>(sums, share);
    float4* const own = reinterpret_cast<float4*>(parts + (warp * 8 + g) * U::SUMS_LINE + share.first);
#pragma unroll
    for (int k = 0; k < U::SUMS / 16; ++k)
        own[k] = make_float4(sums[4 * k], sums[4 * k + 1], sums[4 * k + 2], sums[4 * k + 3]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        largest[half] = largest_of_lanes<1, 4>(largest[half]);
        if (threadIdx.x % 4 == 0) most[(g + 8 * half) * U::WARPS + warp] = largest[half];
    }
}

// Scales of the gradients of the lane's units, over all samples.
template <class U>
__device__ __forceinline__ UnitScales gradient_scales(const unsigned* most) {
    const int g = threadIdx.x % 32 / 4;
    unsigned exponent[2] = {0, 0};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int warp = 0; warp < U::WARPS; ++warp)
            exponent[half] = max(exponent[half], most[(g + 8 * half) * U::WARPS + warp]);
        exponent[half] = scale_exponent(exponent[half]);
    }
    return UnitScales(exponent);
}

// One of the block's numbers of the second layer, w2 (16, OUT_LINE) or b2 (row 16), and of its slots.
template <class U, class Rule>
__device__ __forceinline__ void step_second(Stepper<Rule> stepper, const float* parts) {
    for (int i = threadIdx.x; i < 17 * U::OUT; i += THREADS) {
        const int unit = i / U::OUT, at = unit * U::OUT_LINE + i % U::OUT;
        if (unit < U::own() || unit == 16)
            stepper.step(at, sum_of_parts<U>(parts, unit, i % U::OUT));
    }
}

// Copies the second layer's parameters or one of its slots between the flat array and the block's rows (17, OUT_LINE);
// only the first block stores the bias.
template <class U, bool INTO_ROWS>
__device__ __forceinline__ void move_second(float* flat, float* own, int w_at, int b_at) {
    for (int i = threadIdx.x; i < 17 * U::OUT; i += THREADS) {
        const int unit = i / U::OUT, c = i % U::OUT;
        float* const at = flat + (unit == 16 ? b_at + c : w_at + c * U::HIDDEN + U::first() + unit);
        if (unit < 16 && unit >= U::own()) continue;
        if (INTO_ROWS) own[unit * U::OUT_LINE + c] = *at;
        else if (unit < 16 || U::Exchange::rank() == 0) *at = own[unit * U::OUT_LINE + c];
    }
}
