// Packing of matrices of floats, and of stored samples, for tensor cores, if no product has packed them.
//
// A warp packs 32 x 32 numbers. Bound by memory: 4 bytes read and 4 written for a copy of a number, or 2.
// arch: sm_80, sm_90, sm_100
#include "four.cuh"
#include "order.cuh"
#include "tensor_pack.cuh"

constexpr int WARPS = 4;  // of a block of threads, side by side along the columns

// First row and column of a warp's block. Grid: columns and rows in blocks of 32, both up to a whole record.
__device__ __forceinline__ int row_of_block() { return blockIdx.y * 32; }
__device__ __forceinline__ int column_of_block() { return (blockIdx.x * WARPS + threadIdx.x / 32) * 32; }

// Packs x (rows, columns) (`Outlet`). y: null, or of x's shape: x is packed as 0 where y is not above 0.
template <int FORMAT>
__global__ void __launch_bounds__(32 * WARPS) pack(
    const float* __restrict__ x, const float* __restrict__ y, unsigned* __restrict__ along,
    float* __restrict__ along_inverse_scale, int along_lines, unsigned* __restrict__ across,
    float* __restrict__ across_inverse_scale, int across_lines, float* __restrict__ db, int rows, int columns
) {
    const int row0 = row_of_block(), column0 = column_of_block(), first = row0 + threadIdx.x % 32 / 8 * 8,
        column = column0 + threadIdx.x % 8 * 4;
    if (!block_counts<FORMAT>(row0, column0, rows, columns)) return;
    const bool wide = columns % 4 == 0 && (reinterpret_cast<unsigned long long>(x)
        | reinterpret_cast<unsigned long long>(y)) % 16 == 0;
    float v[8][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int count = first + i < rows ? columns - column : 0;
        const long long at = count > 0 ? static_cast<long long>(first + i) * columns + column : 0;
        float4 four = load_four(x + at, count, wide);
        if (y != nullptr) four = relu_gradient(four, load_four(y + at, count, wide));
        v[i][0] = four.x, v[i][1] = four.y, v[i][2] = four.z, v[i][3] = four.w;
    }
    pack_block<FORMAT>(v, {along, along_inverse_scale, along_lines, across, across_inverse_scale, across_lines, db},
        row0, column0, rows, columns);
}

// Four neighbouring bytes as floats, of which `count` exist, 0 for the others. wide: all exist, aligned.
__device__ __forceinline__ float4 load_four(const unsigned char* source, int count, bool wide) {
    unsigned char four[4] = {};
    if (wide && count >= 4) {
        const uchar4 all = *reinterpret_cast<const uchar4*>(source);
        four[0] = all.x, four[1] = all.y, four[2] = all.z, four[3] = all.w;
    } else {
#pragma unroll
        for (int q = 0; q < 4; ++q)
            if (q < count) four[q] = source[q];
    }
    return make_float4(four[0], four[1], four[2], four[3]);
}

// Packs `rows` samples of source (samples, columns): row i is the sample at position step * batch + offset + i of the
// order, or i. Each number is multiplied by scale in float32, and also goes to x (rows, columns); in EXACT it is packed
// unscaled, with scale in inverse_scale already. target[i] = labels[sample]. x, labels and target may be null.
template <int FORMAT, typename T>
__global__ void __launch_bounds__(32 * WARPS) pack_samples(
    const T* __restrict__ source, float scale, float* __restrict__ x, const int* __restrict__ labels,
    int* __restrict__ target, const unsigned* __restrict__ order, const int* __restrict__ step,
    unsigned* __restrict__ along, float* __restrict__ along_inverse_scale, int along_lines,
    unsigned* __restrict__ across, float* __restrict__ across_inverse_scale, int across_lines, int rows, int columns,
    int batch, int offset
) {
    const int row0 = row_of_block(), column0 = column_of_block(), lane = threadIdx.x % 32,
        column = column0 + lane % 8 * 4;
    if (!block_counts<FORMAT>(row0, column0, rows, columns)) return;
    unsigned sample = 0;
    if (row0 + lane < rows) {
        const long long position = *step * static_cast<long long>(batch) + offset + row0 + lane;
        sample = order != nullptr ? order_at(order, static_cast<unsigned>(position)) : row0 + lane;
        if (column0 == 0 && labels != nullptr && target != nullptr) target[row0 + lane] = labels[sample];
    }
    const bool wide = columns % 4 == 0 && reinterpret_cast<unsigned long long>(source) % (4 * sizeof(T)) == 0;
    float v[8][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = row0 + lane / 8 * 8 + i, count = row < rows ? columns - column : 0;
        const unsigned from = __shfl_sync(EVERY_LANE, sample, lane / 8 * 8 + i);
        const float4 stored = load_four(source + (count > 0 ? static_cast<long long>(from) * columns + column : 0),
            count, wide);
        const float4 scaled = make_float4(stored.x * scale, stored.y * scale, stored.z * scale, stored.w * scale);
        const float4 four = FORMAT == EXACT ? stored : scaled;
        v[i][0] = four.x, v[i][1] = four.y, v[i][2] = four.z, v[i][3] = four.w;
        if (count > 0 && x != nullptr)
            store_four(x + static_cast<long long>(row) * columns + column, scaled, count, columns % 4 == 0);
    }
    pack_block<FORMAT>(v, {along, along_inverse_scale, along_lines, across, across_inverse_scale, across_lines,
        nullptr}, row0, column0, rows, columns);
}
