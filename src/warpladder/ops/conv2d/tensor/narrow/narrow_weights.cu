// Weight gradient of a convolution of few channels on tensor cores: part[o, (tap, c)] = sum of dy[o, pixel] x[c,
// pixel + tap].
// Launched by `NarrowWeightGradient` of narrow.py.
//
// A block copies all channels of some rows, of dy and of x with its halo, once; after a pool, dy from the pool's
// gradient and argmax. Both are stored channels last, and ldmatrix transposes them: terms are pixels. A line is the
// numbers of a channel in these rows, which stay in registers until the largest is known. A block has 16 channels of x,
// a warp up to three taps of a row of them, for all outputs, and every GROUPS-th 32 pixels, after which sums leave the
// tensor cores.
// arch: sm_80, sm_90, sm_100
#include "four.cuh"
#include "../channels.cuh"

constexpr int CHANNELS = 16, MOST = 12;  // of a block: channels of x, warps at most

// Warps that have all taps of a k x k window, each up to three of a row; and warps of a block, in such groups.
__device__ constexpr int units_of(int k) { return (k + 2) / 3 * k; }
__device__ constexpr int warps_of(int k) { return MOST / units_of(k) * units_of(k); }

// x: (n, c, h, w), of which a block has 16 channels. dy: (n, o, oh, ow), o <= WIDTH; POOLED: the gradient of a 2 x 2
// pool, (n, o, oh / 2, ow / 2), and pool_argmax as it. c and o are multiples of 8. part: (parts, o, K K, c), as
// finish_weights of gemm_weights.cu reads it. db_part: (parts, o), sums of dy. A tile is `rows` whole rows of an image;
// a block has `depth` tiles. x counts such parts, y 16 channels of x each. bands: tiles of an image. by_wide, by_ow,
// by_windows: inverses (narrow.cuh) of columns of the tile of x, of that of dy, and of windows of a row.
// local memory: correlate_narrow: with 5 x 5 taps, on sm_100, up to six words that a thread reads once in
// a tile are spilled, no sums
template <int FORMAT, int K, int WIDTH, bool POOLED>
__global__ void __launch_bounds__(32 * warps_of(K), 1) correlate_narrow(
    const float* __restrict__ x, const float* __restrict__ dy, const unsigned char* __restrict__ pool_argmax,
    float* __restrict__ part, float* __restrict__ db_part, int n, int c, int h, int w, int o, int oh, int ow,
    int padding, int rows, int depth, int bands, unsigned by_wide, unsigned by_ow, unsigned by_windows
) {
    using OfX = Lines<FORMAT, CHANNELS>;
    using OfY = Lines<FORMAT, WIDTH>;
    // pixels that a warp copies at a time
    constexpr int COPIES = OfX::COPIES, STEPS = 2, EACH_X = 32 / OfX::CHUNKS, EACH_Y = 32 / OfY::CHUNKS;
    // in all 32 pixels a warp: the block's tile has no more
    constexpr int ROUNDS_X = OfX::CHUNKS, ROUNDS_Y = POOLED ? 1 : OfY::CHUNKS;
    constexpr int UNITS = units_of(K), WARPS = warps_of(K), GROUPS = WARPS / UNITS, TAPS = K < 3 ? K : 3,
        TILES = WIDTH / 16, COLUMNS = K * K * CHANNELS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int high = POOLED ? oh / 2 * 2 : oh, wide = ow + K - 1;
    const int first = blockIdx.x * depth, last = min(n * bands, first + depth);

    // Shared memory: both tiles, and in their place afterwards the sums of all groups.
    extern __shared__ uint4 shared[];
    __shared__ unsigned largest[CHANNELS + WIDTH];
    __shared__ float inverse_scale[CHANNELS + WIDTH], bias[WARPS][WIDTH];
    __shared__ unsigned short seen[32 * WARPS];  // the pixel of x's tile that the first tap reads for a pixel of dy's
    const int room_x = (rows + K - 1) * wide, room_y = (rows * ow + DEPTH - 1) / DEPTH * DEPTH;
    const OfX tile_x{shared};
    const OfY tile_y{shared + room_x * OfX::STRIDE};
    const Divider of_wide{wide, by_wide}, of_ow{ow, by_ow}, of_windows{(ow + 1) / 2, by_windows};
    for (int pixel = threadIdx.x; pixel < room_y; pixel += 32 * WARPS)
        seen[pixel] = pixel + of_ow.quotient(pixel) * (K - 1);
    if (threadIdx.x < CHANNELS + WIDTH) largest[threadIdx.x] = 0;
    if (lane < WIDTH) bias[warp][lane] = 0.0f;

    const int first_x = lane / EACH_X * 8, first_y = lane / EACH_Y * 8;  // this lane's channels of x and dy
    const int unit = warp % UNITS, row = unit % K, tap0 = unit / K * TAPS, group = warp / UNITS,
        c0 = blockIdx.y * CHANNELS;
    part += static_cast<long long>(blockIdx.x) * (o * K * K * c);
    for (int tile = first; tile < last; ++tile) {
        const int image = tile / bands, row0 = (tile - image * bands) * rows, lines = min(rows, high - row0),
            count = lines * ow;
        const Halo of_x{c - c0, h, w, row0 - padding, -padding, lines + K - 1, wide},
            of_y{o, oh, ow, row0, 0, lines, ow};
        __syncthreads();  // all threads have read the tile before
        float held_x[ROUNDS_X][8], held_y[ROUNDS_Y][8];
        WindowGradient window;
        const float* from_x = x + (static_cast<long long>(image) * c + c0) * h * w;
#pragma unroll
        for (int round = 0; round < ROUNDS_X; ++round)
            read_pixel(held_x[round], from_x, of_x, of_wide, EACH_X * (warp + round * WARPS) + lane % EACH_X, first_x);
        if constexpr (POOLED) {
            const long long from = static_cast<long long>(image) * o * (oh / 2) * (ow / 2);
            window.read(dy + from, pool_argmax + from, of_y, of_windows, EACH_Y * warp + lane % EACH_Y, first_y);
#pragma unroll
            for (int i = 0; i < 8; ++i) held_y[0][i] = window.g[i];
        } else {
#pragma unroll
            for (int round = 0; round < ROUNDS_Y; ++round)
                read_pixel(held_y[round], dy + static_cast<long long>(image) * o * oh * ow, of_y, of_ow,
                    EACH_Y * (warp + round * WARPS) + lane % EACH_Y, first_y);
        }
        float added[8];
        const int channel_y = sums_of_channels<EACH_Y>(held_y, added);
        if (lane % EACH_Y < 8) bias[warp][first_y + channel_y] += added[0];
        if constexpr (SCALED<FORMAT>) {
            largest_of_channels<EACH_X>(held_x, largest + first_x);
            largest_of_channels<EACH_Y>(held_y, largest + CHANNELS + first_y);
            __syncthreads();
            if (threadIdx.x < CHANNELS + WIDTH)
                inverse_scale[threadIdx.x] = power_of_two(254u - scale_exponent(largest[threadIdx.x]))
                    * (threadIdx.x < CHANNELS ? DOWN : UP);
        }
        const Scales<FORMAT> scales_x(largest + first_x);
#pragma unroll
        for (int round = 0; round < ROUNDS_X; ++round) {
            const int pixel = EACH_X * (warp + round * WARPS) + lane % EACH_X;
            if (pixel < of_x.pixels()) tile_x.put(scales_x.of(held_x[round]), pixel, first_x / 8);
        }
        const Scales<FORMAT> scales_y(largest + CHANNELS + first_y);
        if constexpr (POOLED) {
            const Eight<FORMAT> eight = scales_y.of(window.g);
            if (EACH_Y * warp + lane % EACH_Y < of_y.down() * of_y.along())
#pragma unroll
                for (int place = 0; place < 4; ++place) {
                    const int pixel = window.pixel(of_y, place);
                    unsigned wanted[4];
                    window.of_pixel(wanted, place);
                    if (pixel >= 0) tile_y.put(eight, wanted, pixel, first_y / 8);
                }
            const float zeros[8] = {};
            const int beyond = count + threadIdx.x / OfY::CHUNKS;  // zeros up to whole 32 pixels
            if (beyond < (count + DEPTH - 1) / DEPTH * DEPTH)
                tile_y.put(Eight<FORMAT>(zeros), beyond, threadIdx.x % OfY::CHUNKS);
        } else {
#pragma unroll
            for (int round = 0; round < ROUNDS_Y; ++round) {
                const int pixel = EACH_Y * (warp + round * WARPS) + lane % EACH_Y;
                if (pixel < room_y) tile_y.put(scales_y.of(held_y[round]), pixel, first_y / 8);
            }
        }
        __syncthreads();
        // for the next tile, whose first barrier comes before it is used
        if (threadIdx.x < CHANNELS + WIDTH) largest[threadIdx.x] = 0;

        float sum[TAPS][TILES][2][4] = {};
#pragma unroll 1
        for (int term = DEPTH * group; term < count; term += DEPTH * GROUPS) {
            unsigned a[COPIES][STEPS][TILES][4];
            int row_x[STEPS];
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                const int pixel = term + 16 * step + lane % 8 + lane / 16 * 8, under = term + 16 * step + lane % 16;
                row_x[step] = (under < count ? seen[under] : 0) + row * wide + tap0;  // dy is 0 beyond the last pixel
#pragma unroll
                for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
                    for (int i = 0; i < TILES; ++i)
                        load_matrices_turned(a[copy][step][i], tile_y.at(copy, pixel, 2 * i + lane / 8 % 2));
            }
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap) {
                if (K % TAPS > 0 && tap0 + tap >= K) continue;
                float parts[TILES][2][4] = {};
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
                    unsigned b[COPIES][4];
#pragma unroll
                    for (int copy = 0; copy < COPIES; ++copy)
                        load_matrices_turned(b[copy], tile_x.at(copy, row_x[step] + tap, lane / 16));
#pragma unroll
                    // al bh, ah bl, ah bh: the small ones first
                    for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)
#pragma unroll
                        for (int j = 0; j < 2; ++j) {
                            const unsigned right[2] = {b[product == 1][2 * j], b[product == 1][2 * j + 1]};
#pragma unroll
                            for (int i = 0; i < TILES; ++i)
                                mma_step<FORMAT>(parts[i][j], a[product == 0][step][i], right);
                        }
                }
