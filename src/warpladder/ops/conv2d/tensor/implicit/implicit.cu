// Convolutions as implicit GEMMs whose shapes are constants: y with bias, ReLU and pool, and dx.
// Launched by `ImplicitPass` of implicit.py.
//
// A block has a rectangle of written pixels of some images, and BN outputs. What it reads lies in shared memory
// channels last, in planes of at most 32 channels, next to the weights of all taps, or of some rows of them: a tap is
// an offset. Where all planes have room, they come at once; else in stages, and the next one is on its way while one is
// multiplied. On the way back (dx) pixels r = S q + b of a class b read the same taps; a block has all classes of its
// rectangle of q.
// arch: sm_80, sm_90, sm_100
#include "async.cuh"
#include "out.cuh"
#include "tap.cuh"

// of a patch's rows, or of the halo in shared memory: columns of a parity (modulo STEP) lie next to each other, so that
// neighbours in y are neighbours there, whatever the stride.
template <int ROWS, int COLUMNS, int K, int S, int P, bool BACK>
struct HaloShape {
    static constexpr int STEP = BACK ? 1 : S, LOW = BACK ? nearest(K, S, P) : -P,
        HIGH = BACK ? ROWS + farthest(S, P) - LOW : (ROWS - 1) * S + K,
        WIDE = BACK ? COLUMNS + farthest(S, P) - LOW : (COLUMNS - 1) * S + K, PART = over(WIDE, STEP),
        PITCH = STEP * PART;
};

// x: (n, C, H, W), the image that is read; relu, pool_argmax: see Pixels. packed: of implicit_pack.cu. y: (n, O, OH,
// OW); POOL: after ReLU and a 2 x 2 pool, (n, O, OH / 2, OW / 2), and argmax as y. relu_mask: null, or as y: y is 0
// where relu_mask is not above 0. K, S, P: window, stride and padding; BACK: of the convolution from y to x. FEW:
// terms are (channel, tap). A block has IMAGES x ROWS x COLUMNS pixels (of y, or of q) and BN outputs, and UPON x
// ACROSS warps, each with MT times 16 pixels. DEEP times as many warps share the planes of a stage, TOGETHER, whose
// weights are there for TAP_ROWS rows of taps at a time. x counts rectangles, y BN outputs.
template <int FORMAT, bool BACK, bool FEW, int GRADIENT, bool POOL, int C, int H, int W, int O, int OH, int OW, int K,
    int S, int P, int IMAGES, int ROWS, int COLUMNS, int BN, int UPON, int ACROSS, int DEEP, int MT, int TOGETHER,
    int TAP_ROWS>
