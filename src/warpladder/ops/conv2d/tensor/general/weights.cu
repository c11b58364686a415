// Weight gradient of a convolution on tensor cores: part[o, (tap, c)] = sum over pixels of dy[o, pixel] x[c, pixel +
// tap].
// Launched by `GeneralWeightGradient` of launches.py.
//
// A stage is a tile of PIXELS pixels: 64 channels of dy, and 32 of x with their halo, each read, scaled and split once
// and multiplied for all taps. Both are stored channels last, and ldmatrix transposes them: terms are pixels. A line,
// with one scale, is the numbers of a channel in the stage.
// arch: sm_80, sm_90, sm_100
// instance: correlate<SPLIT, false>; correlate<SPLIT, true>
// instance: correlate<BF16, false>
#include "gemm_pixels.cuh"
#include "tensor_pixels.cuh"

constexpr int OUTPUTS = 64, CHANNELS = 32, PIXELS = 128;  // of a block
// of a warp: taps; of a block: warps, 2 of outputs by 2 of channels by 3 of taps
constexpr int TAPS = 3, WARPS = 12;
// loads of a thread that are in flight together: a tile of 8 x 16 pixels with a halo of 1
constexpr int ROUNDS = 6;

// Copies eight channels of a tile's pixels, by a warp. `read(held, channel, pixel)` loads them, 0 for pixel -1; the
// inverse scales times `by` are stored in `inverse_scale`. Loads of 32 ROUNDS pixels are in flight together, and stay
// in registers; the first ones of a larger tile are read again.
template <int FORMAT, class To, class Read>
__device__ __forceinline__ void bring_eight(const To& to, float* inverse_scale, float by, int first, int pixels,
    int halo_pixels, Read read) {
    const int lane = threadIdx.x % 32, chunks = (halo_pixels + 32 * ROUNDS - 1) / (32 * ROUNDS);
    float held[ROUNDS][8], scale[8];
    unsigned largest[8] = {};
    const auto fetch = [&](int chunk) {
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const int pixel = 32 * (ROUNDS * chunk + round) + lane;
            read(held[round], first, pixel < pixels ? pixel : -1);
        }
    };
    fetch(0);
    if constexpr (SCALED<FORMAT>) {
        for (int chunk = 0; chunk < chunks; ++chunk) {
            if (chunk > 0) fetch(chunk);
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round)
#pragma unroll
                for (int i = 0; i < 8; ++i) largest[i] = max(largest[i], bits_of_size(held[round][i]));
        }
        if (chunks > 1) fetch(0);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const unsigned exponent = shared_exponent<1, 32>(largest[i]);
            scale[i] = power_of_two(exponent);
            if (lane == i) inverse_scale[first + i] = power_of_two(254u - exponent) * by;
        }
    }
    for (int chunk = 0; chunk < chunks; ++chunk) {
        if (chunk > 0) fetch(chunk);
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const int pixel = 32 * (ROUNDS * chunk + round) + lane;
            if constexpr (SCALED<FORMAT>)
#pragma unroll
                for (int i = 0; i < 8; ++i) held[round][i] *= scale[i];
            if (pixel < halo_pixels) to.put(held[round], pixel, first / To::EACH);
        }
    }
}

// A fragment of 16 lines, columns of `rows` from `line` on, by TERMS terms: as a of mma; of b, [0] and [2] are the
// first eight columns, [1] and [3] the others. row: rows of this lane's terms, one for ldmatrix.
template <int FORMAT, class From>
__device__ __forceinline__ void turned(unsigned (&out)[4], const From& rows, int copy, const int (&row)[2], int line) {
    const int lane = threadIdx.x % 32;
    if constexpr (FORMAT == TF32) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out[e] = rows.number(row[e / 2], line + lane / 4 + e % 2 * 8);
    } else {
        load_matrices_turned(out, rows.at(copy, row[0], line / From::EACH + lane / 8 % 2));
    }
}

