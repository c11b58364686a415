// Convolutions by warpgroup products (wgmma): y[pixel, o] = sum of x[pixel + tap, channel] w[(tap, channel), o].
// Launched by `convolve` of warpgroups.py.
//
// Windows of 3 x 3, stride 1, one pixel of padding, alone or after an upsampling by 2 (taps.cuh), over images that
// warpgroup_pack.cu has written channels last. A tap's factor is a square of pixels like any other, one pixel further:
// the copy engine gets other coordinates and nothing is unfolded. The input gradient is the same with other weights. Of
// an upsampled layer's y a tile has pixels of one class; the classes of a square follow each other, so that rows of y
// are filled up while they are in the second-level cache. Of three warpgroups one requests pieces, by one of its
// threads; two multiply. Blocks are persistent and compute one tile after the other. bf16: sums stay in the tensor
// cores. SPLIT, fp32: sums leave them after each tap's 64 channels, are scaled back, and added by additions that round.
// HALF, fp16: likewise, but after all taps of 64 channels, which have one scale, or after eight of sixteen.
// arch: sm_90a
#include "squares.cuh"
#include "staged.cuh"

// kind: taps.cuh's. pixels: (n, h, w, c), of GATHERED (4 n, h, w, c), or the high halves and the low ones; weights:
// (classes taps c, o) likewise.
// x_inverse: (n, c / 64), w_inverse: (o,), both null in bf16. bias: (o,) or null. relu_mask: null, or as y, the output
// of a ReLU whose gradient y is.
// y: (n, o, h, w); of UPSAMPLED (n, o, 2 h, 2 w), which has no POOL; of POOL (n, o, h / 2, w / 2), argmax likewise.
// packed: null, or a copy of y in bf16 for the next warpgroup layer: channels last and rounded, as by pack_pixels
// of warpgroup_pack.cu. A block computes 128 outputs of 2 PIECES squares, each warpgroup PIECES of them.
template <int FORMAT, int PIECES>
__global__ void __launch_bounds__(THREADS, 1) convolve(
    const __grid_constant__ TensorMap pixels, const __grid_constant__ TensorMap pixels_low,
    const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap weights_low,
    const float* __restrict__ x_inverse, const float* __restrict__ w_inverse, const float* __restrict__ bias,
    const float* __restrict__ relu_mask, float* __restrict__ y, unsigned char* __restrict__ argmax,
    unsigned short* __restrict__ packed, int n, int c, int h, int w, int o, int after, int kind
) {
    constexpr int FIRST = GROUPS * PIECES, SECOND = COLUMNS / 64;
    // registers of a thread that requests copies: more squares need more coordinates; the three warpgroups have 504
    constexpr int ASKING = PIECES == 1 ? 40 : 56;
    using Stages = Ring<FORMAT, FIRST, SECOND>;
    extern __shared__ uint4 shared[];
    __shared__ Stages stages;
    char* ring = first_stage(shared);
    stages.init();
    const Squares squares(n, h, w);
    const Taps taps{kind};
    const int tiles_o = (o + COLUMNS - 1) / COLUMNS, across = taps.classes() * tiles_o,
        tiles = (squares.count() + FIRST - 1) / FIRST * across;
    const int steps = c / 64 * taps.count();
    Turn<Stages::STAGES> turn;
    if (threadIdx.x < 128) {
        fewer_registers<ASKING>();
        if (threadIdx.x != 0) return;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first = tile / across * FIRST, left = tile % tiles_o * COLUMNS,
                of_class = tile % across / tiles_o;
            int column[FIRST], row[FIRST], image[FIRST], term = of_class * steps * 64;
#pragma unroll
            for (int piece = 0; piece < FIRST; ++piece)
                column[piece] = squares.column(first + piece), row[piece] = squares.row(first + piece),
                    image[piece] = squares.image(first + piece);
            for (int channel = 0; channel < c; channel += 64)
                for (int i = 0; i < taps.side(); ++i)
                    for (int j = 0; j < taps.side(); ++j, term += 64, turn.next()) {
                        const int down = taps.far(i, of_class / 2), along = taps.far(j, of_class % 2);
                        // in the first round there is no earlier reader
                        barrier_wait(&stages.read[turn.stage], turn.parity ^ 1);
                        Barrier* arrived = &stages.arrived[turn.stage];
                        barrier_expect(arrived, Stages::BYTES);
#pragma unroll
                        for (int copy = 0; copy < Stages::COPIES; ++copy) {
                            char* to = ring + turn.stage * Stages::BYTES + copy * Stages::HALF_BYTES;
                            const TensorMap& from = copy ? pixels_low : pixels;
#pragma unroll
                            for (int piece = 0; piece < FIRST; ++piece)
                                copy_pixels(
                                    to + piece * PIECE, from, channel, column[piece] + along, row[piece] + down,
                                        taps.image(image[piece], i, j), arrived
                                );
#pragma unroll
                            for (int piece = 0; piece < SECOND; ++piece)
                                copy_tile(to + (FIRST + piece) * PIECE, copy ? weights_low : weights, left + 64 * piece,
                                    term, arrived);
                        }
                    }
        }
        return;
    }
    more_registers<(504 - ASKING) / 2>();
    const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    float* staging = reinterpret_cast<float*>(ring + Stages::STAGES * Stages::BYTES) + (4 * group + warp) * STAGED;
    const Out to{w_inverse, bias, relu_mask, y, argmax, packed, n, h, w, o, after, kind == UPSAMPLED ? 2 : 1};
    const auto done = [&](int stage) {
        if (lane == 0) barrier_arrive(&stages.read[stage]);
    };
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first = tile / across * FIRST + group * PIECES, left = tile % tiles_o * COLUMNS;
        if (relu_mask != nullptr)
