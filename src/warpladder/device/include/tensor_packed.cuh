// Factors of matrix products as tensor cores read them, packed in global memory once: no product rounds, splits or
// turns them again.
//
// A factor is a matrix of lines, rows of A or columns of B, of terms that sums run along. A line's terms lie in records
// of 128 bytes, in EXACT of 64:
//
//     SPLIT  32 high halves and then their 32 low ones      BF16, HALF  64 numbers      TF32, EXACT  32 numbers
//
// Record r of all lines stands before record r + 1 of the first one. So a panel, one record of some lines, is one piece
// of memory, and a copy of it needs neither a row nor an edge. `lines` is a multiple of 128, at least as many as there
// are; the terms beyond the last one of a line are 0. Of a record of line l the 16 bytes number i stand in place i ^ (l
// % 8), in EXACT i ^ (l / 2 % 4): the eight rows that ldmatrix reads at a time are then in different banks. In SPLIT
// and HALF each 32 terms of a line are multiplied by a power of two (tensor_panels.cuh), and `inverse_scale` (terms /
// 32, lines) has what undoes it. In EXACT the numbers are stored as they are, and `inverse_scale` has what all of them
// are to be multiplied by.
#pragma once
#include "tensor_panels.cuh"

template <int FORMAT>
struct Packed {
    static constexpr bool WIDE = FORMAT == TF32;  // 4 bytes a number, not 2
    static constexpr int COPIES = FORMAT == SPLIT ? 2 : 1;
    static constexpr int TERMS = FORMAT == BF16 || FORMAT == HALF ? 64 : 32;  // in a record
    static constexpr int RECORD = FORMAT == EXACT ? 16 : 32;                  // words of 4 bytes in a record
    static constexpr int EACH = WIDE ? 4 : 8;                                 // terms in 16 bytes

    // Where in a line's record, in words, the 16 bytes number `chunk` begin.
    __device__ __forceinline__ static int place(int line, int chunk) {
        return (chunk ^ (RECORD == 32 ? line % 8 : line / 2 % 4)) * 4; }
    __device__ __forceinline__ static int chunk(int copy, int term) { return copy * 4 + term / EACH; }

    // Two neighbours, in HALF and SPLIT scaled: `low` is what `high` lacks, in SPLIT alone. Not for TF32.
    __device__ __forceinline__ static void halves(float x, float y, unsigned& high, unsigned& low) {
        if constexpr (FORMAT == BF16) {
            high = two_bf16(x, y);
        } else {
            high = two_halves(x, y);
            if constexpr (FORMAT == SPLIT) low = two_halves(x - low_half(high), y - high_half(high));
        }
    }

    // A fragment of 16 lines from `line` on, in a panel whose first line 8 divides, and of the 16 terms (TF32: 8) that
    // begin with chunk `first`: as mma takes a's; of b's, [0] and [2] are for the first eight columns, [1] and [3] for
    // the others.
    __device__ __forceinline__ static void fragment(unsigned (&out)[4], const unsigned* panel, int line, int first) {
        const int lane = threadIdx.x % 32, row = line + lane % 8 + lane / 8 % 2 * 8;
        load_matrices(out, panel + row * RECORD + place(row, first + lane / 16));
    }
};