// x: (n, c, h, w). dy: (n, o, oh, ow). part: (parts, o, k k padded_channels(c)), as finish_weights of gemm_weights.cu
// reads it. FEW: columns are (channel, tap), 32 a block; else a block has CHANNELS channels and a box of tap_rows x
// tap_columns taps, at most WARPS / 4 TAPS. A tile has images x rows x columns pixels. x counts tiles of outputs first,
// then channels, then boxes; y parts of `depth` tiles of pixels.
template <int FORMAT, bool FEW>
__global__ void __launch_bounds__(32 * WARPS, 1) correlate(
    const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ part, int n, int c, int h, int w,
    int o, int oh, int ow, int k, int stride, int padding, int images, int rows, int columns, int tap_rows,
    int tap_columns, int depth
) {
    constexpr int READ = FORMAT == TF32 ? FOUR_BY_EIGHT : NEIGHBOURS;
    using OfX = Rows<FORMAT, CHANNELS, READ>;
    using OfY = Rows<FORMAT, OUTPUTS, READ>;
    constexpr int COPIES = OfX::COPIES, TERMS = Held<FORMAT>::TERMS, STEPS = DEPTH / TERMS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tiles_o = (o + OUTPUTS - 1) / OUTPUTS, tiles_c = ((FEW ? c * k * k : c) + CHANNELS - 1) / CHANNELS;
    const int o0 = blockIdx.x % tiles_o * OUTPUTS, c0 = blockIdx.x / tiles_o % tiles_c * CHANNELS,
        box = blockIdx.x / tiles_o / tiles_c;
    const int boxes = FEW ? 1 : (k + tap_columns - 1) / tap_columns;  // of a row of taps
    const int tap_row0 = FEW ? 0 : box / boxes * tap_rows, tap_column0 = FEW ? 0 : box % boxes * tap_columns;
    const TilePixels of_y{images, rows, columns, 1, 1, 1, 1},
        of_x{images, rows, columns, FEW ? 1 : tap_rows, FEW ? 1 : tap_columns, FEW ? 1 : stride, FEW ? 1 : stride};
    const int count = of_y.count(), halo_pixels = (of_x.halo() + 15) / 16 * 16, across = (ow + columns - 1) / columns,
        lines = (oh + rows - 1) / rows;
    const int tiles = (n + images - 1) / images * lines * across, first = blockIdx.y * depth,
        last = min(tiles, first + depth);

    // Shared memory: both tiles, their inverse scales, and the positions of their pixels.
    extern __shared__ uint4 shared[];
    const OfX tile_x{shared, halo_pixels};
    const OfY tile_y{shared + COPIES * halo_pixels * OfX::CHUNKS, PIXELS};
    float* inverse_x = reinterpret_cast<float*>(tile_y.chunks + COPIES * PIXELS * OfY::CHUNKS);
    float* inverse_y = inverse_x + CHANNELS;
    int* places_y = reinterpret_cast<int*>(inverse_y + OUTPUTS);
    int* seen = places_y + PIXELS;      // the pixel of the halo that the box's first tap reads
    int* places_x = seen + PIXELS;      // FEW: image, row and column of a pixel's first tap instead, in three rows
    // FEW: of each column, from a pixel's first tap; offset -1 where there is none
    Tap* terms = reinterpret_cast<Tap*>(places_x + 3 * PIXELS);
    if constexpr (FEW)
        for (int i = threadIdx.x; i < CHANNELS; i += 32 * WARPS) {
            const int term = c0 + i, tap = term % (k * k);
            terms[i] = {term < c * k * k ? term / (k * k) * h * w + tap / k * w + tap % k : -1,
                tap / k << 16 | tap % k};
        }
    for (int pixel = threadIdx.x; pixel < PIXELS; pixel += 32 * WARPS)
        seen[pixel] = pixel < count ? of_x.seen(place2d<false>(pixel, rows, columns)) : 0;

    const int half_o = warp % 2 * 32, half_c = warp / 2 % 2 * 16, tap0 = warp / 4 * TAPS;
    const auto offset_of = [&](int tap) {  // in the halo; -1 where there is none
        const int row = tap / tap_columns, column = tap % tap_columns;
        if (FEW) return tap == 0 ? 0 : -1;
        return row < tap_rows && tap_row0 + row < k && tap_column0 + column < k ? row * of_x.wide() + column : -1;
    };
    int offset[TAPS];
#pragma unroll
    for (int i = 0; i < TAPS; ++i) offset[i] = offset_of(tap0 + i);

    float sum[TAPS][2][2][4] = {};
    for (int tile = first; tile < last; ++tile) {
        const int column0 = tile % across * columns, row0 = tile / across % lines * rows,
            image0 = tile / across / lines * images, left = n - image0;
        const float* image_x = x + static_cast<long long>(image0) * c * h * w;
        const float* image_y = dy + static_cast<long long>(image0) * o * oh * ow;
        __syncthreads();  // all threads have read the tiles of the stage before
        find_places(places_y, of_y, left, o, oh, ow, row0, column0);
        if constexpr (!FEW) {
            find_places(places_x, of_x, left, c, h, w, row0 * stride - padding + tap_row0,
                column0 * stride - padding + tap_column0);
        } else {
            for (int pixel = threadIdx.x; pixel < PIXELS; pixel += 32 * WARPS) {
                const Place2d at = place2d<false>(min(pixel, count - 1), rows, columns);
                places_x[pixel] = at.image < left ? at.image : -1;
                places_x[PIXELS + pixel] = (row0 + at.row) * stride - padding,
                    places_x[2 * PIXELS + pixel] = (column0 + at.column) * stride - padding;
            }
        }
        __syncthreads();
        for (int eight = warp; eight < (CHANNELS + OUTPUTS) / 8; eight += WARPS) {
            if (eight < CHANNELS / 8) {
                const auto of_channels = [&](float(&held)[8], int number, int pixel) {
                    const int place = pixel < 0 ? -1 : places_x[pixel];
                    if constexpr (FEW) {
                        const int row = pixel < 0 ? 0 : places_x[PIXELS + pixel], column = pixel < 0 ? 0
                            : places_x[2 * PIXELS + pixel];
                        const float* source = image_x + (place * c * h + row) * w + column;
#pragma unroll
                        for (int i = 0; i < 8; ++i) {
                            const Tap tap = terms[number + i];
                            const bool inside = place >= 0 && tap.offset >= 0
                                && static_cast<unsigned>(row + (tap.where >> 16)) < static_cast<unsigned>(h)
                                && static_cast<unsigned>(column + (tap.where & 0xffff)) < static_cast<unsigned>(w);
                            held[i] = inside ? source[tap.offset] : 0.0f;
                        }
                    } else {
                        const unsigned plane = h * w;
                        const float* source = image_x + (static_cast<long long>(c0 + number) * plane + max(place, 0));
#pragma unroll
                        for (int i = 0; i < 8; ++i)
                            held[i] = place >= 0 && c0 + number + i < c ? source[i * plane] : 0.0f;
                    }
                };
                bring_eight<FORMAT>(tile_x, inverse_x, DOWN, 8 * eight, FEW ? count : of_x.halo(), halo_pixels,
                    of_channels);
            } else {
                const auto of_outputs = [&](float(&held)[8], int number, int pixel) {
                    const int place = pixel < 0 ? -1 : places_y[pixel];
                    const unsigned plane = oh * ow;
                    const float* source = image_y + (static_cast<long long>(o0 + number) * plane + max(place, 0));
#pragma unroll
                    for (int i = 0; i < 8; ++i) held[i] = place >= 0 && o0 + number + i < o ? source[i * plane] : 0.0f;
                };
                bring_eight<FORMAT>(tile_y, inverse_y, UP, 8 * eight - CHANNELS, count, PIXELS, of_outputs);
            }
        }
        __syncthreads();

        float back_y[2][2], back_x[2][2];  // of this lane's rows and columns
        if constexpr (SCALED<FORMAT>)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                back_y[e / 2][e % 2] = inverse_y[half_o + e / 2 * 16 + e % 2 * 8 + g];
                back_x[e / 2][e % 2] = inverse_x[half_c + e / 2 * 8 + 2 * t + e % 2];
            }
        for (int term = 0; term < count; term += DEPTH) {
            unsigned a[COPIES][STEPS][2][4];
            int row_y[STEPS][2], row_x[STEPS][2];
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    row_y[step][e] = term + step * TERMS + (FORMAT == TF32 ? t + 4 * e : lane % 8 + 8 * (lane / 16));
                    row_x[step][e] = seen[row_y[step][e]];
                }
#pragma unroll
                for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        turned<FORMAT>(a[copy][step][i], tile_y, copy, row_y[step], half_o + 16 * i);
            }
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap) {
                if (offset[tap] < 0) continue;
                float parts[2][2][4] = {};
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
                    const int row[2] = {row_x[step][0] + offset[tap], row_x[step][1] + offset[tap]};
                    unsigned b[COPIES][4];
#pragma unroll
                    for (int copy = 0; copy < COPIES; ++copy) turned<FORMAT>(b[copy], tile_x, copy, row, half_c);
#pragma unroll
                    // al bh, ah bl, ah bh: the small ones first
                    for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)
