// Weight gradient of a convolution as an implicit GEMM whose shapes are constants: part[o, (tap, c)] = sum of
// dy[o, pixel] x[c, pixel under the tap].
// Launched by `ImplicitWeightGradient` of implicit.py.
//
// A rectangle of dy's pixels and what it reads of x lie in shared memory channels last, and ldmatrix transposes them:
// terms are pixels. A line is the numbers of a channel in a rectangle, which stay in registers until the largest is
// known; the next rectangle is on its way while one is multiplied. Sums leave the tensor cores after 32 pixels.
// arch: sm_80, sm_90, sm_100
// local memory: correlate_implicit: with 5 x 5 taps in fp32 up to eight words of a thread; plans without took as
// long, or up to half as long again (docs/notes/tensor-conv2d.md)
#include "../channels.cuh"
#include "gemm_pixels.cuh"
#include "implicit.cuh"

// x: (n, C, H, W). dy: (n, O, OH, OW), as GRADIENT has it (Pixels). part: (parts, O, K K, padded_channels(C)), as
// finish_weights of gemm_weights.cu reads it. db_part: (parts, O), sums of dy. A block has `depth` rectangles of
// IMAGES x ROWS x COLUMNS pixels, OUTPUTS outputs, and CHANNELS channels of x under TAP_ROWS rows of taps, or with FEW
// terms (channel, tap). Its warps: UPON have other outputs, ACROSS other columns (tap, 16 channels), and TURNS every
// TURNS-th 32 pixels. x counts parts, y outputs, z channels first, then rows of taps.
template <int FORMAT, bool FEW, int GRADIENT, int C, int H, int W, int O, int OH, int OW, int K, int S, int P,
    int IMAGES, int ROWS, int COLUMNS, int OUTPUTS, int CHANNELS, int UPON, int ACROSS, int TURNS, int TAP_ROWS>
