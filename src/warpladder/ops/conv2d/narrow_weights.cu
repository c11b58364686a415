// The weight gradient of a convolution of few channels on tensor cores: part[o, (tap, c)] = sum over a part of the pixels of dy[o, pixel] x[c, what the tap reads].
//
// A block brings all channels of some rows, of dy and of x with its halo, once; where a pool follows, dy straight from the pool's gradient and winners. Both lie
// channels last, and ldmatrix turns them: terms are pixels. A line is a channel's numbers in the block's rows: they stay in registers until its largest is known.
// A warp has all outputs by 16 channels by a row of taps, and every GROUPS-th 32 pixels; sums leave the tensor cores after 32 (tensor_panels.cuh).
// arch: sm_80, sm_90, sm_100
#include "gemm_pixels.cuh"
#include "narrow.cuh"

constexpr int MOST = 384;  // threads of a block at most

// The largest of each of eight channels' numbers, as bits, over the EACH lanes that have these channels, goes to largest[0] to [7]. A lane keeps half of what it
// has at each step and gives the other half away.
template <int EACH>
__device__ __forceinline__ void largest_of_channels(unsigned (&mine)[8], unsigned* largest) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int bit = 1; bit < EACH; bit *= 2)
#pragma unroll
        for (int i = 0; i < max(1, 4 / bit); ++i) {
            const int half = 4 / bit;  // 0 once a lane has one channel left
            const bool upper = half > 0 && lane & bit;
            const unsigned given = upper ? mine[i] : mine[i + half], kept = upper ? mine[i + half] : mine[i];
            mine[i] = max(kept, __shfl_xor_sync(EVERY_LANE, given, bit));
        }
    const int channel = lane % 2 * 4 + lane / 2 % 2 * 2 + lane / 4 % 2;
    if (lane % EACH < 8) atomicMax(largest + channel, mine[0]);
}

// Eight channels of a pixel to their place in a tile, scaled.
template <int FORMAT, class To>
__device__ __forceinline__ void put_scaled(const To& to, float (&held)[8], const float (&scale)[8], int pixel, int first) {
    if constexpr (SCALED<FORMAT>)
#pragma unroll
        for (int i = 0; i < 8; ++i) held[i] *= scale[i];
    to.put(held, pixel, first / 8);
}

