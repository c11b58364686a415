// Factors of a matrix product on their way to tensor cores: read as floats, rounded or split in registers, and kept in shared memory for ldmatrix.
//
// A factor is a matrix of lines, rows of A or columns of B, of `terms` numbers each; a panel is LINES of them, 32 terms at a time. A warp brings bands
// of 16 lines: 16 numbers for each lane, in four loads of 16 bytes.
//
//     along: a line's terms are neighbours          across: a term's lines are neighbours
//     lane = 8 l + t, load i:                       lane = 8 l + t, load i:
//     line i + 4 l, terms 4 t to 4 t + 3            lines 4 l to 4 l + 3, term t + 8 i
//
// Either way the 32 numbers of a line lie in eight neighbouring lanes, so three shuffles find the largest of them.
#pragma once
#include "four.cuh"
#include "mma.cuh"
#include "warp.cuh"

// Formats of a factor's numbers on tensor cores: each as two halves of 16 bits, or rounded to tf32, to bf16, or to one half.
enum { SPLIT = 0, TF32 = 1, BF16 = 2, HALF = 3 };

constexpr int DEPTH = 32;  // terms in a panel

// Two halves reach from 2^-24 to 2^16, floats from 2^-149 to 2^128. So the DEPTH numbers of a line are multiplied by one power of two that brings the
// largest of them to 2^14 or a little above; where that power is beyond 2^126, by 2^126, and then nothing is lost below floats' own end. It rounds
// nothing. `largest` is that number's bits without its sign: infinity and NaN have the largest exponent of all, and stay what they are.
__device__ __forceinline__ unsigned scale_exponent(unsigned largest) { return min(268u - (largest >> 23), 253u); }  // as a float has it: 127 for 2^0
__device__ __forceinline__ float power_of_two(unsigned exponent) { return __uint_as_float(exponent << 23); }

template <int FORMAT>
struct Held {
    using Number = unsigned short;
    static constexpr int TERMS = 16;  // of one mma
};
template <>
struct Held<TF32> {
    using Number = unsigned;
    static constexpr int TERMS = 8;
};

// d += a b, by a whole warp: 16 x 8 numbers of d, Held<FORMAT>::TERMS terms.
template <int FORMAT>
__device__ __forceinline__ void mma_step(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    if constexpr (FORMAT == SPLIT || FORMAT == HALF) mma_half(d, a, b);
    else if constexpr (FORMAT == TF32) mma_tf32(d, a, b);
    else mma_bf16(d, a, b);
}

// How a panel lies in shared memory: COPIES times SIZE numbers, the high halves and then the low ones, and behind them for each line the power of two that
// undoes its scale. Rows are 16 bytes longer than their numbers: the eight rows that ldmatrix reads at a time are then in different banks.
template <int FORMAT, int LINES, bool ALONG>
struct Panel {
    using Number = typename Held<FORMAT>::Number;
    static constexpr int COPIES = FORMAT == SPLIT ? 2 : 1, BANDS = LINES / 16;
    static constexpr bool BY_LINE = ALONG || FORMAT == TF32;  // ldmatrix turns numbers of 16 bits; those of 32 are turned when they are written
    static constexpr int PITCH = (BY_LINE ? DEPTH : LINES) + 16 / sizeof(Number), SIZE = (BY_LINE ? LINES : DEPTH) * PITCH;
    static constexpr int BYTES = COPIES * SIZE * sizeof(Number) + (FORMAT == SPLIT ? LINES * sizeof(float) : 0);

    Number* numbers;
    __device__ __forceinline__ explicit Panel(void* shared) : numbers(static_cast<Number*>(shared)) {}
    __device__ __forceinline__ float* undo() const { return reinterpret_cast<float*>(numbers + COPIES * SIZE); }

    // A fragment of 16 lines and TERMS terms: as mma takes a's; of b's, [0] and [2] are for the first eight columns, [1] and [3] for the others.
    __device__ __forceinline__ void fragment(unsigned (&out)[4], int copy, int line, int term) const {
        const int lane = threadIdx.x % 32, row = lane % 8, second = lane / 8 % 2, further = lane / 16;
        const Number* from = numbers + copy * SIZE;
        if constexpr (BY_LINE) {
            load_matrices(out, from + (line + row + 8 * second) * PITCH + term + further * static_cast<int>(16 / sizeof(Number)));
        } else {
            load_matrices_turned(out, from + (term + row + 8 * further) * PITCH + line + 8 * second);
        }
    }

