// Convolutions of many channels as implicit GEMMs by warpgroup products (wgmma): y with bias, ReLU and pool, and dx.
// Launched by `WidePass` of implicit.py.
//
// A block has a rectangle of written pixels of some images, and BN outputs. The pixels that it reads, a halo, lie in
// shared memory once, eight channels of a pixel in 16 bytes:
// A product reads 64 neighbours of a chunk, whatever rows of the image they are in, and a tap is the same from another
// place on: nothing is unfolded or addressed. Numbers of written pixels go on over the halo's edge; sums of those there
// are computed and dropped. With a stride pixels lie sorted by the parity of row and column (modulo STEP). Planes of 32
// channels come in stages, and the next stage is stored while products run. bf16: sums stay in the tensor cores. Else
// pixels and outputs have scales, and sums leave the tensor cores after each tap's 32 channels.
// arch: sm_90a
#include "async.cuh"
#include "bulk.cuh"
#include "flat.cuh"
#include "out.cuh"
#include "wgmma.cuh"

// 64 x COLUMNS sums += 16 terms of 64 pixels and of COLUMNS outputs.
template <int FORMAT, int COLUMNS>
__device__ __forceinline__ void multiply_sixteen(float (&sum)[COLUMNS / 2], unsigned long long pixels,
    unsigned long long weights, bool add) {
    if constexpr (SCALED<FORMAT>) wgmma_half_along(sum, pixels, weights, add);
    else wgmma_bf16_along(sum, pixels, weights, add);
}

// y or dx of images x, with the arguments of convolve_implicit (implicit.cu). packed: of implicit_pack.cu, in chunks. A
// block has IMAGES x ROWS x COLUMNS pixels, BN outputs, and UPON x ACROSS warpgroups, each with MT times 64 pixels and
// BN / ACROSS outputs; a stage has TOGETHER planes, and the weights of TAP_ROWS rows of taps at a time.
template <int FORMAT, bool BACK, int GRADIENT, bool POOL, int C, int H, int W, int O, int OH, int OW, int K, int S,
    int P, int IMAGES, int ROWS, int COLUMNS, int BN, int UPON, int ACROSS, int MT, int TOGETHER, int TAP_ROWS>
