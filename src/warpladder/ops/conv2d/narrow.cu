// Convolutions of few channels on tensor cores: y[o, pixel] = sum over (tap, channel) of w[o, (tap, channel)] x[channel, what the tap reads for the pixel].
//
// All channels of some rows of an image with their halo fit shared memory, and so do all weights. So a block brings both once, waits once, and then runs
// a short loop over the taps: with so little to do, code that is long because it is unrolled waits for itself to arrive.
// A line of x is a pixel's channels, a line of w all that an output sums over. Formats and scales: tensor_panels.cuh; sums leave after each tap.
// arch: sm_80, sm_90, sm_100
#include "async.cuh"
#include "four.cuh"
#include "narrow.cuh"
#include "pooled.cuh"

enum { PLAIN = 0, RECTIFY = 1, POOL = 2 };  // what is done with a sum

constexpr int MOST = 384, TILE = 32, OUTPUTS = 16;  // threads of a block at most; pixels and outputs of a warp's sums
constexpr int ROUNDS = 2;                           // in which a thread's loads are on their way together

// x: (n, c, h, w), c <= CHANNELS; POOLED: what a 2 x 2 pool sends back to it, (n, c, h / 2, w / 2), and `won` of that shape (pooled.cuh).
// packed: of narrow_pack.cu, taps by WIDTH outputs by CHANNELS channels. y: (n, o, oh, ow), o <= WIDTH; after a pool (n, o, oh / 2, ow / 2), and winner as y.
// below: null, or as y, the output of a ReLU whose gradient y shall be. The window is k x k and moves by one pixel.
// A block has `rows` whole rows of an image's y. The grid counts those first, then images.
template <int FORMAT, int CHANNELS, int WIDTH, bool POOLED>
__global__ void __launch_bounds__(MOST, 1) convolve_narrow(
    const float* __restrict__ x, const unsigned char* __restrict__ won, const uint4* __restrict__ packed, const float* __restrict__ bias,
    const float* __restrict__ below, float* __restrict__ y, unsigned char* __restrict__ winner, int c, int h, int w, int o, int oh, int ow, int k,
    int padding, int rows, int after
) {
    using Tile = Rows<FORMAT, CHANNELS, PADDED>;
    constexpr int COPIES = Tile::COPIES, CHUNKS = Tile::CHUNKS, STRIDE = Tile::STRIDE, STEPS = CHANNELS / 16, EACH = 32 / CHUNKS;  // EACH: pixels that a warp brings at a time
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, g = lane / 4, t = lane % 4;
    const bool windows = after == POOL;
    const int high = windows ? oh / 2 * 2 : oh, wide = windows ? ow / 2 * 2 : ow, bands = (high + rows - 1) / rows;
    const int image = blockIdx.x / bands, row0 = blockIdx.x % bands * rows, lines = min(rows, high - row0), taps = k * k;
    const Halo halo{c, h, w, row0 - padding, -padding, lines + k - 1, ow + k - 1};

    // Shared memory: the weights with what undoes their scales, the bias, and the halo, where what undoes a pixel's scale stands behind the pixel.
    extern __shared__ uint4 shared[];
    const int panel = taps * WIDTH * STRIDE + (SCALED<FORMAT> ? WIDTH / 4 : 0);
    const float* scales = reinterpret_cast<const float*>(shared + taps * WIDTH * STRIDE);
    float* add = reinterpret_cast<float*>(shared + panel);
    const Tile tile{shared + panel + WIDTH / 4, 0};
    float* undo = reinterpret_cast<float*>(tile.chunks + COPIES * CHUNKS);
    for (int i = threadIdx.x; i < panel; i += blockDim.x) copy_sixteen(shared + i, packed + i, 1);
    commit_copies();
    if (threadIdx.x < WIDTH) add[threadIdx.x] = bias != nullptr && threadIdx.x < o ? bias[threadIdx.x] : 0.0f;

    // A warp brings EACH pixels, or windows, at a time; the lanes of a pixel have eight channels each.
    const int first = lane / EACH * 8;
    const auto put = [&](float(&held)[8], int pixel) {
        if constexpr (SCALED<FORMAT>) {
            unsigned largest = largest_of(held);
#pragma unroll
            for (int offset = EACH; offset < 32; offset *= 2) largest = max(largest, __shfl_xor_sync(EVERY_LANE, largest, offset));
            const unsigned exponent = scale_exponent(largest);
#pragma unroll
            for (int i = 0; i < 8; ++i) held[i] *= power_of_two(exponent);
            if (pixel >= 0 && lane < EACH) undo[4 * STRIDE * pixel] = power_of_two(254u - exponent) * DOWN;
        }
        if (pixel >= 0) tile.put(held, pixel, first / 8);
    };
    if constexpr (POOLED) {
        const long long plane = static_cast<long long>(c) * (h / 2) * (w / 2);
        const int count = halo.down() * halo.along();
        const Divider along(halo.along());
#pragma unroll 1
        for (int number0 = EACH * warp; number0 < count; number0 += EACH * warps) {
            WindowGradient window;
            window.read(x + image * plane, won + image * plane, halo, along, number0 + lane % EACH, first);
#pragma unroll
            for (int place = 0; place < 4; ++place) {
                float held[8];
                window.of_pixel(held, place);
                put(held, number0 + lane % EACH < count ? window.pixel(halo, place) : -1);
            }
        }
    } else {
        const float* from = x + static_cast<long long>(image) * c * h * w;
        const Divider across(halo.columns);
#pragma unroll 1
        for (int pixel0 = EACH * warp; pixel0 < halo.pixels(); pixel0 += ROUNDS * EACH * warps) {
            float held[ROUNDS][8];
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round) read_pixel(held[round], from, halo, across, pixel0 + round * EACH * warps + lane % EACH, first);
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round) {
                const int pixel = pixel0 + round * EACH * warps + lane % EACH;
                put(held[round], pixel < halo.pixels() ? pixel : -1);
            }
        }
    }
    wait_for_copies<0>();
    __syncthreads();

    // A warp's sums: 32 pixels by 16 outputs. Row r of a fragment is pixel r of 16 neighbours; or, of four windows beside each other, rows 0 to 7 are the
    // upper pixels and 8 to 15 the lower ones, so that a window's two halves are in lanes g and g ^ 1.
    const int across = max(1, wide / 2), count = lines * wide, tiles = (count + TILE - 1) / TILE;
    const Divider by(windows ? across : wide);
    const bool two = o > OUTPUTS;