__global__ void __launch_bounds__(32 * UPON * ACROSS * TURNS, 1) correlate_implicit(
    const float* __restrict__ x, const float* __restrict__ dy, const float* __restrict__ relu,
    const unsigned char* __restrict__ pool_argmax, float* __restrict__ part, float* __restrict__ db_part, int n,
    int depth
) {
    using OfX = Lines<FORMAT, CHANNELS>;
    using OfY = Lines<FORMAT, OUTPUTS>;
    constexpr int COPIES = OfX::COPIES, WARPS = UPON * ACROSS * TURNS, THREADS = 32 * WARPS,
        TAPS = FEW ? 1 : TAP_ROWS * K, SIXTEENS = CHANNELS / 16, ITEMS = TAPS * SIXTEENS, EACH = over(ITEMS, ACROSS),
        MT = OUTPUTS / 16 / UPON, STEPS = 2;
    constexpr int COUNT = IMAGES * ROWS * COLUMNS, ROOM = over(COUNT, DEPTH) * DEPTH;
    constexpr int READ_HIGH = (ROWS - 1) * S + (FEW ? K : TAP_ROWS), READ_WIDE = (COLUMNS - 1) * S + K,
        PART = over(READ_WIDE, S), PITCH = S * PART, BROUGHT = FEW ? ROOM : IMAGES * READ_HIGH * PITCH;
    // pixels that a warp brings at a time, and turns in which all warps bring a rectangle
    constexpr int EACH_X = 32 / OfX::CHUNKS, EACH_Y = 32 / OfY::CHUNKS, TURNS_X = over(BROUGHT, EACH_X * WARPS);
    // of dy; or, of a pool's gradient, its windows, whose pixels are in one rectangle
    constexpr bool WINDOWS = GRADIENT == POOLED;
    constexpr int DOWN_WINDOWS = ROWS / 2, ALONG_WINDOWS = COLUMNS / 2,
        TURNS_Y = over(WINDOWS ? IMAGES * DOWN_WINDOWS * ALONG_WINDOWS : ROOM, EACH_Y * WARPS);
    static_assert(!WINDOWS || (ROWS % 2 == 0 && COLUMNS % 2 == 0));
    constexpr int BANDS = over(WINDOWS ? OH / 2 * 2 : OH, ROWS), STRIPES = over(WINDOWS ? OW / 2 * 2 : OW, COLUMNS),
        WIDTH = 16 * ITEMS + 4;

    // Shared memory: both tiles, and in their place afterwards the sums of all turns.
    extern __shared__ uint4 shared[];
    __shared__ unsigned largest[CHANNELS + OUTPUTS];
    __shared__ float inverse_scale[CHANNELS + OUTPUTS], bias[WARPS][OUTPUTS];
    __shared__ unsigned seen[ROOM];  // offset in bytes of what the first tap reads for a pixel
    const OfX tile_x{shared};
    const OfY tile_y{shared + BROUGHT * OfX::STRIDE};
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    constexpr int ALONG = over(FEW ? C * K * K : C, CHANNELS), BOXES = FEW ? 1 : over(K, TAP_ROWS);  // blocks in z
    const int o0 = blockIdx.y * OUTPUTS, c0 = blockIdx.z % ALONG * CHANNELS,
        top = BOXES == 1 ? 0 : blockIdx.z / ALONG * TAP_ROWS;
    const int pieces = (n + IMAGES - 1) / IMAGES * (BANDS * STRIPES), first = blockIdx.x * depth,
        last = min(pieces, first + depth);
    for (int pixel = threadIdx.x; pixel < ROOM; pixel += THREADS) {
        const int image = pixel / (ROWS * COLUMNS), row = pixel / COLUMNS % ROWS, column = pixel % COLUMNS;
        seen[pixel] = 16 * OfX::STRIDE
            * (FEW ? pixel : pixel < COUNT ? (image * READ_HIGH + row * S) * PITCH + column : 0);
    }
    if constexpr (WINDOWS)  // pixels beyond the last window
        for (int i = threadIdx.x; i < (ROOM - COUNT) * OfY::STRIDE; i += THREADS)
            tile_y.chunks[COUNT * OfY::STRIDE + i] = make_uint4(0, 0, 0, 0);
    for (int i = threadIdx.x; i < CHANNELS + OUTPUTS; i += THREADS) largest[i] = 0;
    for (int i = threadIdx.x; i < WARPS * OUTPUTS; i += THREADS) bias[i / OUTPUTS][i % OUTPUTS] = 0.0f;

    const int first_x = lane / EACH_X * 8, first_y = lane / EACH_Y * 8;  // this lane's channels of x and outputs
    const Pixels<STORED, C, H, W> stored_x{x, nullptr, n};
    const Pixels<GRADIENT, O, OH, OW> stored_y{dy, relu, n};
    const Windows<O, OH, OW> windows{dy, pool_argmax, n};
    unsigned places[TURNS_Y][2];  // of windows alone
    float held_x[TURNS_X][8], held_y[TURNS_Y][8];
    const auto read = [&](int piece) {
        const int column0 = piece % STRIPES * COLUMNS, row0 = piece / STRIPES % BANDS * ROWS,
            image0 = piece / STRIPES / BANDS * IMAGES;
        if constexpr (FEW) {
            const Patch<C, H, W, K> patch(x, n, c0 + first_x);
#pragma unroll
            for (int turn = 0; turn < TURNS_X; ++turn) {
                const int pixel = EACH_X * (warp + turn * WARPS) + lane % EACH_X, image = pixel / (ROWS * COLUMNS),
                    row = pixel / COLUMNS % ROWS, column = pixel % COLUMNS;
                patch.read(held_x[turn], image0 + image, (row0 + row) * S - P, (column0 + column) * S - P,
                    pixel < COUNT && row0 + row < OH && column0 + column < OW);
            }
        } else {
#pragma unroll
            for (int turn = 0; turn < TURNS_X; ++turn) {
                const int pixel = EACH_X * (warp + turn * WARPS) + lane % EACH_X, image = pixel / (READ_HIGH * PITCH),
                    row = pixel / PITCH % READ_HIGH, column = pixel % PITCH;
                stored_x.read(held_x[turn], image < IMAGES && c0 + first_x < C ? image0 + image : n,
                    row0 * S - P + top + row, column0 * S - P + column, c0 + first_x);
            }
        }
#pragma unroll
        for (int turn = 0; turn < TURNS_Y; ++turn) {
            const int pixel = EACH_Y * (warp + turn * WARPS) + lane % EACH_Y;
            if constexpr (WINDOWS) {
                const int image = pixel / (DOWN_WINDOWS * ALONG_WINDOWS);
                windows.read(held_y[turn], places[turn], image < IMAGES && o0 + first_y < O ? image0 + image : n,
                    row0 / 2 + pixel / ALONG_WINDOWS % DOWN_WINDOWS, column0 / 2 + pixel % ALONG_WINDOWS,
                    min(o0 + first_y, O - 1));
                continue;
            }
            const int image = pixel / (ROWS * COLUMNS), row = pixel / COLUMNS % ROWS, column = pixel % COLUMNS;
            const bool there = pixel < COUNT && o0 + first_y < O && row0 + row < OH;
            stored_y.read(held_y[turn], there ? image0 + image : n, row0 + row, column0 + column, o0 + first_y);
        }
    };
    const auto put = [&] {
        float added[8];
        const int channel_y = sums_of_channels<EACH_Y>(held_y, added);
#pragma unroll
        for (int i = 0; i < JOINED<EACH_Y>; ++i)
            if (lane % EACH_Y < 8) bias[warp][first_y + channel_y + i] += added[i];
        if constexpr (SCALED<FORMAT>) {
            largest_of_channels<EACH_X>(held_x, largest + first_x);
            largest_of_channels<EACH_Y>(held_y, largest + CHANNELS + first_y);
            __syncthreads();
            for (int i = threadIdx.x; i < CHANNELS + OUTPUTS; i += THREADS)
                inverse_scale[i] = power_of_two(254u - scale_exponent(largest[i])) * (i < CHANNELS ? DOWN : UP);
        }
        const Scales<FORMAT> scales_x(largest + first_x);
#pragma unroll
        for (int turn = 0; turn < TURNS_X; ++turn) {
            const int pixel = EACH_X * (warp + turn * WARPS) + lane % EACH_X;
            const int at = FEW || S == 1 ? pixel : pixel - pixel % PITCH + pixel % PITCH % S * PART + pixel % PITCH / S;
            if (pixel < BROUGHT) tile_x.put(scales_x.of(held_x[turn]), at, first_x / 8);
        }
        const Scales<FORMAT> scales_y(largest + CHANNELS + first_y);
#pragma unroll
        for (int turn = 0; turn < TURNS_Y; ++turn) {
            const int pixel = EACH_Y * (warp + turn * WARPS) + lane % EACH_Y;
            if constexpr (WINDOWS) {
                const int image = pixel / (DOWN_WINDOWS * ALONG_WINDOWS);
                if (image >= IMAGES) continue;
                const int at = (image * ROWS + pixel / ALONG_WINDOWS % DOWN_WINDOWS * 2) * COLUMNS
                    + pixel % ALONG_WINDOWS * 2;
                const Eight<FORMAT> eight = scales_y.of(held_y[turn]);
#pragma unroll
                for (int place = 0; place < 4; ++place) {
                    unsigned wanted[4];
                    masks_of(wanted, places[turn], place);
                    tile_y.put(eight, wanted, at + place / 2 * COLUMNS + place % 2, first_y / 8);
                }
            } else if (pixel < ROOM) tile_y.put(scales_y.of(held_y[turn]), pixel, first_y / 8);
        }
    };

    const int upon = warp % UPON, across = warp / UPON % ACROSS, turn_of = warp / (UPON * ACROSS),
        item0 = across * EACH;
    // Offsets in bytes of what a lane requests: of x, next to `seen`, for each item, 8 pixels and channels apart by
    // lane / 8 % 2 and lane / 16, so that two neighbouring registers are a fragment; of dy, next to a chunk's pixels.
    const auto offset_of = [&](int item) {
        const int tap = item / SIXTEENS, i = tap / K, j = tap % K;
        return 16 * ((FEW ? 0 : i * PITCH + j % S * PART + j / S) * OfX::STRIDE + 2 * (item % SIXTEENS) + lane / 16);
    };
    int offset[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) offset[e] = offset_of(min(item0 + e, ITEMS - 1));
    const int offset_y = 16 * ((lane % 8 + lane / 16 * 8) * OfY::STRIDE + 2 * upon * MT + lane / 8 % 2);

    float sum[EACH][MT][2][4] = {};
    read(first);
#pragma unroll 1
    for (int piece = first; piece < last; ++piece) {
        __syncthreads();  // all threads have read the rectangle before
        put();
        __syncthreads();
        for (int i = threadIdx.x; i < CHANNELS + OUTPUTS; i += THREADS) largest[i] = 0;
        if (piece + 1 < last) read(piece + 1);
        const char* const of_x = reinterpret_cast<const char*>(tile_x.chunks);
        const char* const of_y = reinterpret_cast<const char*>(tile_y.chunks) + offset_y;
        float back_y[MT][2], back_x[SIXTEENS][2][2];
        if constexpr (SCALED<FORMAT>) {
#pragma unroll
            for (int i = 0; i < MT; ++i)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    back_y[i][half] = inverse_scale[CHANNELS + 16 * (upon * MT + i) + 8 * half + g];
#pragma unroll
            for (int s = 0; s < SIXTEENS; ++s)
#pragma unroll
                for (int e = 0; e < 4; ++e) back_x[s][e / 2][e % 2] = inverse_scale[16 * s + e / 2 * 8 + 2 * t + e % 2];
        }
#pragma unroll 1
        for (int term = DEPTH * turn_of; term < COUNT; term += DEPTH * TURNS) {
            unsigned a[COPIES][STEPS][MT][4];
            const char* row_x[STEPS];
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                row_x[step] = of_x + seen[term + 16 * step + lane % 16];
#pragma unroll
                for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
                    for (int i = 0; i < MT; ++i)
                        load_matrices_turned(a[copy][step][i],
                            of_y + 16 * ((term + 16 * step) * OfY::STRIDE + copy * OfY::CHUNKS + 2 * i));
            }
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                if (ITEMS % ACROSS > 0 && item0 + e >= ITEMS) continue;
                const int sixteen = SIXTEENS == 1 ? 0 : (item0 + e) % SIXTEENS;
                float parts[MT][2][4] = {};
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
                    unsigned b[COPIES][4];
#pragma unroll
                    for (int copy = 0; copy < COPIES; ++copy)
                        load_matrices_turned(b[copy], row_x[step] + offset[e] + 16 * copy * OfX::CHUNKS);
#pragma unroll
                    // al bh, ah bl, ah bh: the small ones first
                    for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)
#pragma unroll
                        for (int j = 0; j < 2; ++j) {
                            const unsigned right[2] = {b[product == 1][2 * j], b[product == 1][2 * j + 1]};
#pragma unroll
                            for (int i = 0; i < MT; ++i) mma_step<FORMAT>(parts[i][j], a[product == 0][step][i], right);
                        }
                }
