// Convolution of few channels on tensor cores: y[o, pixel] = sum of w[o, (tap, channel)] x[channel, pixel + tap].
// Launched by `NarrowPass` of narrow.py.
//
// All channels of some rows of an image with their halo fit shared memory, and so do all weights. A block copies both,
// waits once, and then runs a short loop over the taps: with so little work, long unrolled code would wait for its
// own instructions. A line of x is the channels of a pixel, or of a window of a pool's gradient; a line of w is an
// output's weights. Formats, scales: tensor_panels.cuh.
// arch: sm_80, sm_90, sm_100
#include "async.cuh"
#include "four.cuh"
#include "narrow.cuh"
#include "pooled.cuh"

constexpr int WARPS = 18, TILE = 32, OUTPUTS = 16;  // of a block at most; pixels and outputs of a warp's sums
constexpr int ROUNDS = 2;                           // of loads of a thread that are under way together

// x: (n, c, h, w), c <= CHANNELS, a multiple of 8; POOLED: the gradient of a 2 x 2 pool, (n, c, h / 2, w / 2), and
// pool_argmax as it (pooled.cuh). packed: of narrow_pack.cu, o rounded up to WIDTH. y: (n, o, oh, ow); WINDOWS: after
// ReLU and a 2 x 2 pool, (n, o, oh / 2, ow / 2), and argmax as y. relu_mask: null, or as y: y is 0 where relu_mask is
// not above 0. The window is k x k and moves by one pixel. A block has `rows` whole rows of y of an image; x counts
// images, y such rows. by_columns, by_across: inverses (narrow.cuh) of the pixels, or windows, of a row read and
// written.
template <int FORMAT, int CHANNELS, int WIDTH, bool POOLED, bool WINDOWS>
__global__ void __launch_bounds__(32 * WARPS, 1) convolve_narrow(
    const float* __restrict__ x, const unsigned char* __restrict__ pool_argmax, const uint4* __restrict__ packed,
    const float* __restrict__ bias, const float* __restrict__ relu_mask, float* __restrict__ y,
    unsigned char* __restrict__ argmax, int c, int h, int w, int o, int oh, int ow, int k, int padding, int rows,
    int has_relu, unsigned by_columns, unsigned by_across
) {
    using Tile = Lines<FORMAT, CHANNELS>;
    constexpr int COPIES = Tile::COPIES, CHUNKS = Tile::CHUNKS, STRIDE = Tile::STRIDE, STEPS = CHANNELS / 16,
        EACH = 32 / CHUNKS;
    constexpr int HALVES = WIDTH / OUTPUTS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, g = lane / 4, t = lane % 4;
    const int high = WINDOWS ? oh / 2 * 2 : oh, wide = WINDOWS ? ow / 2 * 2 : ow;
    const int image = blockIdx.x, row0 = blockIdx.y * rows, lines = min(rows, high - row0), taps = k * k;
    const Halo halo{c, h, w, row0 - padding, -padding, lines + k - 1, ow + k - 1};

    // Shared memory: the weights with their inverse scales, the bias, and the halo.
    extern __shared__ uint4 shared[];
    const int panel = taps * WIDTH * STRIDE + (SCALED<FORMAT> ? WIDTH / 4 : 0);
    const float* scales = reinterpret_cast<const float*>(shared + taps * WIDTH * STRIDE);
    float* add = reinterpret_cast<float*>(shared + panel);
    const Tile tile{shared + panel + WIDTH / 4};
#pragma unroll 4
    for (int i = threadIdx.x; i < panel; i += blockDim.x) copy_sixteen(shared + i, packed + i, 1);
    commit_copies();
    if (threadIdx.x < WIDTH) add[threadIdx.x] = bias != nullptr && threadIdx.x < o ? bias[threadIdx.x] : 0.0f;

    // A warp copies EACH pixels, or windows, at a time; the lanes of one have eight channels each.
    const int chunk = lane / EACH;
    const auto scale = [&](float(&held)[8]) {  // gives what inverts it
        if constexpr (!SCALED<FORMAT>) return 1.0f;
        const unsigned exponent = shared_exponent<EACH, 32>(largest_of(held));
        scale_all(held, power_of_two(exponent));
        return power_of_two(254u - exponent) * DOWN;
    };
    if constexpr (POOLED) {
        const Divider along{halo.along(), by_columns};
        const long long first = static_cast<long long>(image) * c * (h / 2) * (w / 2);
        const int count = halo.down() * along.by;
#pragma unroll 1
        for (int number0 = EACH * warp; number0 < count; number0 += EACH * warps) {
            WindowGradient window;
            window.read(x + first, pool_argmax + first, halo, along, number0 + lane % EACH, 8 * chunk);
            const float back = scale(window.g);
            const Eight<FORMAT> eight(window.g);
            if (number0 + lane % EACH >= count) continue;
#pragma unroll
            for (int place = 0; place < 4; ++place) {
                const int pixel = window.pixel(halo, place);
                if (pixel < 0) continue;
                unsigned wanted[4];
                window.of_pixel(wanted, place);
                tile.put(eight, wanted, pixel, chunk);
                if (SCALED<FORMAT> && chunk == 0) *tile.inverse_scale(pixel) = back;
            }
        }
    } else {
        const Divider columns{halo.columns, by_columns};
        const float* from = x + static_cast<long long>(image) * c * h * w;
#pragma unroll 1
        for (int pixel0 = EACH * warp; pixel0 < halo.pixels(); pixel0 += ROUNDS * EACH * warps) {
            float held[ROUNDS][8];
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round)
                read_pixel(held[round], from, halo, columns, pixel0 + round * EACH * warps + lane % EACH, 8 * chunk);
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round) {
                const int pixel = pixel0 + round * EACH * warps + lane % EACH;
                const float back = scale(held[round]);
                if (pixel >= halo.pixels()) continue;
                tile.put(Eight<FORMAT>(held[round]), pixel, chunk);
                if (SCALED<FORMAT> && chunk == 0) *tile.inverse_scale(pixel) = back;
            }
        }
    }
    wait_for_copies<0>();
    __syncthreads();

    // A warp's sums: 32 pixels by 16 outputs. Row r of a fragment is pixel r of 16 neighbours; or, of four neighbouring
    // windows, rows 0 to 7 are the upper pixels and 8 to 15 the lower ones: a window is in lanes g and g ^ 1.
    const int count = lines * wide, tiles = (count + TILE - 1) / TILE;
    const Divider across{WINDOWS ? wide / 2 : wide, by_across};