#pragma unroll
                        for (int j = 0; j < 2; ++j) {
                            const unsigned right[2] = {b[product == 1][j], b[product == 1][j + 2]};
#pragma unroll
                            for (int i = 0; i < 2; ++i) mma_step<FORMAT>(parts[i][j], a[product == 0][step][i], right);
                        }
                }
#pragma unroll
                for (int i = 0; i < 2; ++i)
#pragma unroll
                    for (int j = 0; j < 2; ++j)
#pragma unroll
                        for (int l = 0; l < 4; ++l) {
                            if constexpr (SCALED<FORMAT>) {
                                sum[tap][i][j][l] = fmaf(parts[i][j][l] * back_x[j][l % 2], back_y[i][l / 2],
                                    sum[tap][i][j][l]);
                            } else {
                                sum[tap][i][j][l] += parts[i][j][l];
                            }
                        }
            }
        }
    }

    // Sums are copied from registers to shared memory, so that the following code exists once, in a loop.
    __syncthreads();  // all threads have read the last tiles
    float* const own = reinterpret_cast<float*>(shared) + threadIdx.x;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap)
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int l = 0; l < 4; ++l) own[(((tap * 2 + i) * 2 + j) * 4 + l) * 32 * WARPS] = sum[tap][i][j][l];

    // A channel goes to its column, the last ones also to the group that repeats them; zeros follow less than four.
    const int padded = padded_channels(c), all = k * k * padded;
    part += static_cast<long long>(blockIdx.y) * o * all;
#pragma unroll 1
    for (int tap = 0; tap < TAPS; ++tap) {
        const int local = tap0 + tap, place = FEW ? 0
            : (tap_row0 + local / tap_columns) * k + tap_column0 + local % tap_columns;
        if (offset_of(local) < 0) continue;
#pragma unroll 1
        for (int which = 0; which < 16; ++which) {
            const int i = which / 8, j = which / 4 % 2, l = which % 4;
            const int output = o0 + half_o + 16 * i + g + 8 * (l / 2), column = c0 + half_c + 8 * j + 2 * t + l % 2;
            const int channel = FEW ? column / (k * k) : column, of_tap = FEW ? column % (k * k) : place;
            if (output >= o || channel >= c) continue;
            float* to = part + static_cast<long long>(output) * all + of_tap * padded;
            const float value = own[(16 * tap + which) * 32 * WARPS];
            if (c < 4 || channel < c / 4 * 4) to[channel] = value;
            if (c >= 4 && c % 4 > 0 && channel >= c - 4) to[channel + padded - c] = value;
            if (c < 4 && channel == c - 1)
                for (int beyond = c; beyond < padded; ++beyond) to[beyond] = 0.0f;
        }
    }
}
