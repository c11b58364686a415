// Weight gradient of a convolution of few pixels on tensor cores, with the bias's gradient and their updates.
// Launched by `FewPixelsGradient` of few_pixels.py.
//
// A block has 32 channels of the image that is read pixel by pixel and 16 of the one that is read through the window,
// with all taps, and every so many-th tile of 64 pixels. Both are stored channels last, and ldmatrix transposes them:
// terms are pixels. A line is a channel's numbers in a tile: they stay in registers until its largest is known. Sums
// leave the tensor cores after 32 pixels. The blocks of a cluster have the same channels and share the tiles; each then
// adds a part of the sums from the shared memory of all, in the order of the tiles, and finishes it.
// arch: sm_90, sm_100
// instance: correlate_few_pixels<SPLIT, WINDOW, true>; correlate_few_pixels<SPLIT, GATHERED, false>
// local memory: correlate_few_pixels: on sm_100, after an upsampling in fp32, a thread has 8 bytes besides its sums
// that no register is left for; sm_90 has room
#include "async.cuh"
#include "few_pixels.cuh"
#include "parameter.cuh"
#include "sync.cuh"

constexpr int STILL = 32, SEEN = CHANNELS;  // channels of a block

// ROUNDS turns of a block at the pixels of an image: a thread has 8 channels in each, of 8 CHUNKS.
template <int CHUNKS, int ROUNDS>
struct Brought {
    static constexpr int EACH = 32 / CHUNKS, TURN = GROUP / CHUNKS;  // pixels of a warp in a turn, and of the block
    float number[ROUNDS][8];

    __device__ __forceinline__ static int chunk() { return threadIdx.x % 32 / EACH; }
    __device__ __forceinline__ static int pixel(int round) {
        return round * TURN + threadIdx.x / 32 * EACH + threadIdx.x % EACH; }

    // largest: of each channel, as bits, in shared memory.
    __device__ __forceinline__ void find_largest(unsigned* largest) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            unsigned mine = 0;
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round) mine = max(mine, bits_of_size(number[round][i]));
            mine = largest_of_lanes<1, EACH>(mine);
            if (threadIdx.x % EACH == 0) atomicMax(largest + 8 * chunk() + i, mine);
        }
    }
    __device__ __forceinline__ void scale(const unsigned* largest) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float by = power_of_two(scale_exponent(largest[8 * chunk() + i]));
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round) number[round][i] *= by;
        }
    }
};

// Sum of a channel of dy over all images, by a warp; POOLED: over windows with an argmax. plane: numbers of a channel.
template <bool POOLED>
__device__ __forceinline__ float channel_sum(const float* dy, const unsigned char* pool_argmax, int n, int channels,
    int channel, int plane) {
    float sum = 0.0f;
    for (int image = 0; image < n; ++image) {
        const int from = (image * channels + channel) * plane;  // a batch of few pixels has less than 2^31 numbers
#pragma unroll 4
        for (int i = threadIdx.x % 32; i < plane; i += 32) {
            const float number = dy[from + i];
            sum += !POOLED || pool_argmax[from + i] < 4 ? number : 0.0f;
        }
    }
    return warp_sum(sum);
}