#pragma unroll
                for (int i = 0; i < TILES; ++i)
#pragma unroll
                    for (int j = 0; j < 2; ++j)
#pragma unroll
                        for (int l = 0; l < 4; ++l) sum[tap][i][j][l] += parts[i][j][l];
            }
        }

        // The tile's scales are inverted, and the groups' sums added up in a fixed order.
        __syncthreads();  // the tile has been read
        float* sums = reinterpret_cast<float*>(shared);  // (GROUPS, WIDTH, COLUMNS)
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap)
#pragma unroll
            for (int i = 0; i < TILES; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j)
#pragma unroll
                    for (int l = 0; l < 4; l += 2) {
                        if (K % TAPS > 0 && tap0 + tap >= K) continue;
                        const int output = 16 * i + 4 * l + g, channel = 8 * j + 2 * t;
                        float2 pair = make_float2(sum[tap][i][j][l], sum[tap][i][j][l + 1]);
                        if constexpr (SCALED<FORMAT>) {
                            const float back = inverse_scale[CHANNELS + output];
                            pair.x = pair.x * inverse_scale[channel] * back,
                                pair.y = pair.y * inverse_scale[channel + 1] * back;
                        }
                        *reinterpret_cast<float2*>(sums + (group * WIDTH + output) * COLUMNS + (row * K + tap0 + tap)
                            * CHANNELS + channel) = pair;
                    }
        __syncthreads();
        // four channels of an output and tap
        for (int i = threadIdx.x; i < o * K * K * (CHANNELS / 4); i += 32 * WARPS) {
            const int line = i / (CHANNELS / 4), channel = i % (CHANNELS / 4) * 4;
            if (c0 + channel >= c) continue;
            float4* to = reinterpret_cast<float4*>(part + line * c + c0 + channel);
            float4 value = tile == first ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : *to;
#pragma unroll
            for (int each = 0; each < GROUPS; ++each)
                value = value + *reinterpret_cast<const float4*>(sums + each * WIDTH * COLUMNS + line * CHANNELS
                    + channel);
            *to = value;
        }
    }
    if (blockIdx.y == 0 && threadIdx.x < o) {
        float value = 0.0f;
        for (int each = 0; each < WARPS; ++each) value += bias[each][threadIdx.x];
        db_part[blockIdx.x * o + threadIdx.x] = value;
    }
}