__global__ void __launch_bounds__(32 * UPON * ACROSS * DEEP, 1) convolve_implicit(
    const float* __restrict__ x, const float* __restrict__ relu, const unsigned char* __restrict__ pool_argmax,
    const uint4* __restrict__ packed, const float* __restrict__ bias, const float* __restrict__ relu_mask,
    float* __restrict__ y, unsigned char* __restrict__ argmax, int n, int has_relu
) {
    using Halo = HaloShape<ROWS, COLUMNS, K, S, P, BACK>;
    constexpr int TERMS = FEW ? C * K * K : C, CHANNELS = row_channels(TERMS), PLANES = planes_of(TERMS),
        STAGES = over(PLANES, TOGETHER), TAPS = FEW ? 1 : K * K,
        BOXES = FEW ? 1 : over(K, TAP_ROWS), BOX = FEW ? 1 : TAP_ROWS * K;
    using Tile = Lines<FORMAT, CHANNELS>;
    constexpr int COPIES = Tile::COPIES, CHUNKS = Tile::CHUNKS, STRIDE = Tile::STRIDE, STEPS = CHANNELS / 16,
        EACH = 32 / CHUNKS;
    constexpr int WARPS = UPON * ACROSS * DEEP, THREADS = 32 * WARPS, BM = 16 * MT * UPON,
        COUNT = IMAGES * ROWS * COLUMNS, NT = BN / ACROSS / 8;
    constexpr int BROUGHT = FEW ? BM : IMAGES * Halo::HIGH * Halo::PITCH, PANEL = BN * STRIDE;
    constexpr int SIDE = BACK ? S : 1, CLASSES = SIDE * SIDE;
    // in units of 16 bytes: the weights of a box of taps, and the pixels, of a stage
    constexpr int WEIGHTS = TOGETHER * BOX * PANEL, PIXELS = TOGETHER * BROUGHT * STRIDE,
        BUFFERS = STAGES * BOXES > 1 ? 2 : 1, HALVES = STAGES > 1 ? 2 : 1, STAGED = BUFFERS * WEIGHTS + HALVES * PIXELS;
    constexpr int OUT_ROWS = ROWS * SIDE, OUT_COLUMNS = COLUMNS * SIDE;
    using Out = RectangleOut<POOL, O, OH, OW, IMAGES, OUT_ROWS, OUT_COLUMNS, BN, DEEP, THREADS>;
    static_assert(COUNT <= BM && NT % 2 == 0 && BN % (8 * ACROSS) == 0);
    // windows of a pool that the halo touches, if they are brought
    constexpr bool WINDOWS = GRADIENT == POOLED;
    constexpr int DOWN_WINDOWS = Halo::HIGH / 2 + 1, ALONG_WINDOWS = Halo::WIDE / 2 + 1;
    constexpr int GROUPS = over(WINDOWS ? IMAGES * DOWN_WINDOWS * ALONG_WINDOWS : BROUGHT, EACH),
        TURNS = over((FEW ? 1 : TOGETHER) * GROUPS, WARPS),
        HELD = STAGES > 1 ? TURNS : over(TURNS, over(TURNS, 6));
    static_assert(STAGES == 1 || (TURNS <= 6 && !FEW));

    extern __shared__ uint4 shared[];
    __shared__ float ends[2 * BN];  // of each output: what inverts the scale of its weights, and the bias
    float* const sums = reinterpret_cast<float*>(shared + (CLASSES > 1 ? STAGED : 0));
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
            planes = least(TOGETHER, PLANES - stage * TOGETHER);
        uint4* to = shared + step % BUFFERS * WEIGHTS;
        const uint4* source = from + stage * TOGETHER * (TAPS * PANEL) + box * (BOX * PANEL);
        if constexpr (BOXES == 1) {
#pragma unroll 4
            for (int i = threadIdx.x; i < planes * (TAPS * PANEL); i += THREADS) copy_sixteen(to + i, source + i, 1);
        } else {
            const int numbers = least(BOX, TAPS - box * BOX) * PANEL;
            for (int plane = 0; plane < planes; ++plane)
#pragma unroll 4
                for (int i = threadIdx.x; i < numbers; i += THREADS)
                    copy_sixteen(to + plane * (BOX * PANEL) + i, source + plane * (TAPS * PANEL) + i, 1);
        }
        commit_copies();
    };

    for (int i = threadIdx.x; i < BN; i += THREADS) {
        ends[i] = SCALED<FORMAT> ? scales[o0 + i] : 1.0f;
        ends[BN + i] = bias != nullptr && o0 + i < O ? bias[o0 + i] : 0.0f;
    }

    // A warp brings EACH pixels of a plane at a time; the lanes of one have eight channels each.
    const int chunk = lane / EACH;
    const Pixels<GRADIENT, C, H, W> pixels{x, relu, n};
    const Windows<C, H, W> windows{x, pool_argmax, n};
    const auto read = [&](float (&held)[8], unsigned (&places)[2], int stage, int turn) {
        const int item = warp + turn * WARPS, plane = item / GROUPS, pixel = item % GROUPS * EACH + lane % EACH;
        const int first = (stage * TOGETHER + plane) * CHANNELS + 8 * chunk;
        if constexpr (WINDOWS) {
            const int image = pixel / (DOWN_WINDOWS * ALONG_WINDOWS), row = pixel / ALONG_WINDOWS % DOWN_WINDOWS,
                column = pixel % ALONG_WINDOWS;
            windows.read(held, places, plane < TOGETHER && image < IMAGES && first < C ? image0 + image : n,
                (read_row >> 1) + row, (read_column >> 1) + column, min(first, C - 1));
        } else if constexpr (!FEW) {
            // in the order of memory: `pixel` counts columns of the image, which lie sorted by parity
            const int image = pixel / (Halo::HIGH * Halo::PITCH), row = pixel / Halo::PITCH % Halo::HIGH,
                column = pixel % Halo::PITCH;
            pixels.read(held, plane < TOGETHER && image < IMAGES && first < C ? image0 + image : n, read_row + row,
                read_column + column, min(first, C - 1));
        }
    };
    const auto read_patch = [&](float (&held)[8], const Patch<C, H, W, K>& patch, int turn) {
        const int pixel = (warp + turn * WARPS) * EACH + lane % EACH, image = pixel / (ROWS * COLUMNS),
            row = pixel / COLUMNS % ROWS, column = pixel % COLUMNS;
        patch.read(held, image0 + image, read_row + row * S, read_column + column * S,
            pixel < COUNT && row0 + row < OH && column0 + column < OW);
    };
    uint4* const staged = shared + BUFFERS * WEIGHTS;
    const auto put = [&](float (&held)[8], const unsigned (&places)[2], int turn, int plane, int pixel) {
        const Tile tile{staged + turn % HALVES * PIXELS + plane * (BROUGHT * STRIDE)};
        float back = 1.0f;
        if constexpr (SCALED<FORMAT>) {
            const unsigned exponent = shared_exponent<EACH, 32>(largest_of(held));
            scale_all(held, power_of_two(exponent));
            back = power_of_two(254u - exponent) * DOWN;
        }
        if constexpr (WINDOWS) {
            const int image = pixel / (DOWN_WINDOWS * ALONG_WINDOWS),
                row = pixel / ALONG_WINDOWS % DOWN_WINDOWS * 2 - (read_row & 1),
                column = pixel % ALONG_WINDOWS * 2 - (read_column & 1);
            if (plane >= TOGETHER || image >= IMAGES) return;
            const Eight<FORMAT> eight(held);
#pragma unroll
            for (int place = 0; place < 4; ++place) {
                const int r = row + place / 2, c = column + place % 2;
                if (static_cast<unsigned>(r) >= static_cast<unsigned>(Halo::HIGH)
                    || static_cast<unsigned>(c) >= static_cast<unsigned>(Halo::WIDE)) continue;
                const int at = (image * Halo::HIGH + r) * Halo::PITCH + c;
                unsigned wanted[4];
                masks_of(wanted, places, place);
                tile.put(eight, wanted, at, chunk);
                if (SCALED<FORMAT> && chunk == 0) *tile.inverse_scale(at) = back;
            }
            return;
        }
        if (plane >= TOGETHER || pixel >= BROUGHT) return;
        const int at = FEW || Halo::STEP == 1 ? pixel : pixel - pixel % Halo::PITCH
            + pixel % Halo::PITCH % Halo::STEP * Halo::PART + pixel % Halo::PITCH / Halo::STEP;
        tile.put(Eight<FORMAT>(held), at, chunk);
        if (SCALED<FORMAT> && chunk == 0) *tile.inverse_scale(at) = back;
    };
    const auto put_turn = [&](float (&held)[8], const unsigned (&places)[2], int step, int turn) {
        const int item = warp + turn * WARPS;
        put(held, places, step, item / GROUPS, item % GROUPS * EACH + lane % EACH);
    };

    // Rows of this warp's fragments: what the first tap reads, and for its own pixels where their scales are.
    const int m0 = warp / ACROSS % UPON * (16 * MT), n0 = warp % ACROSS * (8 * NT), deep = warp / (UPON * ACROSS);
    const auto row_of = [&](int pixel) {
        if (FEW) return pixel;
        if (pixel >= COUNT) return 0;
        const int image = pixel / (ROWS * COLUMNS), row = pixel / COLUMNS % ROWS, column = pixel % COLUMNS;
        return (image * Halo::HIGH + row * Halo::STEP) * Halo::PITCH + column;
    };
    int rows[MT], own[MT][2];
