// Convolutions by warpgroup products (wgmma): y[pixel, o] = sum over (64 channels, tap, channel) of x[pixel + tap, channel] w[(64 channels, tap, channel), o].
//
// Windows of 3 x 3, stride 1, one pixel of padding, alone or behind an enlargement by 2 (taps.cuh), over images that warpgroup_pack.cu has written channels
// last. A tap's factor is a square of pixels like any other, one pixel further: the copy engine is given another place and nothing is unfolded. The input
// gradient is the same with other weights. Of an enlarged layer's y a tile has pixels of one class; the classes of a square follow each other, so that rows of y
// are filled up while they are in the second-level cache.
// Of three warpgroups one asks for pieces, by one of its threads; two multiply. Blocks stay, and make one tile after the other.
// bf16: sums stay in the tensor cores. SPLIT, fp32: they leave them after each tap's 64 channels, are scaled back, and added up by additions that round.
// HALF, fp16: likewise, but after all taps of 64 channels, which have one scale, or after eight of sixteen.
// arch: sm_90a
#include "pooled.cuh"
#include "squares.cuh"

enum { PLAIN = 0, RECTIFY = 1, POOL = 2 };  // what is done with a sum and its bias

// way: taps.cuh's. pixels: (n, h, w, c), of GATHERED (4 n, h, w, c), or the high halves and the low ones; weights: (classes taps c, o) likewise.
// x_undo: (n, c / 64), w_undo: (o,), both null in bf16. bias: (o,) or null. below: null, or as y, the output of a ReLU whose gradient y shall be.
// y: (n, o, h, w); of ENLARGED (n, o, 2 h, 2 w), which has no POOL; of POOL (n, o, h / 2, w / 2), winner likewise.
// packed: null, or y once more, for a layer of these that reads it in bf16: channels last and rounded, as pack_pixels of warpgroup_pack.cu has it.
// A block makes 128 outputs of 2 PIECES squares, each warpgroup PIECES of them.
template <int FORMAT, int PIECES>
__global__ void __launch_bounds__(THREADS, 1) convolve(
    const __grid_constant__ TensorMap pixels, const __grid_constant__ TensorMap pixels_low, const __grid_constant__ TensorMap weights,
    const __grid_constant__ TensorMap weights_low, const float* __restrict__ x_undo, const float* __restrict__ w_undo, const float* __restrict__ bias,
    const float* __restrict__ below, float* __restrict__ y, unsigned char* __restrict__ winner, unsigned short* __restrict__ packed, int n, int c,
    int h, int w, int o, int after, int way
) {
    constexpr int FIRST = GROUPS * PIECES, SECOND = COLUMNS / 64;
    using Stages = Ring<FORMAT, FIRST, SECOND>;
    extern __shared__ uint4 shared[];
    __shared__ Stages stages;
    char* ring = first_stage(shared);
    stages.init();
    const Squares squares(n, h, w);
    const Taps taps{way};
    const int tiles_o = (o + COLUMNS - 1) / COLUMNS, across = taps.classes() * tiles_o, tiles = (squares.count() + FIRST - 1) / FIRST * across;
    const int steps = c / 64 * taps.count();
    Turn<Stages::STAGES> turn;
    if (threadIdx.x < 128) {
        fewer_registers<40>();
        if (threadIdx.x != 0) return;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first = tile / across * FIRST, left = tile % tiles_o * COLUMNS, of_class = tile % across / tiles_o;
            int column[FIRST], row[FIRST], image[FIRST], term = of_class * steps * 64;
#pragma unroll
            for (int piece = 0; piece < FIRST; ++piece)
                column[piece] = squares.column(first + piece), row[piece] = squares.row(first + piece), image[piece] = squares.image(first + piece);
            for (int channel = 0; channel < c; channel += 64)
                for (int i = 0; i < taps.side(); ++i)
                    for (int j = 0; j < taps.side(); ++j, term += 64, turn.next()) {
                        const int down = taps.far(i, of_class / 2), along = taps.far(j, of_class % 2);
                        barrier_wait(&stages.read[turn.stage], turn.parity ^ 1);  // the first time around nobody has to have read it
                        Barrier* arrived = &stages.arrived[turn.stage];
                        barrier_expect(arrived, Stages::BYTES);
#pragma unroll
                        for (int copy = 0; copy < Stages::COPIES; ++copy) {
                            char* to = ring + turn.stage * Stages::BYTES + copy * Stages::HALF_BYTES;
                            const TensorMap& from = copy ? pixels_low : pixels;
#pragma unroll
                            for (int piece = 0; piece < FIRST; ++piece)
                                copy_pixels(
                                    to + piece * PIECE, from, channel, column[piece] + along, row[piece] + down, taps.image(image[piece], i, j), arrived
                                );
#pragma unroll
                            for (int piece = 0; piece < SECOND; ++piece)
                                copy_tile(to + (FIRST + piece) * PIECE, copy ? weights_low : weights, left + 64 * piece, term, arrived);
                        }
                    }
        }
        return;
    }
    more_registers<232>();
    const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const auto done = [&](int stage) {
        if (lane == 0) barrier_arrive(&stages.read[stage]);
    };
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first = tile / across * FIRST + group * PIECES, left = tile % tiles_o * COLUMNS;
        float sum[PIECES][COLUMNS / 2];
        if constexpr (SCALED<FORMAT>) {
            static_assert(PIECES == 1, "there are registers for one piece's sums and parts");
            // Steps whose sums stay in the tensor cores: in HALF as many as have one scale, but nine at most.
            const int staying = FORMAT == SPLIT ? 1 : taps.way == GATHERED ? 8 : taps.count();
            float part[COLUMNS / 2];
#pragma unroll
            for (int i = 0; i < COLUMNS / 2; ++i) sum[0][i] = 0.0f;
            for (int block = 0; block < c / 64; ++block) {
                const float back = undone(x_undo, squares.image(first), n, c, block) * DOWN;
                for (int tap = 0; tap < taps.count(); tap += staying) {
                    for (int step = 0; step < staying; ++step, turn.next()) {
                        barrier_wait(&stages.arrived[turn.stage], turn.parity);
                        const char* stage = ring + turn.stage * Stages::BYTES;
                        wgmma_begin();
                        multiply_terms<FORMAT, false>(part, stage + group * PIECE, stage + FIRST * PIECE, Stages::HALF_BYTES, step > 0);
                        wgmma_commit();
                        wgmma_wait<1>();
                        if (step > 0) done(turn.before());  // of which no product is under way
                    }
                    wgmma_wait<0>();
                    done(turn.before());
#pragma unroll
                    for (int i = 0; i < COLUMNS / 2; ++i) sum[0][i] = fmaf(part[i], back, sum[0][i]);
                }
            }
        } else {
            for (int step = 0; step < steps; ++step, turn.next()) {
                barrier_wait(&stages.arrived[turn.stage], turn.parity);
                const char* stage = ring + turn.stage * Stages::BYTES;
                wgmma_begin();
#pragma unroll
                for (int piece = 0; piece < PIECES; ++piece)
                    multiply_terms<FORMAT, false>(sum[piece], stage + (group * PIECES + piece) * PIECE, stage + FIRST * PIECE, 0, step > 0);
                wgmma_commit();
                wgmma_wait<1>();
                if (step > 0) done(turn.before());  // of which no product is under way
            }
            wgmma_wait<0>();
            done(turn.before());
        }

        // A lane has two pixels below each other, in column g of the square, and pairs of outputs. Of an enlarged image they are every second pixel.
        const int apart = way == ENLARGED ? 2 : 1, of_class = tile % across / tiles_o, plane = h * apart * w * apart;
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            const int image = squares.image(first + piece), row = squares.row(first + piece) + 2 * warp, column = squares.column(first + piece) + g;
#pragma unroll
            for (int j = 0; j < COLUMNS / 8; ++j) {
                const int output = left + 8 * j + 2 * t, known = min(output, o - 2);
                float here[2][2];  // by pixel and output
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    float value = sum[piece][4 * j + i];
                    if constexpr (SCALED<FORMAT>) value *= w_undo[known + i % 2];
                    if (bias != nullptr) value += bias[known + i % 2];
                    here[i / 2][i % 2] = after == RECTIFY ? relu(value) : value;
                }
                if (after == POOL) {  // lanes of neighbouring columns share their windows: the even one's is of the first output, the odd one's of the second
                    const int odd = g % 2, ours = output + odd;
                    const float above = __shfl_xor_sync(EVERY_LANE, odd ? here[0][0] : here[0][1], 4);
                    const float beneath = __shfl_xor_sync(EVERY_LANE, odd ? here[1][0] : here[1][1], 4);
                    const float four[4] = {odd ? above : here[0][0], odd ? here[0][1] : above, odd ? beneath : here[1][0], odd ? here[1][1] : beneath};
                    if (image >= n || output >= o || row / 2 >= h / 2 || column / 2 >= w / 2) continue;
                    const int pixels = (h / 2) * (w / 2), pixel = row / 2 * (w / 2) + column / 2;
                    const Best best = best_of(four);
                    store_best(best, y, winner, (static_cast<long long>(image) * o + ours) * pixels + pixel);
                    if (FORMAT == BF16 && packed != nullptr)
                        packed[(static_cast<long long>(image) * pixels + pixel) * o + ours] = static_cast<unsigned short>(two_bf16(relu(best.value), 0.0f));
                    continue;
                }
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int line = row + i;
                    if (image >= n || output >= o || line >= h || column >= w) continue;
                    const int pixel = (line * apart + of_class / 2) * (w * apart) + column * apart + of_class % 2;
                    const long long target = (static_cast<long long>(image) * o + output) * plane + pixel;
#pragma unroll
                    for (int which = 0; which < 2; ++which) {
                        const long long at = target + which * plane;
                        y[at] = below != nullptr ? relu_gradient(here[i][which], below[at]) : here[i][which];
                    }
                    if (FORMAT == BF16 && packed != nullptr)
                        reinterpret_cast<unsigned*>(packed)[((static_cast<long long>(image) * plane + pixel) * o + output) / 2] = two_bf16(here[i][0], here[i][1]);
                }
            }
        }
    }
}