    // Four numbers that are neighbours in memory as the factor lies there: of line `line` and its terms from `term` on, or across.
    __device__ __forceinline__ void put(const float (&x)[4], int line, int term) const {
        if constexpr (FORMAT == TF32) {
            if constexpr (ALONG) {
                *reinterpret_cast<uint4*>(numbers + line * PITCH + term) = make_uint4(to_tf32(x[0]), to_tf32(x[1]), to_tf32(x[2]), to_tf32(x[3]));
            } else {
#pragma unroll
                for (int c = 0; c < 4; ++c) numbers[(line + c) * PITCH + term] = to_tf32(x[c]);
            }
        } else {
            Number* to = numbers + (ALONG ? line * PITCH + term : term * PITCH + line);
            if constexpr (FORMAT == BF16) {
                *reinterpret_cast<uint2*>(to) = make_uint2(two_bf16(x[0], x[1]), two_bf16(x[2], x[3]));
            } else {
                const uint2 high = make_uint2(two_halves(x[0], x[1]), two_halves(x[2], x[3]));
                *reinterpret_cast<uint2*>(to) = high;
                *reinterpret_cast<uint2*>(to + SIZE) = make_uint2(
                    two_halves(x[0] - low_half(high.x), x[1] - high_half(high.x)), two_halves(x[2] - low_half(high.y), x[3] - high_half(high.y))
                );
            }
        }
    }
};

// Brings a factor's panels: `fetch` asks memory for the next one, while the one before is multiplied, and `put` leaves it in shared memory.
template <int FORMAT, int LINES, bool ALONG, int WARPS>
struct Factor {
    using To = Panel<FORMAT, LINES, ALONG>;
    static constexpr int EACH = (To::BANDS + WARPS - 1) / WARPS;  // bands that a warp brings

    const float* from;  // the first line's first term
    int pitch, lines;   // numbers from one row in memory to the next; lines that there are from the first on
    bool wide;          // whether all loads are at addresses that 16 divides
    float held[EACH][4][4];

    // matrix: (lines, terms) where ALONG, else (terms, lines); the panels begin with line `first`.
    __device__ __forceinline__ Factor(const float* matrix, int all, int terms, int first)
        : from(matrix + (ALONG ? static_cast<long long>(first) * terms : first)), pitch(ALONG ? terms : all), lines(all - first),
          wide(pitch % 4 == 0 && reinterpret_cast<unsigned long long>(matrix) % 16 == 0) {}

    // Where load i of a band begins, in the panel.
    __device__ __forceinline__ static int line(int band, int i) { return 16 * band + 4 * (threadIdx.x % 32 / 8) + (ALONG ? i : 0); }
    __device__ __forceinline__ static int term(int i) { return ALONG ? 4 * (threadIdx.x % 8) : threadIdx.x % 8 + 8 * i; }

    // Terms first to first + DEPTH - 1; what lies beyond the last line, or from term `end` on, is 0.
    __device__ __forceinline__ void fetch(int first, int end) {
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            const int band = threadIdx.x / 32 + e * WARPS;
            if (band >= To::BANDS) break;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int l = line(band, i), t = first + term(i);
                const bool there = l < lines && t < end;
                const float* source = from + (there ? ALONG ? static_cast<long long>(l) * pitch + t : static_cast<long long>(t) * pitch + l : 0);
                const float4 four = load_four(source, there ? ALONG ? end - t : lines - l : 0, wide);
                held[e][i][0] = four.x, held[e][i][1] = four.y, held[e][i][2] = four.z, held[e][i][3] = four.w;
            }
        }
    }

    __device__ __forceinline__ void put(const To& to) {
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            const int band = threadIdx.x / 32 + e * WARPS;
            if (band >= To::BANDS) break;
            if constexpr (FORMAT == SPLIT) scale(held[e], to, band);
#pragma unroll
            for (int i = 0; i < 4; ++i) to.put(held[e][i], line(band, i), term(i));
        }
    }

    // Multiplies each of a lane's four lines by its power of two, and leaves what undoes it in the panel.
    __device__ __forceinline__ static void scale(float (&x)[4][4], const To& to, int band) {
#pragma unroll
        for (int own = 0; own < 4; ++own) {
            unsigned largest = 0;
#pragma unroll
            for (int r = 0; r < 4; ++r) largest = max(largest, __float_as_uint(ALONG ? x[own][r] : x[r][own]) & 0x7fffffffu);
#pragma unroll
            for (int offset = 1; offset < 8; offset *= 2) largest = max(largest, __shfl_xor_sync(EVERY_LANE, largest, offset));
            const unsigned exponent = scale_exponent(largest);
            const float by = power_of_two(exponent);
#pragma unroll
            for (int r = 0; r < 4; ++r) (ALONG ? x[own][r] : x[r][own]) *= by;
            if (threadIdx.x % 8 == 0) to.undo()[16 * band + 4 * (threadIdx.x % 32 / 8) + own] = power_of_two(254u - exponent);
        }
    }
};