// x: (n, c, h, w), c <= CHANNELS. dy: (n, o, oh, ow), o <= WIDTH; POOLED: what a 2 x 2 pool sends back, (n, o, oh / 2, ow / 2), and `won` of that shape.
// part: (parts, o, K K padded_channels(c)), as finish_weights of gemm_weights.cu reads it. db_part: (parts, o), sums of dy.
// A tile is `rows` whole rows of an image; a block has `depth` tiles, one after another.
template <int FORMAT, int K, int CHANNELS, int WIDTH, bool POOLED>
__global__ void __launch_bounds__(MOST, 1) correlate_narrow(
    const float* __restrict__ x, const float* __restrict__ dy, const unsigned char* __restrict__ won, float* __restrict__ part,
    float* __restrict__ db_part, int n, int c, int h, int w, int o, int oh, int ow, int padding, int rows, int depth
) {
    using OfX = Rows<FORMAT, CHANNELS, EVERY_SECOND>;
    using OfY = Rows<FORMAT, WIDTH, EVERY_SECOND>;
    constexpr int COPIES = OfX::COPIES, STEPS = 2, EACH_X = 32 / OfX::CHUNKS, EACH_Y = 32 / OfY::CHUNKS;  // pixels that a warp brings at a time
    constexpr int ROUNDS_X = OfX::CHUNKS, ROUNDS_Y = POOLED ? 1 : OfY::CHUNKS;  // in all 32 pixels a warp: the block's tile has no more
    constexpr int UNITS = K * CHANNELS / 16, TILES = WIDTH / 16, COLUMNS = K * K * CHANNELS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, g = lane / 4, t = lane % 4;
    const int high = POOLED ? oh / 2 * 2 : oh, bands = (high + rows - 1) / rows, wide = ow + K - 1;
    const int first = blockIdx.x * depth, last = min(n * bands, first + depth);

    // Shared memory: both tiles, where a pixel's first tap reads, and in the end the sums of all groups.
    extern __shared__ uint4 shared[];
    __shared__ unsigned largest[CHANNELS + WIDTH];
    __shared__ float undo[CHANNELS + WIDTH], bias[MOST / 32][WIDTH];
    const int room_x = (rows + K - 1) * wide, room_y = (rows * ow + DEPTH - 1) / DEPTH * DEPTH;
    const OfX tile_x{shared, room_x};
    const OfY tile_y{shared + COPIES * room_x * OfX::CHUNKS, room_y};
    unsigned short* seen = reinterpret_cast<unsigned short*>(tile_y.chunks + COPIES * room_y * OfY::CHUNKS);
    for (int pixel = threadIdx.x; pixel < room_y; pixel += blockDim.x) seen[pixel] = pixel / ow * wide + pixel % ow;
    if (threadIdx.x < CHANNELS + WIDTH) largest[threadIdx.x] = 0;

    const int first_x = lane / EACH_X * 8, first_y = lane / EACH_Y * 8;  // this lane's channels of x and dy
    const int unit = warp % UNITS, row = unit % K, part_c = unit / K * 16, group = warp / UNITS, groups = warps / UNITS;
    float sum[K][TILES][2][4] = {}, added[8] = {};
    for (int tile = first; tile < last; ++tile) {
        const int image = tile / bands, row0 = tile % bands * rows, lines = min(rows, high - row0), count = lines * ow;
        const Halo of_x{c, h, w, row0 - padding, -padding, lines + K - 1, wide}, of_y{o, oh, ow, row0, 0, lines, ow};
        __syncthreads();  // everybody has read the tile before
        float held_x[ROUNDS_X][8], held_y[ROUNDS_Y][8];
        WindowGradient window;
#pragma unroll
        for (int round = 0; round < ROUNDS_X; ++round)
            read_pixel(held_x[round], x + static_cast<long long>(image) * c * h * w, of_x, EACH_X * (warp + round * warps) + lane % EACH_X, first_x);
        if constexpr (POOLED) {
            const long long from = static_cast<long long>(image) * o * (oh / 2) * (ow / 2);
            window.read(dy + from, won + from, of_y, EACH_Y * warp + lane % EACH_Y, first_y);
#pragma unroll
            for (int i = 0; i < 8; ++i) held_y[0][i] = window.won[i] < 4 ? window.g[i] : 0.0f;
        } else {
#pragma unroll
            for (int round = 0; round < ROUNDS_Y; ++round)
                read_pixel(held_y[round], dy + static_cast<long long>(image) * o * oh * ow, of_y, EACH_Y * (warp + round * warps) + lane % EACH_Y, first_y);
        }
#pragma unroll
        for (int round = 0; round < ROUNDS_Y; ++round)
#pragma unroll
            for (int i = 0; i < 8; ++i) added[i] += held_y[round][i];
        float scale_x[8], scale_y[8];
        if constexpr (SCALED<FORMAT>) {
            unsigned most_x[8] = {}, most_y[8] = {};
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int round = 0; round < ROUNDS_X; ++round) most_x[i] = max(most_x[i], __float_as_uint(held_x[round][i]) & 0x7fffffffu);
#pragma unroll
                for (int round = 0; round < ROUNDS_Y; ++round) most_y[i] = max(most_y[i], __float_as_uint(held_y[round][i]) & 0x7fffffffu);
            }
            largest_of_channels<EACH_X>(most_x, largest + first_x);
            largest_of_channels<EACH_Y>(most_y, largest + CHANNELS + first_y);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                scale_x[i] = power_of_two(scale_exponent(largest[first_x + i]));
                scale_y[i] = power_of_two(scale_exponent(largest[CHANNELS + first_y + i]));
            }
            if (threadIdx.x < CHANNELS + WIDTH)
                undo[threadIdx.x] = power_of_two(254u - scale_exponent(largest[threadIdx.x])) * (threadIdx.x < CHANNELS ? DOWN : UP);
        }
#pragma unroll
        for (int round = 0; round < ROUNDS_X; ++round) {
            const int pixel = EACH_X * (warp + round * warps) + lane % EACH_X;
            if (pixel < of_x.pixels()) put_scaled<FORMAT>(tile_x, held_x[round], scale_x, pixel, first_x);
        }
        if constexpr (POOLED) {
            if (EACH_Y * warp + lane % EACH_Y < of_y.down() * of_y.along())
#pragma unroll
                for (int place = 0; place < 4; ++place) {
                    const int pixel = window.pixel(of_y, place);
                    window.put_out(held_y[0], place);
                    if (pixel >= 0) put_scaled<FORMAT>(tile_y, held_y[0], scale_y, pixel, first_y);
                }
            const int chunk = threadIdx.x % OfY::CHUNKS, beyond = count + threadIdx.x / OfY::CHUNKS;  // zeros up to whole 32 pixels
            const float zeros[8] = {};
            if (beyond < (count + DEPTH - 1) / DEPTH * DEPTH) tile_y.put(zeros, beyond, chunk);
        } else {
#pragma unroll
            for (int round = 0; round < ROUNDS_Y; ++round) {
                const int pixel = EACH_Y * (warp + round * warps) + lane % EACH_Y;
                if (pixel < room_y) put_scaled<FORMAT>(tile_y, held_y[round], scale_y, pixel, first_y);
            }
        }
        __syncthreads();
        if (threadIdx.x < CHANNELS + WIDTH) largest[threadIdx.x] = 0;  // for the next tile, whose first barrier comes before it is used

        float back_y[TILES][2], back_x[2][2];  // of this lane's rows and columns