#pragma unroll
                for (int j = 0; j < 2; ++j)
#pragma unroll
                    for (int l = 0; l < 4; ++l) {
                        float scale = 1.0f;
                        if constexpr (SCALED<FORMAT>)
                            scale = SIXTEENS == 1 || sixteen == 0 ? back_x[0][j][l % 2]
                                                                  : back_x[SIXTEENS - 1][j][l % 2];
#pragma unroll
                        for (int i = 0; i < MT; ++i) {
                            float& to = sum[e][i][j][l];
                            if constexpr (SCALED<FORMAT>) to = fmaf(parts[i][j][l] * scale, back_y[i][l / 2], to);
                            else to += parts[i][j][l];
                        }
                    }
            }
        }
    }

    // The sums of all turns are added up in a fixed order.
    __syncthreads();  // the last rectangle has been read
    float* const sums = reinterpret_cast<float*>(shared);
#pragma unroll
    for (int e = 0; e < EACH; ++e)
#pragma unroll
        for (int i = 0; i < MT; ++i)
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int l = 0; l < 4; ++l)
                    if (ITEMS % ACROSS == 0 || item0 + e < ITEMS)
                        sums[(turn_of * OUTPUTS + 16 * (upon * MT + i) + l / 2 * 8 + g) * WIDTH + 16 * (item0 + e)
                            + 8 * j + 2 * t + l % 2] = sum[e][i][j][l];
    __syncthreads();
    constexpr int PADDED = over(C, 4) * 4, ALL = K * K * PADDED;
    part += static_cast<long long>(blockIdx.x) * O * ALL;
    if constexpr (!FEW && C % 4 == 0) {
#pragma unroll 4
        for (int i = threadIdx.x; i < OUTPUTS * 4 * ITEMS; i += THREADS) {
            const int output = o0 + i / (4 * ITEMS), at = i % (4 * ITEMS) * 4, channel = c0 + at % CHANNELS,
                tap = at / CHANNELS + top * K;
            if (output >= O || channel >= C || (K % TAP_ROWS > 0 && tap >= K * K)) continue;
            const float* from = sums + (output - o0) * WIDTH + at;
            float4 value = *reinterpret_cast<const float4*>(from);
#pragma unroll
            for (int turn = 1; turn < TURNS; ++turn)
                value = value + *reinterpret_cast<const float4*>(from + turn * OUTPUTS * WIDTH);
            *reinterpret_cast<float4*>(part + static_cast<long long>(output) * ALL + tap * C + channel) = value;
        }
    } else
