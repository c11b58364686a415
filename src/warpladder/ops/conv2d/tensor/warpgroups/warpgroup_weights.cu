// Weight gradient of a convolution by warpgroup products (wgmma): part[o, (tap, c)] = sum of dy[pixel, o] x[pixel +
// tap, c].
// Launched by `correlate` of warpgroups.py.
//
// Sums run over pixels, which go down the rows of the pieces of both factors: wgmma takes 16-bit numbers so, and
// nothing is transposed. A stage is one square of pixels: 128 outputs of dy, and for each of PIECES (tap, 128 channels)
// the square of x that the tap reads. After an upsampling by 2 the roles are exchanged: `gradient` is the small image
// x, and `pixels` is dy by classes (GATHERED of taps.cuh). bf16: sums stay in the tensor cores. SPLIT, fp32: they leave
// after each square, and are scaled and added by additions that round. HALF, fp16: likewise after all squares of an
// image, which have one scale, or after nine.
// arch: sm_90a
#include "squares.cuh"

// gradient: (n, h, w, o), pixels: (n, h, w, c), of GATHERED (4 n, h, w, c), or the high halves and the low ones.
// dy_inverse: (n, o / 64), x_inverse: (n, c / 64), both null in bf16. part: (parts, o, taps c). The grid's x counts
// groups of PIECES, then tiles of 128 outputs; its y parts of `depth` squares.
template <int FORMAT, int PIECES>
__global__ void __launch_bounds__(THREADS, 1) correlate(
    const __grid_constant__ TensorMap gradient, const __grid_constant__ TensorMap gradient_low,
    const __grid_constant__ TensorMap pixels, const __grid_constant__ TensorMap pixels_low,
    const float* __restrict__ dy_inverse, const float* __restrict__ x_inverse, float* __restrict__ part, int n, int c,
    int h, int w, int o, int depth, int kind
) {
    constexpr int FIRST = GROUPS, WIDE = COLUMNS / 64, SECOND = PIECES * WIDE;
    using Stages = Ring<FORMAT, FIRST, SECOND>;
    extern __shared__ uint4 shared[];
    __shared__ Stages stages;
    char* ring = first_stage(shared);
    stages.init();
    const Squares squares(n, h, w);
    const Taps taps{kind};
    const int across = (c + COLUMNS - 1) / COLUMNS, pieces = taps.count() * across,
        groups = (pieces + PIECES - 1) / PIECES;
    // a piece's number: tap, then 128 channels
    const int piece0 = blockIdx.x % groups * PIECES, top = blockIdx.x / groups * 64 * GROUPS;
    const int begin = min(squares.count(), static_cast<int>(blockIdx.y) * depth),
        end = min(squares.count(), begin + depth);
    Turn<Stages::STAGES> turn;
    if (threadIdx.x < 128) {
        fewer_registers<40>();
        if (threadIdx.x != 0) return;
        int channel[PIECES], i[PIECES], j[PIECES];
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            const int number = piece0 + piece, tap = number / across;
            channel[piece] = number % across * COLUMNS, i[piece] = tap / taps.side(), j[piece] = tap % taps.side();
        }
        for (int square = begin; square < end; ++square, turn.next()) {
            const int image = squares.image(square), row = squares.row(square), column = squares.column(square);
            barrier_wait(&stages.read[turn.stage], turn.parity ^ 1);
            Barrier* arrived = &stages.arrived[turn.stage];
            barrier_expect(arrived, Stages::BYTES);
#pragma unroll
            for (int copy = 0; copy < Stages::COPIES; ++copy) {
                char* to = ring + turn.stage * Stages::BYTES + copy * Stages::HALF_BYTES;
#pragma unroll
                for (int piece = 0; piece < FIRST; ++piece)
                    copy_pixels(to + piece * PIECE, copy ? gradient_low : gradient, top + 64 * piece, column, row,
                        image, arrived);
#pragma unroll
                for (int piece = 0; piece < SECOND; ++piece) {
                    const int at = piece / WIDE;
                    copy_pixels(
                        to + (FIRST + piece) * PIECE, copy ? pixels_low : pixels, channel[at] + piece % WIDE * 64,
                        column + taps.far(j[at], 0), row + taps.far(i[at], 0), taps.image(image, i[at], j[at]), arrived
                    );
                }
            }
        }
        return;
    }
    more_registers<232>();
    const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, g = lane / 4,
        t = lane % 4;
    const auto done = [&](int stage) {
        if (lane == 0) barrier_arrive(&stages.read[stage]);
    };
    float sum[PIECES][COLUMNS / 2];
    if constexpr (SCALED<FORMAT>) {
        static_assert(PIECES == 1, "there are registers for one piece's sums and parts");
        constexpr int STAYING = FORMAT == SPLIT ? 1 : 9;  // squares, at most, whose sums stay in the tensor cores
        float parts[COLUMNS / 2];
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; ++i) sum[0][i] = 0.0f;
        const int block = piece0 % across * WIDE;
        for (int square = begin; square < end;) {
            const int image = squares.image(square), first = square,
                next = min(min(end, first + STAYING), squares.after(image));
            const float back = inverse_scale_at(dy_inverse, image, n, o, top / 64 + group) * DOWN;
            const float back_x[WIDE] = {inverse_scale_at(x_inverse, image, n, c, block) * UP,
                inverse_scale_at(x_inverse, image, n, c, block + 1) * UP};
            for (; square < next; ++square, turn.next()) {
                barrier_wait(&stages.arrived[turn.stage], turn.parity);
                const char* stage = ring + turn.stage * Stages::BYTES;
                wgmma_begin();
                multiply_terms<FORMAT, true>(parts, stage + group * PIECE, stage + FIRST * PIECE, Stages::HALF_BYTES,
                    square > first);
                wgmma_commit();
                wgmma_wait<1>();
                if (square > first) done(turn.before());
            }
            wgmma_wait<0>();
            done(turn.before());
#pragma unroll
            for (int i = 0; i < COLUMNS / 2; ++i) sum[0][i] = fmaf(parts[i] * back, back_x[i / 32], sum[0][i]);
        }
    } else {
        if (begin == end)
#pragma unroll
            for (int i = 0; i < PIECES * COLUMNS / 2; ++i) sum[i / (COLUMNS / 2)][i % (COLUMNS / 2)] = 0.0f;
        for (int square = begin; square < end; ++square, turn.next()) {
            barrier_wait(&stages.arrived[turn.stage], turn.parity);
            const char* stage = ring + turn.stage * Stages::BYTES;
            wgmma_begin();
#pragma unroll
            for (int piece = 0; piece < PIECES; ++piece)
                multiply_terms<FORMAT, true>(sum[piece], stage + group * PIECE, stage + (FIRST + piece * WIDE) * PIECE,
                    0, square > begin);
            wgmma_commit();
            wgmma_wait<1>();
            if (square > begin) done(turn.before());
        }
        wgmma_wait<0>();
    }

    part += static_cast<long long>(blockIdx.y) * o * taps.count() * c;
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) {
        const int number = piece0 + piece, left = number % across * COLUMNS;
        if (number >= pieces) continue;
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int output = top + 64 * group + 16 * warp + g + 8 * i, channel = left + 8 * j + 2 * t;
                if (output >= o || channel >= c) continue;
                *reinterpret_cast<float2*>(part + static_cast<long long>(output) * taps.count() * c + number / across
                    * c + channel) =
                    make_float2(sum[piece][4 * j + 2 * i], sum[piece][4 * j + 2 * i + 1]);
            }
    }
}