__global__ void __launch_bounds__(128 * UPON * ACROSS, 1) convolve_wide(
    const float* __restrict__ x, const float* __restrict__ relu, const unsigned char* __restrict__ pool_argmax,
    const uint4* __restrict__ packed, const float* __restrict__ bias, const float* __restrict__ relu_mask,
    float* __restrict__ y, unsigned char* __restrict__ argmax, int n, int has_relu
) {
    using Halo = FlatHalo<IMAGES, ROWS, COLUMNS, K, K, S, P, BACK, 64 * UPON * MT>;
    constexpr int CHANNELS = 32, CHUNKS = CHANNELS / 8, COPIES = FORMAT == SPLIT ? 2 : 1, PLANES = over(C, CHANNELS),
        STAGES = over(PLANES, TOGETHER), TAPS = K * K, BOXES = over(K, TAP_ROWS), BOX = TAP_ROWS * K,
        EACH = 32 / CHUNKS;
    constexpr int WARPS = 4 * UPON * ACROSS, THREADS = 32 * WARPS, NW = BN / ACROSS;
    constexpr int SIDE = BACK ? S : 1, CLASSES = SIDE * SIDE, STEPS = CLASSES * STAGES * BOXES;
    // in units of 16 bytes: of a plane, its pixels, their inverse scales, and the weights of a tap; of a stage, the
    // weights of a box of taps and the pixels
    constexpr int PLANE = COPIES * CHUNKS * Halo::SPACE, SCALES = SCALED<FORMAT> ? over(Halo::SPACE, 4) : 0,
        PANEL = COPIES * CHUNKS * BN, WEIGHTS = TOGETHER * BOX * PANEL, PIXELS = TOGETHER * (PLANE + SCALES);
    constexpr int BUFFERS = STAGES * BOXES > 1 ? 2 : 1, HALVES = STAGES > 1 ? 2 : 1,
        STAGED = BUFFERS * WEIGHTS + HALVES * PIXELS;
    using Out = RectangleOut<POOL, O, OH, OW, IMAGES, ROWS * SIDE, COLUMNS * SIDE, BN, 1, THREADS>;
    static_assert(MT <= 2 || !SCALED<FORMAT>);
    // pixels that lanes bring; windows of a pool that the halo touches, if they are brought
    constexpr bool WINDOWS = GRADIENT == POOLED;
    constexpr int DOWN_WINDOWS = Halo::HIGH / 2 + 1, ALONG_WINDOWS = Halo::WIDE / 2 + 1;
    constexpr int GROUPS = over(WINDOWS ? IMAGES * DOWN_WINDOWS * ALONG_WINDOWS : Halo::COUNT, EACH),
        TURNS = over(TOGETHER * GROUPS, WARPS), HELD = STAGES > 1 ? TURNS : over(TURNS, over(TURNS, 6));
    static_assert(STAGES == 1 || TURNS <= 6);

    extern __shared__ uint4 shared[];
    __shared__ float ends[2 * BN];  // of each output: what inverts the scale of its weights, and the bias
    float* const sums = reinterpret_cast<float*>(shared + (CLASSES > 1 ? STAGED : 0));
    uint4* const staged = shared + BUFFERS * WEIGHTS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    constexpr int HIGH = BACK ? over(OH, S) : POOL ? OH / 2 * 2 : OH, WIDE = BACK ? over(OW, S)
        : POOL ? OW / 2 * 2 : OW, BANDS = over(HIGH, ROWS), STRIPES = over(WIDE, COLUMNS);
    const int column0 = blockIdx.x % STRIPES * COLUMNS, row0 = blockIdx.x / STRIPES % BANDS * ROWS,
        image0 = blockIdx.x / STRIPES / BANDS * IMAGES, o0 = blockIdx.y * BN;
    const int read_row = BACK ? row0 + Halo::LOW : row0 * S - P, read_column = BACK ? column0 + Halo::LOW
        : column0 * S - P;
    const uint4* from = packed + static_cast<long long>(blockIdx.y) * (PLANES * TAPS * PANEL);
    const float* scales = reinterpret_cast<const float*>(packed + gridDim.y * (PLANES * TAPS * PANEL));

    const auto copy_weights = [&](int step) {
        const int stage = step / BOXES % STAGES, box = step % BOXES,
            planes = least(TOGETHER, PLANES - stage * TOGETHER), numbers = least(BOX, TAPS - box * BOX) * PANEL;
        uint4* to = shared + step % BUFFERS * WEIGHTS;
        const uint4* source = from + stage * TOGETHER * (TAPS * PANEL) + box * (BOX * PANEL);
        for (int plane = 0; plane < planes; ++plane)
#pragma unroll 4
            for (int i = threadIdx.x; i < numbers; i += THREADS)
                copy_sixteen(to + plane * (BOX * PANEL) + i, source + plane * (TAPS * PANEL) + i, 1);
        commit_copies();
    };
    for (int i = threadIdx.x; i < BN; i += THREADS) {
        ends[i] = SCALED<FORMAT> ? scales[o0 + i] : 1.0f;
        ends[BN + i] = bias != nullptr && o0 + i < O ? bias[o0 + i] : 0.0f;
    }
    copy_weights(0);
    // What products read after the halo's end; their sums are dropped.
    for (int i = threadIdx.x; i < HALVES * PIXELS; i += THREADS)
        if (i % PIXELS >= TOGETHER * PLANE || i % PIXELS % Halo::SPACE >= Halo::COUNT)
            staged[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();

    // A warp brings EACH pixels of a plane at a time; the lanes of one have eight channels each.
    const int chunk = lane / EACH;
    const Pixels<GRADIENT, C, H, W> pixels{x, relu, n};
    const Windows<C, H, W> windows{x, pool_argmax, n};
    const auto inverse_scales = [&](int half, int plane) {
        return reinterpret_cast<float*>(staged + half * PIXELS + TOGETHER * PLANE + plane * SCALES); };
    const auto read = [&](float (&held)[8], unsigned (&places)[2], int stage, int turn) {
        const int item = warp + turn * WARPS, plane = item / GROUPS, pixel = item % GROUPS * EACH + lane % EACH;
        const int first = (stage * TOGETHER + plane) * CHANNELS + 8 * chunk;
        if constexpr (WINDOWS) {
            const int image = pixel / (DOWN_WINDOWS * ALONG_WINDOWS), row = pixel / ALONG_WINDOWS % DOWN_WINDOWS,
                column = pixel % ALONG_WINDOWS;
            windows.read(held, places, plane < TOGETHER && image < IMAGES && first < C ? image0 + image : n,
                (read_row >> 1) + row, (read_column >> 1) + column, min(first, C - 1));
        } else {
            const int image = pixel / (Halo::HIGH * Halo::WIDE), row = pixel / Halo::WIDE % Halo::HIGH,
                column = pixel % Halo::WIDE;
            pixels.read(held, plane < TOGETHER && image < IMAGES && first < C ? image0 + image : n, read_row + row,
                read_column + column, min(first, C - 1));
        }
    };
    const auto put = [&](float (&held)[8], const unsigned (&places)[2], int half, int turn) {
        const int item = warp + turn * WARPS, plane = item / GROUPS, pixel = item % GROUPS * EACH + lane % EACH;
        float back = 1.0f;
        if constexpr (SCALED<FORMAT>) {
            const unsigned exponent = shared_exponent<EACH, 32>(largest_of(held));
            scale_all(held, power_of_two(exponent));
            back = power_of_two(254u - exponent) * DOWN;
        }
        if (plane >= TOGETHER) return;
        uint4* const to = staged + half * PIXELS + plane * PLANE + chunk * Halo::SPACE;
        const Eight<FORMAT> eight(held);
        const auto store = [&](int at, const unsigned (&wanted)[4]) {
            to[at] = make_uint4(eight.high[0] & wanted[0], eight.high[1] & wanted[1], eight.high[2] & wanted[2],
                eight.high[3] & wanted[3]);
            if constexpr (FORMAT == SPLIT)
                to[CHUNKS * Halo::SPACE + at] = make_uint4(eight.low[0] & wanted[0], eight.low[1] & wanted[1],
                    eight.low[2] & wanted[2], eight.low[3] & wanted[3]);
            if (SCALED<FORMAT> && chunk == 0) inverse_scales(half, plane)[at] = back;
        };
        if constexpr (WINDOWS) {
            const int image = pixel / (DOWN_WINDOWS * ALONG_WINDOWS),
                row = pixel / ALONG_WINDOWS % DOWN_WINDOWS * 2 - (read_row & 1),
                column = pixel % ALONG_WINDOWS * 2 - (read_column & 1);
            if (image >= IMAGES) return;
#pragma unroll
            for (int place = 0; place < 4; ++place) {
                const int r = row + place / 2, c = column + place % 2;
                if (static_cast<unsigned>(r) >= static_cast<unsigned>(Halo::HIGH)
                    || static_cast<unsigned>(c) >= static_cast<unsigned>(Halo::WIDE)) continue;
                unsigned wanted[4];
                masks_of(wanted, places, place);
                store(Halo::at(image, r, c), wanted);
            }
        } else if (pixel < Halo::COUNT) {
            const unsigned all[4] = {~0u, ~0u, ~0u, ~0u};
            store(Halo::at(pixel / (Halo::HIGH * Halo::WIDE), pixel / Halo::WIDE % Halo::HIGH, pixel % Halo::WIDE),
                all);
        }
    };

    float held[HELD][8];
    unsigned places[HELD][2];  // of windows alone
    const auto read_stage = [&](int stage) {
#pragma unroll
        for (int turn = 0; turn < HELD; ++turn) read(held[turn], places[turn], stage, turn);
    };
    const auto put_stage = [&](int half) {
#pragma unroll
        for (int turn = 0; turn < HELD; ++turn) put(held[turn], places[turn], half, turn);
    };
    if constexpr (STAGES > 1) {
        read_stage(0);
        put_stage(0);
        read_stage(1);
    } else {
#pragma unroll 1
        for (int first = 0; first < TURNS; first += HELD) {
#pragma unroll
            for (int turn = 0; turn < HELD; ++turn) read(held[turn], places[turn], 0, first + turn);
#pragma unroll
            for (int turn = 0; turn < HELD; ++turn) put(held[turn], places[turn], 0, first + turn);
        }
    }

    const int group = __shfl_sync(EVERY_LANE, warp / 4, 0), m0 = group / ACROSS * (64 * MT), n0 = group % ACROSS * NW;
    float sum[MT][NW / 2];
#pragma unroll 1
    for (int step = 0; step < STEPS; ++step) {
        const int round = step / BOXES, phase = round / STAGES, stage = round % STAGES, box = step % BOXES,
            b0 = phase / SIDE, b1 = phase % SIDE;
        if (BUFFERS > 1 || step == 0) {
            wait_for_copies<0>();
            tiles_written();
            __syncthreads();  // the stage is there, and all products of the one before have ended
        }
        if (BUFFERS > 1 && step + 1 < STEPS) copy_weights(step + 1);
        if (stage == 0 && box == 0)
#pragma unroll
            for (int i = 0; i < MT; ++i)
#pragma unroll
                for (int l = 0; l < NW / 2; ++l) sum[i][l] = 0.0f;

        const unsigned long long left = descriptor(staged + round % HALVES * PIXELS + m0, 16 * Halo::SPACE, 128, 0),
            right = descriptor(shared + step % BUFFERS * WEIGHTS + n0, 16 * BN, 128, 0);
        const int planes = least(TOGETHER, PLANES - stage * TOGETHER);
        const int i0 = BACK ? first_tap(b0, S, P) : 0, j0 = BACK ? first_tap(b1, S, P) : 0, top = box * TAP_ROWS,
            end = least(K, top + TAP_ROWS);
        if constexpr (!SCALED<FORMAT>) wgmma_begin();
#pragma unroll 1
        for (int i = BOXES == 1 || i0 >= top ? i0 : i0 + over(top - i0, SIDE) * SIDE; i < end; i += SIDE)
#pragma unroll 1
            for (int j = j0; j < K; j += SIDE) {
                const int offset = BACK
                    ? (reach(b0, S, P) - i / S - Halo::LOW) * Halo::PART + reach(b1, S, P) - j / S - Halo::LOW
                    : Halo::at(0, i, j);
#pragma unroll 1
                for (int plane = 0; plane < planes; ++plane) {
                    const unsigned long long a = left + (plane * PLANE + offset),
                        b = right + (plane * BOX + (i - top) * K + j) * PANEL;
                    if constexpr (!SCALED<FORMAT>) {
#pragma unroll
                        for (int term = 0; term < CHUNKS; term += 2)
#pragma unroll
                            for (int l = 0; l < MT; ++l)
                                multiply_sixteen<FORMAT, NW>(sum[l], a + (term * Halo::SPACE + 64 * l), b + term * BN,
                                    true);
                    } else {
                        float part[MT][NW / 2];
                        wgmma_begin();
#pragma unroll
                        for (int l = 0; l < MT; ++l) {
#pragma unroll
                            for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)  // small ones first
#pragma unroll
                                for (int term = 0; term < CHUNKS; term += 2)
                                    multiply_sixteen<FORMAT, NW>(part[l],
                                        a + ((term + (product == 0 ? CHUNKS : 0)) * Halo::SPACE + 64 * l),
                                        b + (term + (product == 1 ? CHUNKS : 0)) * BN,
                                        term > 0 || (FORMAT == SPLIT && product > 0));
                            wgmma_commit();
                        }
                        const float* its = inverse_scales(round % HALVES, plane) + offset + m0 + warp % 4 * 16 + g;
#pragma unroll
                        for (int l = 0; l < MT; ++l) {
                            const float upper = its[64 * l], lower = its[64 * l + 8];
                            if (l + 1 < MT) wgmma_wait<1>();
                            else wgmma_wait<0>();
#pragma unroll
                            for (int e = 0; e < NW / 2; ++e)
                                sum[l][e] = fmaf(part[l][e], e / 2 % 2 ? lower : upper, sum[l][e]);
                        }
                    }
                }
            }
        if constexpr (!SCALED<FORMAT>) wgmma_commit();
        if constexpr (STAGES > 1) {  // while products run
            if (box == BOXES - 1 && round + 1 < CLASSES * STAGES) {
                put_stage((round + 1) % HALVES);
                if (round + 2 < CLASSES * STAGES) read_stage((round + 2) % STAGES);
            }
        }
        if constexpr (!SCALED<FORMAT>) wgmma_wait<0>();

        if (stage < STAGES - 1 || box < BOXES - 1) continue;
        if constexpr (CLASSES == 1) __syncthreads();  // sums take the place of what was multiplied
#pragma unroll
        for (int i = 0; i < MT; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int number = m0 + 64 * i + warp % 4 * 16 + 8 * half + g, image = number / Halo::IMAGE,
                    row = number / Halo::PART % Halo::DOWN, column = number % Halo::PART;
                float* to = sums + (image * (ROWS * SIDE) + row * SIDE + b0) * (COLUMNS * SIDE) + column * SIDE + b1
                    + (n0 + 2 * t) * Out::PITCH;
                if (image < IMAGES && row < ROWS && column < COLUMNS)
#pragma unroll
                    for (int e = 0; e < NW / 8; ++e)
#pragma unroll
                        for (int l = 0; l < 2; ++l) to[(8 * e + l) * Out::PITCH] = sum[i][4 * e + 2 * half + l];
            }
    }
    __syncthreads();
    const Out out{sums, ends, relu_mask, n, has_relu};
    out.write(y, argmax, Corner{image0, row0 * SIDE, column0 * SIDE}, o0);
}