#pragma unroll 4
    for (int i = threadIdx.x; i < OUTPUTS * 16 * ITEMS; i += THREADS) {
        const int output = o0 + i / (16 * ITEMS), at = i % (16 * ITEMS), term = c0 + at % CHANNELS;
        const int channel = FEW ? term / (K * K) : term, tap = FEW ? term % (K * K) : at / CHANNELS + top * K;
        if (output >= O || channel >= C || tap >= K * K) continue;
        float value = 0.0f;
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) value += sums[(turn * OUTPUTS + output - o0) * WIDTH + at];
        // a channel goes to its column, the last ones also to the group that repeats them; zeros follow less than four
        float* to = part + static_cast<long long>(output) * ALL + tap * PADDED;
        if (C < 4 || channel < C / 4 * 4) to[channel] = value;
        if (C >= 4 && C % 4 > 0 && channel >= C - 4) to[channel + PADDED - C] = value;
        if (C < 4 && channel == C - 1)
            for (int beyond = C; beyond < PADDED; ++beyond) to[beyond] = 0.0f;
    }
    if (blockIdx.z == 0)
        for (int i = threadIdx.x; i < OUTPUTS && o0 + i < O; i += THREADS) {
            float value = 0.0f;
            for (int each = 0; each < WARPS; ++each) value += bias[each][i];
            db_part[blockIdx.x * O + o0 + i] = value;
        }
}
