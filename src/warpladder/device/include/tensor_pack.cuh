// Block of 32 x 32 numbers, packed for tensor cores by one warp: with its rows or columns as parts of lines.
//
// A block is a whole step of 32 lines both ways. Lane 8 l + t has rows 8 l to 8 l + 7 and columns 4 t to 4 t + 3: four
// neighbours of a row, and eight of a column, 16 bytes of a record.
#pragma once
#include "tensor_packed.cuh"

// Packed copies of a matrix. along: its rows are lines; across: its columns are; either may be null. db: (row blocks of
// 32, columns), sum of each column over the 32 rows of a block, or null. lines, inverse_scale: see tensor_packed.cuh.
struct Outlet {
    unsigned* along;
    float* along_inverse_scale;
    int along_lines;
    unsigned* across;
    float* across_inverse_scale;
    int across_lines;
    float* db;
};

// Stores two words to global memory by one instruction, at an address that 8 divides: NVRTC makes two of a uint2.
__device__ __forceinline__ void store_two(unsigned* to, const unsigned (&two)[2]) {
#ifdef __CUDA_EMU__
    *reinterpret_cast<uint2*>(to) = make_uint2(two[0], two[1]);
#else
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(two[0]), "r"(two[1]) : "memory");
#endif
}

// True if a block at a row and a column has numbers of a matrix (rows, columns), or of the padding of its last records.
template <int FORMAT>
__device__ __forceinline__ bool block_counts(int row0, int column0, int rows, int columns) {
    constexpr int TERMS = Packed<FORMAT>::TERMS;
    return row0 < (rows + TERMS - 1) / TERMS * TERMS && column0 < (columns + TERMS - 1) / TERMS * TERMS;
}

// The block at row0 and column0, multiples of 32; v: the share of the lane, 0 beyond the matrix (rows, columns).
template <int FORMAT>
__device__ __forceinline__ void pack_block(const float (&v)[8][4], const Outlet& to, int row0, int column0, int rows,
    int columns) {
    using P = Packed<FORMAT>;
    const int lane = threadIdx.x % 32, l = lane / 8, t = lane % 8, first = row0 + 8 * l, column = column0 + 4 * t;
    if (to.db != nullptr) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            float sum = v[0][q];
#pragma unroll
            for (int i = 1; i < 8; ++i) sum += v[i][q];
            sum += __shfl_xor_sync(EVERY_LANE, sum, 8);
            sum += __shfl_xor_sync(EVERY_LANE, sum, 16);
            if (l == 0 && row0 < rows && column + q < columns)
                to.db[static_cast<long long>(row0 / 32) * columns + column + q] = sum;
        }
    }

    if (to.along != nullptr) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int line = first + i, chunk = P::chunk(0, column0 % P::TERMS + 4 * t);
            unsigned* record = to.along + (static_cast<long long>(column0 / P::TERMS) * to.along_lines + line)
                * P::RECORD;
            float by = 1.0f;
            if constexpr (SCALED<FORMAT>) {
                const unsigned exponent = shared_exponent<1, 8>(largest_of(v[i]));
                by = power_of_two(exponent);
                if (t == 0)
                    to.along_inverse_scale[static_cast<long long>(column0 / 32) * to.along_lines + line]
                        = power_of_two(254u - exponent);
            }
            if constexpr (P::WIDE) {
                *reinterpret_cast<uint4*>(record + P::place(line, chunk)) =
                    make_uint4(to_tf32(v[i][0]), to_tf32(v[i][1]), to_tf32(v[i][2]), to_tf32(v[i][3]));
            } else {
                unsigned high[2], low[2];
                P::halves(v[i][0] * by, v[i][1] * by, high[0], low[0]);
                P::halves(v[i][2] * by, v[i][3] * by, high[1], low[1]);
                store_two(record + P::place(line, chunk) + t % 2 * 2, high);
                if constexpr (FORMAT == SPLIT) store_two(record + P::place(line, chunk + 4) + t % 2 * 2, low);
            }
        }
    }

    if (to.across == nullptr) return;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        const int line = column + q, chunk = P::chunk(0, row0 % P::TERMS + 8 * l);
        unsigned* record = to.across + (static_cast<long long>(row0 / P::TERMS) * to.across_lines + line) * P::RECORD;
        float by = 1.0f;
        if constexpr (SCALED<FORMAT>) {
            unsigned largest = 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) largest = max(largest, bits_of_size(v[i][q]));
            const unsigned exponent = shared_exponent<8, 32>(largest);
            by = power_of_two(exponent);
            if (l == 0)
                to.across_inverse_scale[static_cast<long long>(row0 / 32) * to.across_lines + line] = power_of_two(254u
                - exponent);
        }
        if constexpr (P::WIDE) {
            *reinterpret_cast<uint4*>(record + P::place(line, chunk)) =
                make_uint4(to_tf32(v[0][q]), to_tf32(v[1][q]), to_tf32(v[2][q]), to_tf32(v[3][q]));
            *reinterpret_cast<uint4*>(record + P::place(line, chunk + 1)) =
                make_uint4(to_tf32(v[4][q]), to_tf32(v[5][q]), to_tf32(v[6][q]), to_tf32(v[7][q]));
        } else {
            uint4 high, low;
            P::halves(v[0][q] * by, v[1][q] * by, high.x, low.x);
            P::halves(v[2][q] * by, v[3][q] * by, high.y, low.y);
            P::halves(v[4][q] * by, v[5][q] * by, high.z, low.z);
            P::halves(v[6][q] * by, v[7][q] * by, high.w, low.w);
            *reinterpret_cast<uint4*>(record + P::place(line, chunk)) = high;
            if constexpr (FORMAT == SPLIT) *reinterpret_cast<uint4*>(record + P::place(line, chunk + 4)) = low;
        }
    }
}