#pragma unroll 1
    for (int item = warp; item < HALVES * tiles; item += warps) {
        const int o0 = item % HALVES * OUTPUTS, pixel0 = item / HALVES * TILE;
        const uint4* read[2];  // for row lane % 16 of each fragment, what the first tap reads
        int row_of[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int r = lane % 16, at = WINDOWS ? min(pixel0 / 4 + 4 * i + r % 8 / 2, count / 4 - 1)
                : min(pixel0 + 16 * i + r, count - 1);
            const int line = across.quotient(at), col = at - line * across.by;
            row_of[i] = WINDOWS ? (2 * line + r / 8) * halo.columns + 2 * col + r % 2 : line * halo.columns + col;
            read[i] = tile.at(0, row_of[i], lane / 16);
        }
        const float* inverse_scale[4];  // of this lane's rows g and g + 8 of each
#pragma unroll
        for (int e = 0; e < 4; ++e)
            inverse_scale[e] = tile.inverse_scale(__shfl_sync(EVERY_LANE, row_of[e / 2], g + e % 2 * 8));
        const uint4* weights = shared + STRIDE * (o0 + lane % 8 + lane / 16 * 8) + lane / 8 % 2;
        const auto advance = [&](int pixels) {
#pragma unroll
            for (int i = 0; i < 2; ++i) read[i] += STRIDE * pixels;
#pragma unroll
            for (int e = 0; e < 4; ++e) inverse_scale[e] += 4 * STRIDE * pixels;
        };

        // Without windows, places of a lane's four pixels of four outputs, and the ReLU mask there, loaded early.
        const long long corner = (static_cast<long long>(image) * o + o0 + 2 * t) * (oh * ow)
            + (row0 * ow + pixel0 + g);
        const auto place = [&](int j, int l, int e) { return corner + ((8 * j + l) * (oh * ow) + 8 * e); };
        const auto there = [&](int j, int l, int e) {
            return o0 + 8 * j + 2 * t + l < o && pixel0 + g + 8 * e < count; };
        float under[2][2][4];
        if constexpr (!WINDOWS)
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int l = 0; l < 2; ++l)
#pragma unroll
                    for (int e = 0; e < 4; ++e)
                        under[j][l][e] = relu_mask == nullptr || !there(j, l, e) ? 1.0f : relu_mask[place(j, l, e)];

        float sum[2][2][4] = {};
