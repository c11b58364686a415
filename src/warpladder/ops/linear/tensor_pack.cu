// A matrix (rows, columns) of floats, packed for tensor cores: with its rows as lines, for sums along them, and with its columns as lines, for sums down them.
//
// A warp takes 32 x 32 numbers, which are a whole step of 32 lines either way, so that it knows the largest number of each line. Lane 8 l + t has rows
// 8 l to 8 l + 7 and columns 4 t to 4 t + 3: four neighbours of a row, and eight of a column, which are 16 bytes of a record. Nothing has to be turned.
// Bound by memory: 4 bytes read and 4 written for each copy of a number, 2 where the format has no low halves.
// arch: sm_80, sm_90, sm_100
#include "tensor_packed.cuh"

// What multiplies numbers of which `largest` has the largest bits, taken over the lanes that differ in the bits FROM to TO of their number.
template <int FROM, int TO>
__device__ __forceinline__ unsigned shared_exponent(unsigned largest) {
#pragma unroll
    for (int offset = FROM; offset < TO; offset *= 2) largest = max(largest, __shfl_xor_sync(EVERY_LANE, largest, offset));
    return scale_exponent(largest);
}

// Lines of `along`, which are rows, and of `across`, which are columns; either may be null. Where y is not null, x becomes 0 where y is not above 0, as the
// gradient of a ReLU does. db (row blocks of 32, columns): each column's sum over 32 rows, where it is not null. Grid: columns and rows in blocks of 32, both
// up to a whole record; a warp takes one.
template <int FORMAT>
__global__ void __launch_bounds__(128) pack(
    const float* __restrict__ x, const float* __restrict__ y, unsigned* __restrict__ along, float* __restrict__ along_undo, int along_lines,
    unsigned* __restrict__ across, float* __restrict__ across_undo, int across_lines, float* __restrict__ db, int rows, int columns
) {
    using P = Packed<FORMAT>;
    const int lane = threadIdx.x % 32, l = lane / 8, t = lane % 8;
    const int column0 = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 32, row0 = blockIdx.y * 32;
    if (column0 >= (columns + P::TERMS - 1) / P::TERMS * P::TERMS) return;
    const int column = column0 + 4 * t, first = row0 + 8 * l;
    const bool wide = columns % 4 == 0 && (reinterpret_cast<unsigned long long>(x) | reinterpret_cast<unsigned long long>(y)) % 16 == 0;
    float v[8][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int count = first + i < rows ? columns - column : 0;
        const long long at = count > 0 ? static_cast<long long>(first + i) * columns + column : 0;
        float4 four = load_four(x + at, count, wide);
        if (y != nullptr) four = relu_gradient(four, load_four(y + at, count, wide));
        v[i][0] = four.x, v[i][1] = four.y, v[i][2] = four.z, v[i][3] = four.w;
    }
    if (db != nullptr) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            float sum = v[0][q];
#pragma unroll
            for (int i = 1; i < 8; ++i) sum += v[i][q];
            sum += __shfl_xor_sync(EVERY_LANE, sum, 8);
            sum += __shfl_xor_sync(EVERY_LANE, sum, 16);
            if (l == 0 && row0 < rows && column + q < columns) db[static_cast<long long>(blockIdx.y) * columns + column + q] = sum;
        }
    }

    if (along != nullptr) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int line = first + i, chunk = P::chunk(0, column0 % P::TERMS + 4 * t);
            unsigned* record = along + (static_cast<long long>(column0 / P::TERMS) * along_lines + line) * RECORD;
            float by = 1.0f;
            if constexpr (P::SCALED) {
                unsigned largest = 0;
#pragma unroll
                for (int q = 0; q < 4; ++q) largest = max(largest, __float_as_uint(v[i][q]) & 0x7fffffffu);
                const unsigned exponent = shared_exponent<1, 8>(largest);
                by = power_of_two(exponent);
                if (t == 0) along_undo[static_cast<long long>(column0 / 32) * along_lines + line] = power_of_two(254u - exponent);
            }
            if constexpr (P::WIDE) {
                *reinterpret_cast<uint4*>(record + P::place(line, chunk)) =
                    make_uint4(to_tf32(v[i][0]), to_tf32(v[i][1]), to_tf32(v[i][2]), to_tf32(v[i][3]));
            } else {
                uint2 high, low;
                P::halves(v[i][0] * by, v[i][1] * by, high.x, low.x);
                P::halves(v[i][2] * by, v[i][3] * by, high.y, low.y);
                *reinterpret_cast<uint2*>(record + P::place(line, chunk) + t % 2 * 2) = high;
                if constexpr (FORMAT == SPLIT) *reinterpret_cast<uint2*>(record + P::place(line, chunk + 4) + t % 2 * 2) = low;
            }
        }
    }

    if (across == nullptr) return;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        const int line = column + q, chunk = P::chunk(0, row0 % P::TERMS + 8 * l);
        unsigned* record = across + (static_cast<long long>(row0 / P::TERMS) * across_lines + line) * RECORD;
        float by = 1.0f;
        if constexpr (P::SCALED) {
            unsigned largest = 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) largest = max(largest, __float_as_uint(v[i][q]) & 0x7fffffffu);
            const unsigned exponent = shared_exponent<8, 32>(largest);
            by = power_of_two(exponent);
            if (l == 0) across_undo[static_cast<long long>(row0 / 32) * across_lines + line] = power_of_two(254u - exponent);
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