#pragma unroll
    for (int i = 0; i < MT; ++i) {
        rows[i] = row_of(m0 + 16 * i + lane % 16);
        own[i][0] = row_of(m0 + 16 * i + g), own[i][1] = row_of(m0 + 16 * i + g + 8);
    }

    float held[HELD][8], sum[MT][NT][4];
    unsigned places[HELD][2];  // of windows alone
    copy_weights(0);
    if constexpr (STAGES > 1)
#pragma unroll
        for (int turn = 0; turn < HELD; ++turn) read(held[turn], places[turn], 0, turn);
#pragma unroll 1
    for (int step = 0; step < CLASSES * STAGES * BOXES; ++step) {
        const int round = step / BOXES, phase = round / STAGES, stage = round % STAGES, box = step % BOXES,
            b0 = phase / SIDE, b1 = phase % SIDE;
        if constexpr (STAGES > 1) {
            if (box == 0)
#pragma unroll
                for (int turn = 0; turn < HELD; ++turn) put_turn(held[turn], places[turn], round, turn);
        } else if (FEW) {
#pragma unroll 1
            for (int plane = 0; plane < PLANES; ++plane) {
                const Patch<C, H, W, K> patch(x, n, plane * CHANNELS + 8 * chunk);
#pragma unroll 1
                for (int first = 0; first < TURNS; first += HELD) {
#pragma unroll
                    for (int turn = 0; turn < HELD; ++turn) read_patch(held[turn], patch, first + turn);
#pragma unroll
                    for (int turn = 0; turn < HELD; ++turn)
                        put(held[turn], places[turn], 0, plane, (warp + (first + turn) * WARPS) * EACH + lane % EACH);
                }
            }
        } else if (step == 0) {
#pragma unroll 1
            for (int first = 0; first < TURNS; first += HELD) {
#pragma unroll
                for (int turn = 0; turn < HELD; ++turn) read(held[turn], places[turn], 0, first + turn);
#pragma unroll
                for (int turn = 0; turn < HELD; ++turn) put_turn(held[turn], places[turn], 0, first + turn);
            }
        }
        if (BUFFERS > 1 || step == 0) {
            wait_for_copies<0>();
            __syncthreads();  // the stage is there, and all threads have read the one before
        }
        if (BUFFERS > 1 && step + 1 < CLASSES * STAGES * BOXES) copy_weights(step + 1);
        if (STAGES > 1 && box == 0 && round + 1 < CLASSES * STAGES)
#pragma unroll
            for (int turn = 0; turn < HELD; ++turn) read(held[turn], places[turn], (round + 1) % STAGES, turn);
        if (stage == 0 && box == 0)
#pragma unroll
            for (int i = 0; i < MT; ++i)
#pragma unroll
                for (int j = 0; j < NT; ++j)
#pragma unroll
                    for (int l = 0; l < 4; ++l) sum[i][j][l] = 0.0f;

        const uint4* weights = shared + step % BUFFERS * WEIGHTS + STRIDE * (n0 + lane % 8 + lane / 16 * 8)
            + lane / 8 % 2;
        const Tile tile{staged + round % HALVES * PIXELS};
        const int planes = least(TOGETHER, PLANES - stage * TOGETHER);
        const int i0 = BACK ? first_tap(b0, S, P) : 0, j0 = BACK ? first_tap(b1, S, P) : 0, top = box * TAP_ROWS,
            end = FEW ? 1 : least(K, top + TAP_ROWS);
#pragma unroll 1
        for (int i = BOXES == 1 || i0 >= top ? i0 : i0 + over(top - i0, SIDE) * SIDE; i < end; i += SIDE)
#pragma unroll 1
            for (int j = j0; j < (FEW ? 1 : K); j += SIDE) {
                const int offset = FEW ? 0
                    : BACK ? (reach(b0, S, P) - i / S - Halo::LOW) * Halo::PITCH + reach(b1, S, P) - j / S - Halo::LOW
                           : i * Halo::PITCH + j % Halo::STEP * Halo::PART + j / Halo::STEP;
#pragma unroll 1
                for (int plane = deep; plane < planes; plane += DEEP)
                    multiply_tap<FORMAT, CHANNELS, MT, NT>(sum, tile, plane * BROUGHT + offset, rows, own,
                        weights + (plane * BOX + (i - top) * K + j) * PANEL);
            }

        if (stage < STAGES - 1 || box < BOXES - 1) continue;
        if constexpr (CLASSES == 1) __syncthreads();  // sums take the place of what was multiplied
#pragma unroll
        for (int i = 0; i < MT; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int pixel = m0 + 16 * i + 8 * half + g, image = pixel / (ROWS * COLUMNS),
                    row = pixel / COLUMNS % ROWS, column = pixel % COLUMNS;
                float* to = sums + (image * OUT_ROWS + row * SIDE + b0) * OUT_COLUMNS + column * SIDE + b1
                    + (deep * BN + n0 + 2 * t) * Out::PITCH;
                if (pixel < COUNT)
#pragma unroll
                    for (int j = 0; j < NT; ++j)
#pragma unroll
                        for (int l = 0; l < 2; ++l) to[(8 * j + l) * Out::PITCH] = sum[i][j][2 * half + l];
            }
    }
    __syncthreads();

    const Out out{sums, ends, relu_mask, n, has_relu};
    out.write(y, argmax, Corner{image0, row0 * SIDE, column0 * SIDE}, o0);
}