#pragma unroll 1
        for (int row = 0; row < k; ++row, advance(halo.columns - k))
#pragma unroll 1
            for (int column = 0; column < k; ++column, advance(1), weights += WIDTH * STRIDE) {
                unsigned a[COPIES][STEPS][2][4], b[COPIES][STEPS][4];
                float back[4];
#pragma unroll
                for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
                    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
                        for (int i = 0; i < 2; ++i) load_matrices(a[copy][step][i], read[i] + copy * CHUNKS + 2 * step);
                        load_matrices(b[copy][step], weights + copy * CHUNKS + 2 * step);
                    }
#pragma unroll
                for (int e = 0; e < 4; ++e) back[e] = SCALED<FORMAT> ? *inverse_scale[e] : 1.0f;
                float part[2][2][4] = {};
#pragma unroll
                for (int step = 0; step < STEPS; ++step)
#pragma unroll
                    // al bh, ah bl, ah bh: the small ones first
                    for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)
#pragma unroll
                        for (int j = 0; j < 2; ++j) {
                            const unsigned right[2] = {b[product == 1][step][2 * j], b[product == 1][step][2 * j + 1]};
#pragma unroll
                            for (int i = 0; i < 2; ++i) mma_step<FORMAT>(part[i][j], a[product == 0][step][i], right);
                        }
#pragma unroll
                for (int i = 0; i < 2; ++i)
#pragma unroll
                    for (int j = 0; j < 2; ++j)
#pragma unroll
                        for (int l = 0; l < 4; ++l)
                            sum[i][j][l] = SCALED<FORMAT> ? fmaf(part[i][j][l], back[2 * i + l / 2], sum[i][j][l])
                                : sum[i][j][l] + part[i][j][l];
            }

        const auto scale_inversene = [&](int output) { return SCALED<FORMAT> ? scales[output] : 1.0f; };
        // of 16 outputs a lane with left pixels takes the first eight, a lane with right pixels the others
        if constexpr (WINDOWS) {
            const int odd = g % 2, first = o0 + 8 * odd + 2 * t, plane = high / 2 * across.by;
            const long long target = (static_cast<long long>(image) * o + first) * plane
                + (row0 / 2 * across.by + pixel0 / 4 + g / 2);
#pragma unroll
            for (int l = 0; l < 2; ++l) {
                const int output = first + l;
                const float scale_of = scale_inversene(output), bias_of = add[output];
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    float four[4];
#pragma unroll
                    for (int half = 0; half < 2; ++half) {  // the upper pixels of the window and the lower ones
                        const float one = sum[i][0][2 * half + l], other = sum[i][1][2 * half + l];
                        const float sent = __shfl_xor_sync(EVERY_LANE, odd ? one : other, 4), own = odd ? other : one;
                        four[2 * half] = fmaf(odd ? sent : own, scale_of, bias_of),
                            four[2 * half + 1] = fmaf(odd ? own : sent, scale_of, bias_of);
                    }
                    if (output < o && pixel0 / 4 + 4 * i + g / 2 < count / 4)
                        store_best(best_of(four), y, argmax, target + (l * plane + 4 * i));
                }
            }
        } else {
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int l = 0; l < 2; ++l) {
                    const int output = o0 + 8 * j + 2 * t + l;
                    const float scale_of = scale_inversene(output), bias_of = add[output];
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const float value = fmaf(sum[e / 2][j][e % 2 * 2 + l], scale_of, bias_of);
                        const bool passes = under[j][l][e] > 0.0f && !(has_relu && value < 0.0f);  // NaN passes
                        if (there(j, l, e)) y[place(j, l, e)] = passes ? value : 0.0f;
                    }
                }
        }
    }
}
