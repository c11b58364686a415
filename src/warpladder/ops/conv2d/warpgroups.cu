// Convolutions by warpgroup products (wgmma): y[pixel, o] = sum over (64 channels, tap, channel) of x[pixel + tap, channel] w[(64 channels, tap, channel), o].
//
// Windows of 3 x 3, stride 1, one pixel of padding, over images that warpgroup_pack.cu has written channels last. A tap's factor is a square of pixels like any
// other, one pixel further: the copy engine is given another place and nothing is unfolded. The input gradient is the same with other weights.
// Of three warpgroups one asks for pieces, by one of its threads; two multiply. Blocks stay, and make one tile after the other.
// bf16: sums stay in the tensor cores. SPLIT, fp32: they leave them after each tap's 64 channels, are scaled back, and added up by additions that round.
// HALF, fp16: likewise, but after all nine taps of 64 channels, which have one scale.
// arch: sm_90a
#include "pooled.cuh"
#include "squares.cuh"

enum { PLAIN = 0, RECTIFY = 1, POOL = 2 };  // what is done with a sum and its bias

// pixels: (n, h, w, c), or the high halves and the low ones; weights: (9 c, o) likewise. x_undo: (n, c / 64), w_undo: (o,), both null in bf16.
// bias: (o,) or null. below: null, or as y, the output of a ReLU whose gradient y shall be. y: (n, o, h, w); of POOL (n, o, h / 2, w / 2), winner likewise.
// A block makes 128 outputs of 2 PIECES squares, each warpgroup PIECES of them.
template <int FORMAT, int PIECES>
__global__ void __launch_bounds__(THREADS, 1) convolve(
    const __grid_constant__ TensorMap pixels, const __grid_constant__ TensorMap pixels_low, const __grid_constant__ TensorMap weights,
    const __grid_constant__ TensorMap weights_low, const float* __restrict__ x_undo, const float* __restrict__ w_undo, const float* __restrict__ bias,
    const float* __restrict__ below, float* __restrict__ y, unsigned char* __restrict__ winner, int n, int c, int h, int w, int o, int after
) {
    constexpr int FIRST = GROUPS * PIECES, SECOND = COLUMNS / 64;
    using Stages = Ring<FORMAT, FIRST, SECOND>;
    extern __shared__ uint4 shared[];
    __shared__ Stages stages;
    char* ring = first_stage(shared);
    stages.init();
    const Squares squares(n, h, w);
    const int tiles_o = (o + COLUMNS - 1) / COLUMNS, tiles = (squares.count() + FIRST - 1) / FIRST * tiles_o, steps = c / 64 * TAPS * TAPS;
    Turn<Stages::STAGES> turn;
    if (threadIdx.x < 128) {
        fewer_registers<40>();
        if (threadIdx.x != 0) return;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first = tile / tiles_o * FIRST, left = tile % tiles_o * COLUMNS;
            for (int step = 0; step < steps; ++step, turn.next()) {
                const int tap = step % (TAPS * TAPS), channel = step / (TAPS * TAPS) * 64;
                barrier_wait(&stages.read[turn.stage], turn.parity ^ 1);  // the first time around nobody has to have read it
                Barrier* arrived = &stages.arrived[turn.stage];
                barrier_expect(arrived, Stages::BYTES);
#pragma unroll
                for (int copy = 0; copy < Stages::COPIES; ++copy) {
                    char* to = ring + turn.stage * Stages::BYTES + copy * Stages::HALF_BYTES;
#pragma unroll
                    for (int piece = 0; piece < FIRST; ++piece)
                        copy_pixels(
                            to + piece * PIECE, copy ? pixels_low : pixels, channel, squares.column(first + piece) + tap % TAPS - 1,
                            squares.row(first + piece) + tap / TAPS - 1, squares.image(first + piece), arrived
                        );
#pragma unroll
                    for (int piece = 0; piece < SECOND; ++piece)
                        copy_tile(to + (FIRST + piece) * PIECE, copy ? weights_low : weights, left + 64 * piece, step * 64, arrived);
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
        const int first = tile / tiles_o * FIRST + group * PIECES, left = tile % tiles_o * COLUMNS;
        float sum[PIECES][COLUMNS / 2];
        if constexpr (SCALED<FORMAT>) {
            static_assert(PIECES == 1, "there are registers for one piece's sums and parts");
            constexpr int STAYING = FORMAT == SPLIT ? 1 : TAPS * TAPS;  // steps whose sums stay in the tensor cores
            float part[COLUMNS / 2], back = 0.0f;
#pragma unroll
            for (int i = 0; i < COLUMNS / 2; ++i) sum[0][i] = 0.0f;
            for (int begin = 0; begin < steps; begin += STAYING) {
                if (begin % (TAPS * TAPS) == 0) back = undone(x_undo, squares.image(first), n, c, begin / (TAPS * TAPS)) * DOWN;
                for (int step = 0; step < STAYING; ++step, turn.next()) {
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

        // A lane has two pixels below each other, in column g of the square, and pairs of outputs.
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            const int image = squares.image(first + piece), row = squares.row(first + piece) + 2 * warp, column = squares.column(first + piece) + g;
#pragma unroll
            for (int j = 0; j < COLUMNS / 8; ++j) {
                float here[2][2];  // by pixel and output
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int output = min(left + 8 * j + 2 * t + i % 2, o - 1);
                    float value = sum[piece][4 * j + i];
                    if constexpr (SCALED<FORMAT>) value *= w_undo[output];
                    if (bias != nullptr) value += bias[output];
                    here[i / 2][i % 2] = after == RECTIFY ? relu(value) : value;
                }
                if (after == POOL) {  // lanes of neighbouring columns share their windows: the even one's is of the first output, the odd one's of the second
                    const int odd = g % 2, output = left + 8 * j + 2 * t + odd;
                    const float above = __shfl_xor_sync(EVERY_LANE, odd ? here[0][0] : here[0][1], 4);
                    const float beneath = __shfl_xor_sync(EVERY_LANE, odd ? here[1][0] : here[1][1], 4);
                    const float four[4] = {odd ? above : here[0][0], odd ? here[0][1] : above, odd ? beneath : here[1][0], odd ? here[1][1] : beneath};
                    if (image >= n || output >= o || row / 2 >= h / 2 || column / 2 >= w / 2) continue;
                    store_best(best_of(four), y, winner, ((static_cast<long long>(image) * o + output) * (h / 2) + row / 2) * (w / 2) + column / 2);
                    continue;
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int output = left + 8 * j + 2 * t + i % 2, line = row + i / 2;
                    if (image >= n || output >= o || line >= h || column >= w) continue;
                    const long long target = ((static_cast<long long>(image) * o + output) * h + line) * w + column;
                    y[target] = below != nullptr ? relu_gradient(here[i / 2][i % 2], below[target]) : here[i / 2][i % 2];
                }
            }
        }
    }
}
