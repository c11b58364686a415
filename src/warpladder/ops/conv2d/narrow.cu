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
    using Tile = Rows<FORMAT, CHANNELS, EVERY_SECOND>;
    constexpr int COPIES = Tile::COPIES, CHUNKS = Tile::CHUNKS, STEPS = CHANNELS / 16, EACH = 32 / CHUNKS;  // EACH: pixels that a warp brings at a time
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, g = lane / 4, t = lane % 4;
    const bool windows = after == POOL;
    const int high = windows ? oh / 2 * 2 : oh, wide = windows ? ow / 2 * 2 : ow, bands = (high + rows - 1) / rows;
    const int image = blockIdx.x / bands, row0 = blockIdx.x % bands * rows, lines = min(rows, high - row0), taps = k * k;
    const Halo halo{c, h, w, row0 - padding, -padding, lines + k - 1, ow + k - 1};

    // Shared memory: the weights with what undoes their scales, the bias, and the halo with what undoes its.
    extern __shared__ uint4 shared[];
    const int panel = taps * WIDTH * CHUNKS * COPIES + (SCALED<FORMAT> ? WIDTH / 4 : 0);
    const float* scales = reinterpret_cast<const float*>(shared + taps * WIDTH * CHUNKS * COPIES);
    float* add = reinterpret_cast<float*>(shared + panel);
    const int room = (rows + k - 1) * halo.columns;
    const Tile tile{shared + panel + WIDTH / 4, room};
    float* undo = reinterpret_cast<float*>(tile.chunks + COPIES * room * CHUNKS);
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
            if (pixel >= 0 && lane < EACH) undo[pixel] = power_of_two(254u - exponent) * DOWN;
        }
        if (pixel >= 0) tile.put(held, pixel, first / 8);
    };
    if constexpr (POOLED) {
        const long long plane = static_cast<long long>(c) * (h / 2) * (w / 2);
        const int count = halo.down() * halo.along();
#pragma unroll 1
        for (int number0 = EACH * warp; number0 < count; number0 += EACH * warps) {
            WindowGradient window;
            window.read(x + image * plane, won + image * plane, halo, number0 + lane % EACH, first);
#pragma unroll
            for (int place = 0; place < 4; ++place) {
                float held[8];
                window.of_pixel(held, place);
                put(held, number0 + lane % EACH < count ? window.pixel(halo, place) : -1);
            }
        }
    } else {
        const float* from = x + static_cast<long long>(image) * c * h * w;
#pragma unroll 1
        for (int pixel0 = EACH * warp; pixel0 < halo.pixels(); pixel0 += ROUNDS * EACH * warps) {
            float held[ROUNDS][8];
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round) read_pixel(held[round], from, halo, pixel0 + round * EACH * warps + lane % EACH, first);
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round) {
                const int pixel = pixel0 + round * EACH * warps + lane % EACH;
                put(held[round], pixel < halo.pixels() ? pixel : -1);
            }
        }
    }
    wait_for_copies<0>();
    __syncthreads();

    // A warp's sums: 32 pixels by 16 outputs. Row r of its fragments is pixel r; or of window r % 8 the pixel r / 8, so that a lane has all four of a window.
    const int across = max(1, wide / 2), count = lines * wide, tiles = (count + TILE - 1) / TILE;
    const bool two = o > OUTPUTS;
#pragma unroll 1
    for (int item = warp; item < (two ? 2 * tiles : tiles); item += warps) {
        const int o0 = two ? item % 2 * OUTPUTS : 0, pixel0 = TILE * (two ? item / 2 : item);
        int seen[2];  // the halo's pixel that the first tap reads for row lane % 16 of each fragment
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int r = lane % 16 + 16 * i;
            int row, column;
            if (windows) {
                const int window = min(pixel0 / 4 + r % 8, count / 4 - 1), place = r / 8;
                row = window / across * 2 + place / 2, column = window % across * 2 + place % 2;
            } else {
                const int pixel = min(pixel0 + r, count - 1);
                row = pixel / wide, column = pixel % wide;
            }
            seen[i] = row * halo.columns + column;
        }
        int undone[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) undone[e] = __shfl_sync(EVERY_LANE, seen[e / 2], g + e % 2 * 8);

        float sum[2][2][4] = {};
        const uint4* weights = shared;  // of the tap
        const int line = Tile::place(o0 + lane % 8 + lane / 16 * 8, lane / 8 % 2);  // where this lane's output begins among them
        int offset = 0, along = 0;
#pragma unroll 1
        for (int tap = 0; tap < taps; ++tap, weights += WIDTH * CHUNKS) {
            unsigned a[COPIES][STEPS][2][4], b[COPIES][STEPS][4];
#pragma unroll
            for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
#pragma unroll
                    for (int i = 0; i < 2; ++i) load_matrices(a[copy][step][i], tile.at(copy, seen[i] + offset, 2 * step + lane / 16));
                    load_matrices(b[copy][step], weights + copy * taps * WIDTH * CHUNKS + (line ^ 2 * step));
                }
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
                for (int l = 0; l < 2; ++l) {
                    const float back = SCALED<FORMAT> ? undo[undone[2 * i + l] + offset] : 1.0f;
#pragma unroll
                    for (int j = 0; j < 2; ++j)
#pragma unroll
                        for (int e = 2 * l; e < 2 * l + 2; ++e) sum[i][j][e] = SCALED<FORMAT> ? fmaf(part[i][j][e], back, sum[i][j][e]) : sum[i][j][e] + part[i][j][e];
                }
            ++offset;
            if (++along == k) along = 0, offset += halo.columns - k;
        }

#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
            for (int l = 0; l < 2; ++l) {
                const int output = o0 + 8 * j + 2 * t + l;
                if (output >= o) continue;
                const float by = SCALED<FORMAT> ? scales[output] : 1.0f;
                float four[4] = {sum[0][j][l], sum[0][j][2 + l], sum[1][j][l], sum[1][j][2 + l]};
#pragma unroll
                for (int e = 0; e < 4; ++e) four[e] = fmaf(four[e], by, add[output]);
                const long long plane = static_cast<long long>(image) * o + output;
                if (windows) {
                    const int window = pixel0 / 4 + g;
                    if (window < count / 4) store_best(best_of(four), y, winner, plane * (high / 2) * across + row0 / 2 * across + window);
                    continue;
                }
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int pixel = pixel0 + g + 8 * e;
                    if (pixel >= count) continue;
                    const long long target = plane * oh * ow + row0 * ow + pixel;
                    if (after == RECTIFY) four[e] = relu(four[e]);
                    y[target] = below != nullptr ? relu_gradient(four[e], below[target]) : four[e];
                }
            }
    }
}