// WINDOW: `still` is dy (n, m, high, wide), POOLED as the gradient of a 2 x 2 pool with its argmax, `seen` x (n, c,
// high, wide); dw is (m, c, 3, 3). GATHERED, after an upsampling by 2: `still` is x (n, m, high, wide) and `seen` dy
// (n, c, 2 high, 2 wide); dw is (c, m, 3, 3), from sums of the folded kernel. db: of dy's channels. x is the cluster; y
// counts 32 channels of still, z 16 of seen. A tile has rows x columns pixels of still; across, tiles, by_..: as in
// few_pixels.cu. stored_from: words of shared memory before the parameters that this block updates.
template <int FORMAT, int KIND, bool POOLED>
__global__ void __launch_bounds__(GROUP, 1) correlate_few_pixels(
    const float* __restrict__ still, const unsigned char* __restrict__ pool_argmax, const float* __restrict__ seen,
    float* __restrict__ dw, float* __restrict__ db, int n, int m, int c, int high, int wide, int rows, int columns,
    int tiles, int across, unsigned by_tiles, unsigned by_across, unsigned by_columns, unsigned by_wide,
    int stored_from, float* grads, float* params, float* momentum_buffer, float rate, float momentum, int nesterov,
    float decay, float limit
) {
    using OfStill = Lines<FORMAT, STILL>;
    using OfSeen = Lines<FORMAT, SEEN>;
    constexpr int SIDE = KIND == WINDOW ? 3 : 4, TAPS = SIDE * SIDE, STEP = TileHalo<KIND>::STEP,
        COPIES = OfSeen::COPIES;
    constexpr int ROUNDS = KIND == WINDOW ? 2 : 6;  // in which a block brings the largest halo
    const Flat flat = {grads, params, momentum_buffer, {rate, momentum, nesterov, decay}, limit};
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int rank = cluster_rank(), size = cluster_size(), m0 = blockIdx.y * STILL, c0 = blockIdx.z * SEEN,
        first_m = warp % 2 * 16, first_c = warp / 2 * 8;
    const TileHalo<KIND> halo{rows, columns};
    const Divider of_columns{columns, by_columns}, of_wide{halo.wide(), by_wide};

    // Shared memory: both tiles, and in their place afterwards the sums.
    extern __shared__ uint4 shared[];
    __shared__ unsigned largest[2][STILL + SEEN];
    __shared__ float inverse_scale[STILL + SEEN];
    const OfStill tile_still{shared};
    const OfSeen tile_seen{shared + PIXELS * OfStill::STRIDE};
    if (threadIdx.x < STILL + SEEN) largest[0][threadIdx.x] = 0;
    int seen_of[PIXELS / 16];  // what the first tap reads for this lane's pixel of 16 neighbours
#pragma unroll
    for (int step = 0; step < PIXELS / 16; ++step) {
        const int number = min(16 * step + lane % 16, rows * columns - 1), row = of_columns.quotient(number);
        seen_of[step] = halo.seen(row, number - row * columns);
    }

    // Rows of dw: an output's kernels of the block's inputs are neighbours. This block finishes numbers first to last -
    // 1 of its cluster, and each thread requests its parameters first.
    constexpr int INPUTS = KIND == WINDOW ? SEEN : STILL, OUTPUTS = KIND == WINDOW ? STILL : SEEN,
        PARAMETERS = OUTPUTS * INPUTS * 9, TOGETHER = 3;
    const int o0 = KIND == WINDOW ? m0 : c0, outputs = KIND == WINDOW ? m : c, i0 = KIND == WINDOW ? c0 : m0,
        inputs = KIND == WINDOW ? c : m;
    const int share = (PARAMETERS + size - 1) / size, first = rank * share, last = min(PARAMETERS, first + share);
    const auto gradient_of = [&](int number) -> float* {
        const int output = number / (INPUTS * 9), within = number % (INPUTS * 9);
        const bool there = number < last && o0 + output < outputs && i0 + within / 9 < inputs;
        return there ? dw + (static_cast<long long>(o0 + output) * inputs + i0) * 9 + within : nullptr;
    };
    float* stored = reinterpret_cast<float*>(shared) + stored_from;
    if (params != nullptr)
#pragma unroll 1
        for (int number = first + threadIdx.x; number < last; number += GROUP) {
            const float* to = gradient_of(number);
            copy_float(stored + number - first, params + (to == nullptr ? 0 : to - grads), to != nullptr);
            if (momentum != 0.0f)
                copy_float(stored + PARAMETERS + number - first, momentum_buffer + (to == nullptr ? 0 : to - grads),
                to != nullptr);
        }
    commit_copies();

    float sum[TAPS][4] = {};
#pragma unroll 1
    for (int number = rank, turn = 0; number < n * tiles; number += size, turn = 1 - turn) {
        const int image = Divider{tiles, by_tiles}.quotient(number), tile = number - image * tiles;
        const int tile_row = Divider{across, by_across}.quotient(tile), row0 = tile_row * rows,
            column0 = (tile - tile_row * across) * columns;
        const Source<POOLED> from_still(still, pool_argmax, image, m, high, wide);
        const Source<false> from_seen(seen, nullptr, image, c, STEP * high, STEP * wide);
        Brought<4, 2> of_still;
        Brought<2, ROUNDS> of_seen;
#pragma unroll
        for (int round = 0; round < 2; ++round) {
            const int pixel = of_still.pixel(round), row = of_columns.quotient(pixel), column = pixel - row * columns,
                first = m0 + 8 * of_still.chunk();
            from_still.read(of_still.number[round], row0 + row, column0 + column, first, pixel < rows * columns
                ? m - first : 0);
        }
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const int pixel = of_seen.pixel(round), row = of_wide.quotient(pixel), column = pixel - row * of_wide.by,
                first = c0 + 8 * of_seen.chunk();
            from_seen.read(of_seen.number[round], STEP * row0 - 1 + row, STEP * column0 - 1 + column, first,
                pixel < halo.pixels() ? c - first : 0);
        }
        if (number == rank) __syncthreads();  // the largest are 0
        unsigned* most = largest[turn];
        if constexpr (SCALED<FORMAT>) {
            of_still.find_largest(most);
            of_seen.find_largest(most + STILL);
        }
        __syncthreads();  // the largest are known, and all threads have read the tiles before
        if constexpr (SCALED<FORMAT>) {
            if (threadIdx.x < STILL + SEEN) {
                inverse_scale[threadIdx.x] = power_of_two(254u - scale_exponent(most[threadIdx.x]))
                    * (threadIdx.x < STILL ? DOWN : UP);
                largest[1 - turn][threadIdx.x] = 0;
            }
            of_still.scale(most);
            of_seen.scale(most + STILL);
        }
#pragma unroll
        for (int round = 0; round < 2; ++round)
            tile_still.put(Eight<FORMAT>(of_still.number[round]), of_still.pixel(round), of_still.chunk());
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const int pixel = of_seen.pixel(round), row = of_wide.quotient(pixel);
            if (pixel < halo.pixels())
                tile_seen.put(Eight<FORMAT>(of_seen.number[round]), halo.place(row, pixel - row * of_wide.by),
                of_seen.chunk());
        }
        __syncthreads();

        const float down[2] = {SCALED<FORMAT> ? inverse_scale[first_m + g] : 1.0f, SCALED<FORMAT>
            ? inverse_scale[first_m + g + 8] : 1.0f};
        const float up[2] = {SCALED<FORMAT> ? inverse_scale[STILL + first_c + 2 * t] : 1.0f, SCALED<FORMAT>
            ? inverse_scale[STILL + first_c + 2 * t + 1] : 1.0f};
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {  // 32 pixels each
            const OfSeen first_tap[2] = {{tile_seen.chunks + (half ? seen_of[2] : seen_of[0]) * OfSeen::STRIDE},
                {tile_seen.chunks + (half ? seen_of[3] : seen_of[1]) * OfSeen::STRIDE}};
            unsigned a[COPIES][2][4];
#pragma unroll
            for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
                for (int step = 0; step < 2; ++step)
                    load_matrices_turned(a[copy][step],
                        tile_still.at(copy, 32 * half + 16 * step + lane / 16 * 8 + lane % 8,
                        first_m / 8 + lane / 8 % 2));
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap) {
                const int i = tap / SIDE, j = tap % SIDE;
                const int offset = KIND == GATHERED ? i * halo.wide() + j % 2 * (columns + 1) + j / 2
                    : i * halo.wide() + j;
                float part[4] = {};
#pragma unroll
                for (int step = 0; step < 2; ++step) {
                    unsigned b[2 * COPIES];
                    load_matrices_turned(b, first_tap[step].at(lane / 16 % COPIES, offset, first_c / 8));
#pragma unroll
                    // al bh, ah bl, ah bh: the small ones first
                    for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product) {
                        const int second = product == 1 ? 2 * (COPIES - 1) : 0;
                        const unsigned right[2] = {b[second], b[second + 1]};
                        mma_step<FORMAT>(part, a[product == 0 ? COPIES - 1 : 0][step], right);
                    }
                }