#pragma unroll 1
            for (int half = 0; half < 2 * PIECES; ++half) {
                const int square = first + half / 2;
                fetch_below(to, squares.image(square), squares.row(square) + 2 * warp, squares.column(square),
                    left + half % 2 * 64);
            }
        float sum[PIECES][COLUMNS / 2];
        if constexpr (SCALED<FORMAT>) {
            static_assert(PIECES == 1, "there are registers for one piece's sums and parts");
            // Steps whose sums stay in the tensor cores: in HALF as many as have one scale, but nine at most.
            const int staying = FORMAT == SPLIT ? 1 : taps.kind == GATHERED ? 8 : taps.count();
            float part[COLUMNS / 2];
#pragma unroll
            for (int i = 0; i < COLUMNS / 2; ++i) sum[0][i] = 0.0f;
            for (int block = 0; block < c / 64; ++block) {
                const float back = inverse_scale_at(x_inverse, squares.image(first), n, c, block) * DOWN;
                for (int tap = 0; tap < taps.count(); tap += staying) {
                    for (int step = 0; step < staying; ++step, turn.next()) {
                        barrier_wait(&stages.arrived[turn.stage], turn.parity);
                        const char* stage = ring + turn.stage * Stages::BYTES;
                        wgmma_begin();
                        multiply_terms<FORMAT, false>(part, stage + group * PIECE, stage + FIRST * PIECE,
                            Stages::HALF_BYTES, step > 0);
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
                    multiply_terms<FORMAT, false>(sum[piece], stage + (group * PIECES + piece) * PIECE,
                        stage + FIRST * PIECE, 0, step > 0);
                wgmma_commit();
                wgmma_wait<1>();
                if (step > 0) done(turn.before());  // of which no product is under way
            }
            wgmma_wait<0>();
            done(turn.before());
        }

        // A warp has two rows of each square.
        const int of_class = tile % across / tiles_o;
#pragma unroll 1
        for (int half = 0; half < 2 * PIECES; ++half) {  // of 128 outputs of a piece
            const int square = first + half / 2;
#pragma unroll
            for (int piece = 0; piece < PIECES; ++piece) {
                if (half == 2 * piece) stage<0>(staging, sum[piece]);
                if (half == 2 * piece + 1) stage<COLUMNS / 4>(staging, sum[piece]);
            }
            __syncwarp();
            write_staged<FORMAT>(
                staging, to, squares.image(square), squares.row(square) + 2 * warp, squares.column(square), of_class,
                    left + half % 2 * 64
            );
            __syncwarp();  // all threads have read what the next half takes the place of
        }
    }
}
