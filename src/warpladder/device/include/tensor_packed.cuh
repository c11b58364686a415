// Factors of matrix products in the tensor cores' layout, rounded, split and packed in global memory once.
//
// A factor is a matrix of lines, rows of A or columns of B. Sums run along the terms of a line, in records of 128
// bytes, in EXACT of 64:
//
//     SPLIT  32 high halves and then their 32 low ones      BF16, HALF  64 numbers      TF32, EXACT  32 numbers
//
// Record r of all lines comes before record r + 1 of the first line. So a panel, one record of some lines, is one piece
// of memory, copied without rows and edges. `lines` is a multiple of 128; terms beyond the last one of a line are 0.
// 16-byte chunk i of a record of line l is at i ^ (l % 8), in EXACT i ^ (l / 2 % 4): the eight rows that ldmatrix
// reads at a time are in different banks. In SPLIT and HALF each 32 terms of a line are multiplied by a power of two
// (tensor_panels.cuh), and `inverse_scale` (terms / 32, lines) has the inverse. In EXACT it has their common factor.
#pragma once
#include "tensor_panels.cuh"

template <int FORMAT>
struct Packed {
    static constexpr bool WIDE = FORMAT == TF32;  // 4 bytes a number, not 2
    static constexpr int COPIES = FORMAT == SPLIT ? 2 : 1;
    static constexpr int TERMS = FORMAT == BF16 || FORMAT == HALF ? 64 : 32;  // in a record
    static constexpr int RECORD = FORMAT == EXACT ? 16 : 32;                  // words of 4 bytes in a record
    static constexpr int EACH = WIDE ? 4 : 8;                                 // terms in 16 bytes

    // Word of a line's record at which its 16-byte chunk begins.
    __device__ __forceinline__ static int place(int line, int chunk) {
        return (chunk ^ (RECORD == 32 ? line % 8 : line / 2 % 4)) * 4; }
    __device__ __forceinline__ static int chunk(int copy, int term) { return copy * 4 + term / EACH; }

    // Two neighbours, in HALF and SPLIT scaled: `low` is the rest of `high`, in SPLIT alone. Not for TF32.
    __device__ __forceinline__ static void halves(float x, float y, unsigned& high, unsigned& low) {
        if constexpr (FORMAT == BF16) {
            high = two_bf16(x, y);
        } else {
            high = two_halves(x, y);
            if constexpr (FORMAT == SPLIT) low = two_halves(x - low_half(high), y - high_half(high));
        }
    }

    // A fragment of 16 lines from `line` on, in a panel whose first line 8 divides, and 16 terms (TF32: 8) from chunk
    // `first` on: as a of mma; of b, [0] and [2] are the first eight columns, [1] and [3] the others.
    __device__ __forceinline__ static void fragment(unsigned (&out)[4], const unsigned* panel, int line, int first) {
        const int lane = threadIdx.x % 32, row = line + lane % 8 + lane / 8 % 2 * 8;
        load_matrices(out, panel + row * RECORD + place(row, first + lane / 16));
    }
};