#pragma unroll
        for (int e = 0; e < 2; ++e) {
#pragma unroll
            for (int i = 0; i < TILES; ++i) back_y[i][e] = SCALED<FORMAT> ? undo[CHANNELS + 16 * i + 8 * e + g] : 1.0f;
#pragma unroll
            for (int j = 0; j < 2; ++j) back_x[j][e] = SCALED<FORMAT> ? undo[part_c + 8 * j + 2 * t + e] : 1.0f;
        }
#pragma unroll 1
        for (int term = DEPTH * group; term < count; term += DEPTH * groups) {
            unsigned a[COPIES][STEPS][TILES][4];
            int row_x[STEPS];
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                const int pixel = term + 16 * step + lane % 8 + lane / 16 * 8;
                row_x[step] = (pixel < count ? seen[pixel] : 0) + row * wide;  // dy is 0 beyond the last pixel
#pragma unroll
                for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
                    for (int i = 0; i < TILES; ++i) load_matrices_turned(a[copy][step][i], tile_y.at(copy, pixel, 2 * i + lane / 8 % 2));
            }
#pragma unroll
            for (int tap = 0; tap < K; ++tap) {
                float parts[TILES][2][4] = {};
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
                    unsigned b[COPIES][4];
#pragma unroll
                    for (int copy = 0; copy < COPIES; ++copy) load_matrices_turned(b[copy], tile_x.at(copy, row_x[step] + tap, part_c / 8 + lane / 8 % 2));
#pragma unroll
                    for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)  // al bh, ah bl, ah bh: the small ones first
#pragma unroll
                        for (int j = 0; j < 2; ++j) {
                            const unsigned right[2] = {b[product == 1][j], b[product == 1][j + 2]};
#pragma unroll
                            for (int i = 0; i < TILES; ++i) mma_step<FORMAT>(parts[i][j], a[product == 0][step][i], right);
                        }
                }
#pragma unroll
                for (int i = 0; i < TILES; ++i)
#pragma unroll
                    for (int j = 0; j < 2; ++j)
#pragma unroll
                        for (int l = 0; l < 4; ++l) {
                            float& to = sum[tap][i][j][l];
                            to = SCALED<FORMAT> ? fmaf(parts[i][j][l] * back_x[j][l % 2], back_y[i][l / 2], to) : to + parts[i][j][l];
                        }
            }
        }
    }

    // The groups' sums, and the lanes' of dy, are added up in a fixed order.
    __syncthreads();
    float* sums = reinterpret_cast<float*>(shared);  // (groups, WIDTH, COLUMNS)
#pragma unroll
    for (int tap = 0; tap < K; ++tap)
#pragma unroll
        for (int i = 0; i < TILES; ++i)
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    *reinterpret_cast<float2*>(sums + (group * WIDTH + 16 * i + 8 * e + g) * COLUMNS + (row * K + tap) * CHANNELS + part_c + 8 * j + 2 * t) =
                        make_float2(sum[tap][i][j][2 * e], sum[tap][i][j][2 * e + 1]);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int offset = 1; offset < EACH_Y; offset *= 2) added[i] += __shfl_xor_sync(EVERY_LANE, added[i], offset);
        if (lane % EACH_Y == 0) bias[warp][first_y + i] = added[i];
    }
    __syncthreads();
    const int padded = padded_channels(c), all = o * K * K * padded;
    for (int i = threadIdx.x; i < all; i += blockDim.x) {
        const int channel = channel_of(i % padded, c), from = (i / (K * K * padded)) * COLUMNS + i / padded % (K * K) * CHANNELS + channel;
        float value = 0.0f;
        for (int each = 0; each < groups; ++each) value += sums[each * WIDTH * COLUMNS + from];
        part[static_cast<long long>(blockIdx.x) * all + i] = value;
    }
    if (threadIdx.x < o) {
        float value = 0.0f;
        for (int each = 0; each < warps; ++each) value += bias[each][threadIdx.x];
        db_part[blockIdx.x * o + threadIdx.x] = value;
    }
}