#pragma unroll
                for (int l = 0; l < 4; ++l)
                    sum[tap][l] = SCALED<FORMAT> ? fmaf(part[l] * down[l / 2], up[l % 2], sum[tap][l])
                        : sum[tap][l] + part[l];
            }
        }
    }

    // The sums of (still's channel, seen's channel, tap).
    float* all = reinterpret_cast<float*>(shared);
    constexpr int PITCH = SEEN * TAPS + 1;
    __syncthreads();
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap)
#pragma unroll
        for (int l = 0; l < 4; ++l)
            all[(first_m + g + l / 2 * 8) * PITCH + (first_c + 2 * t + l % 2) * TAPS + tap] = sum[tap][l];
    wait_for_copies<0>();
    cluster_sync();

#pragma unroll 1
    for (int from = first + threadIdx.x; from < last; from += GROUP * TOGETHER) {
        float found[TOGETHER] = {};
#pragma unroll 1
        for (int block = 0; block < size; ++block) {
            const float* theirs = shared_of(all, block);
#pragma unroll
            for (int e = 0; e < TOGETHER; ++e) {
                const int number = min(from + e * GROUP, last - 1), output = number / (INPUTS * 9),
                    input = number % (INPUTS * 9) / 9, tap = number % 9;
                const float* of = theirs + (KIND == WINDOW ? output * PITCH + input * TAPS + tap
                    : input * PITCH + output * TAPS + (2 - tap / 3) * 4 + 2 - tap % 3);
                found[e] += KIND == WINDOW ? of[0] : ((of[0] + of[1]) + of[4]) + of[5];
            }
        }
#pragma unroll
        for (int e = 0; e < TOGETHER; ++e) {
            const int number = from + e * GROUP;
            float* to = gradient_of(number);
            if (to == nullptr) continue;
            Parameter own(flat, nullptr);
            if (params != nullptr)
                own.w = stored[number - first], own.v = momentum != 0.0f ? stored[PARAMETERS + number - first] : 0.0f;
            own.finish(flat, to, found[e]);
        }
    }
    // The bias: the blocks that have dy's channels first, each warp some of them.
    if ((KIND == WINDOW ? blockIdx.z : blockIdx.y) == 0)
#pragma unroll 1
        for (int output = o0 + warp + GROUP / 32 * rank; output < min(outputs, o0 + OUTPUTS);
            output += GROUP / 32 * size) {
            Parameter own(flat, lane == 0 ? db + output : nullptr);
            const int plane = KIND == WINDOW ? (POOLED ? (high / 2) * (wide / 2) : high * wide) : 4 * high * wide;
            const float found = channel_sum<POOLED>(KIND == WINDOW ? still : seen, pool_argmax, n, outputs, output,
                plane);
            if (lane == 0) own.finish(flat, db + output, found);
        }
    __syncwarp();    // the barrier needs whole warps
    cluster_sync();  // no block leaves while others read its sums
}