#pragma unroll 1
    for (int item = warp; item < (two ? 2 * tiles : tiles); item += warps) {
        const int o0 = two ? item % 2 * OUTPUTS : 0, pixel0 = TILE * (two ? item / 2 : item);
        int seen[2];  // where in the tile the pixel begins that the first tap reads for row lane % 16 of each fragment
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int r = lane % 16, at = windows ? min(pixel0 / 4 + 4 * i + r % 8 / 2, count / 4 - 1) : min(pixel0 + 16 * i + r, count - 1);
            const int line = by.quotient(at), beside = at - line * by.by;
            seen[i] = STRIDE * (windows ? (2 * line + r / 8) * halo.columns + 2 * beside + r % 2 : line * halo.columns + beside);
        }
        int undone[4];  // the same of this lane's rows g and g + 8
#pragma unroll
        for (int e = 0; e < 4; ++e) undone[e] = 4 * __shfl_sync(EVERY_LANE, seen[e / 2], g + e % 2 * 8);

        float sum[2][2][4] = {};
        const uint4* weights = shared + STRIDE * (o0 + lane % 8 + lane / 16 * 8) + lane / 8 % 2;
        int offset = 0, along = 0;
#pragma unroll 1
        for (int tap = 0; tap < taps; ++tap, weights += WIDTH * STRIDE) {
            unsigned a[COPIES][STEPS][2][4], b[COPIES][STEPS][4];
            float back[4];
#pragma unroll
            for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
#pragma unroll
                    for (int i = 0; i < 2; ++i) load_matrices(a[copy][step][i], tile.chunks + seen[i] + lane / 16 + offset + copy * CHUNKS + 2 * step);
                    load_matrices(b[copy][step], weights + copy * CHUNKS + 2 * step);
                }
#pragma unroll
            for (int e = 0; e < 4; ++e) back[e] = SCALED<FORMAT> ? undo[undone[e] + 4 * offset] : 1.0f;
            float part[2][2][4] = {};
#pragma unroll
            for (int step = 0; step < STEPS; ++step)
#pragma unroll
                for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)  // al bh, ah bl, ah bh: the small ones first
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
                        sum[i][j][l] = SCALED<FORMAT> ? fmaf(part[i][j][l], back[2 * i + l / 2], sum[i][j][l]) : sum[i][j][l] + part[i][j][l];
            offset += STRIDE;
            if (++along == k) along = 0, offset += STRIDE * (halo.columns - k);
        }

        if (windows) {  // of eight outputs a lane with left pixels keeps the first ones and gives the others, a lane with right pixels the other way
            const int odd = g % 2;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int window = pixel0 / 4 + 4 * i + g / 2;
#pragma unroll
                for (int l = 0; l < 2; ++l) {
                    const float upper = odd ? sum[i][1][l] : sum[i][0][l], lower = odd ? sum[i][1][2 + l] : sum[i][0][2 + l];
                    const float other_upper = __shfl_xor_sync(EVERY_LANE, odd ? sum[i][0][l] : sum[i][1][l], 4);
                    const float other_lower = __shfl_xor_sync(EVERY_LANE, odd ? sum[i][0][2 + l] : sum[i][1][2 + l], 4);
                    const int output = o0 + 8 * odd + 2 * t + l;
                    float four[4] = {odd ? other_upper : upper, odd ? upper : other_upper, odd ? other_lower : lower, odd ? lower : other_lower};
#pragma unroll
                    for (int e = 0; e < 4; ++e) four[e] = SCALED<FORMAT> ? fmaf(four[e], scales[output], add[output]) : four[e] + add[output];
                    if (output < o && window < count / 4)
                        store_best(best_of(four), y, winner, ((static_cast<long long>(image) * o + output) * (high / 2) + row0 / 2) * across + window);
                }
            }
            continue;
        }
        const int size = oh * ow;
        const long long first_target = (static_cast<long long>(image) * o + o0 + 2 * t) * size + (row0 * ow + pixel0 + g);
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
            for (int l = 0; l < 2; ++l) {
                const int output = o0 + 8 * j + 2 * t + l;
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if (output >= o || pixel0 + g + 8 * e >= count) continue;
                    const long long target = first_target + ((8 * j + l) * size + 8 * e);
                    const float part = sum[e / 2][j][e % 2 * 2 + l];
                    float value = SCALED<FORMAT> ? fmaf(part, scales[output], add[output]) : part + add[output];
                    if (after == RECTIFY) value = relu(value);
                    y[target] = below != nullptr ? relu_gradient(value, below[target]) : value;
                }
            }
    }
}
