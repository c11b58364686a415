// End of a tile: split-K partials are added; final sums are stored as floats and packed for the next launches.
//
// A warp's sums are fragments of 16 x 8, as of mma and wgmma: with g = lane / 4, t = lane % 4, sum[i][j][0], [1] = row
// 16 i + g, columns 8 j + 2 t and the next one; [2], [3] = the same of row 16 i + g + 8.
#pragma once
#include "four.cuh"
#include "last_block.cuh"
#include "nan.cuh"
#include "parameter.cuh"
#include "tensor_pack.cuh"

// Destination of a product (m, n): c = sums + bias (n) unless null, then max(., 0) if fused_relu is 1, and 0 where
// relu_mask (m, n), unless null, is not above 0; also packed. c and its packed copies may be null. flat: if it has
// parameters, c is their gradient; they are updated, and packed in place of c.
struct Product {
    const float* bias;
    const float* relu_mask;
    float* c;
    Outlet to;
    int m, n, fused_relu;
    Flat flat;
};

// Place of a part of a tile's sums, by fours of HOLDERS threads. parts: (tiles, parts, numbers of a tile).
template <int ACROSS_M, int ACROSS_N, int HOLDERS>
__device__ __forceinline__ float4* of_parts(float* parts, int part) {
    constexpr int EACH = ACROSS_M * ACROSS_N * HOLDERS;
    return reinterpret_cast<float4*>(parts) + (static_cast<long long>(blockIdx.x) * gridDim.y + part) * EACH
        + threadIdx.x;
}

template <int HOLDERS, int ACROSS_M, int ACROSS_N>
__device__ __forceinline__ void leave_part(const float (&sum)[ACROSS_M][ACROSS_N][4], float* parts) {
    float4* own = of_parts<ACROSS_M, ACROSS_N, HOLDERS>(parts, blockIdx.y);
#pragma unroll
    for (int i = 0; i < ACROSS_M; ++i)
#pragma unroll
        for (int j = 0; j < ACROSS_N; ++j)
            own[(i * ACROSS_N + j) * HOLDERS] = make_float4(sum[i][j][0], sum[i][j][1], sum[i][j][2], sum[i][j][3]);
}

// Adds all parts in order, by the last block to arrive, so that the bits do not depend on which block is last.
template <int HOLDERS, int ACROSS_M, int ACROSS_N>
__device__ __forceinline__ void add_parts(float (&sum)[ACROSS_M][ACROSS_N][4], float* parts) {
    for (int p = 0; p < static_cast<int>(gridDim.y); ++p) {
        const float4* all = of_parts<ACROSS_M, ACROSS_N, HOLDERS>(parts, p);
#pragma unroll
        for (int i = 0; i < ACROSS_M; ++i)
#pragma unroll
            for (int j = 0; j < ACROSS_N; ++j) {
                const float4 more = all[(i * ACROSS_N + j) * HOLDERS];
                if (p == 0) sum[i][j][0] = sum[i][j][1] = sum[i][j][2] = sum[i][j][3] = 0.0f;
                sum[i][j][0] += more.x, sum[i][j][1] += more.y, sum[i][j][2] += more.z, sum[i][j][3] += more.w;
            }
    }
}

// Floats from row to row of a tile of BN columns in shared memory: a warp writes different banks.
template <int BN>
constexpr int PITCH = BN + 4;

// Copies a warp's sums to their position in the tile.
template <int BN, int ACROSS_M, int ACROSS_N>
__device__ __forceinline__ void put_sums(const float (&sum)[ACROSS_M][ACROSS_N][4], float* tile, int rows, int columns)
    {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < ACROSS_M; ++i)
#pragma unroll
        for (int j = 0; j < ACROSS_N; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                *reinterpret_cast<float2*>(tile + (rows + 16 * i + g + 8 * half) * PITCH<BN> + columns + 8 * j + 2 * t)
                    = make_float2(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
}

// Updates the parameters of the gradients in the tile at m0 and n0: gradients go to c, and the tile becomes the
// parameters. All threads of the block do so in a loop, before packing, one number at a time if rows are odd: unrolled
// in the warps that pack it took 21 kB of code.
template <int BM, int BN, int THREADS>
__device__ __forceinline__ void update_tile(float* tile, const Product& product, int m0, int n0) {
    const Flat& flat = product.flat;
    const int n = product.n;
    const long long first = product.c - flat.grads;
    const unsigned long long addresses = reinterpret_cast<unsigned long long>(product.c)
        | reinterpret_cast<unsigned long long>(flat.params + first);
    const int each = n % 4 == 0 && addresses % 16 == 0 ? 4 : 1;
#pragma unroll 1
    for (int begin = threadIdx.x * each; begin < BM * BN; begin += THREADS * each) {
        const int row = begin / BN, column = begin % BN;
        if (m0 + row >= product.m || n0 + column >= n) continue;
        const long long at = first + static_cast<long long>(m0 + row) * n + n0 + column;
        float* const own = tile + row * PITCH<BN> + column;
        const bool wide = each == 4;
        const float4 gradient = load_four(own, each, wide);
        float4 w = load_four(flat.params + at, each, wide), moved = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (flat.sgd.momentum != 0.0f) moved = load_four(flat.momentum_buffer + at, each, wide);
        store_four(flat.grads + at, gradient, each, wide);
        sgd_update(w.x, clip(gradient.x, flat.limit), moved.x, flat.sgd);
        sgd_update(w.y, clip(gradient.y, flat.limit), moved.y, flat.sgd);
        sgd_update(w.z, clip(gradient.z, flat.limit), moved.z, flat.sgd);
        sgd_update(w.w, clip(gradient.w, flat.limit), moved.w, flat.sgd);
        if (flat.sgd.momentum != 0.0f) store_four(flat.momentum_buffer + at, moved, each, wide);
        store_four(flat.params + at, w, each, wide);
        store_four(own, w, each, wide);
    }
}

// Writes the tile at m0 and n0 from shared memory; WARPS warps take 32 x 32 numbers of it at a time.
template <int FORMAT, int BM, int BN, int WARPS>
__device__ __forceinline__ void write_tile(float* tile, const Product& product, int m0, int n0) {
    static_assert(BM % 64 == 0 && BN % 32 == 0, "a tile is made of blocks that are packed, and of whole records");
    const float *bias = product.bias, *relu_mask = product.relu_mask;
    float* c = product.c;
    const int m = product.m, n = product.n;
    if (product.flat.params != nullptr) {
        update_tile<BM, BN, 32 * WARPS>(tile, product, m0, n0);
        c = nullptr;  // which has its gradients
        __syncthreads();
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool wide = n % 4 == 0 && (reinterpret_cast<unsigned long long>(c)
        | reinterpret_cast<unsigned long long>(relu_mask)) % 16 == 0;
    const bool packs = product.to.along != nullptr || product.to.across != nullptr;
    for (int block = warp; block < BM / 32 * (BN / 32); block += WARPS) {
        const int top = block / (BN / 32) * 32, left = block % (BN / 32) * 32, row0 = m0 + top, column0 = n0 + left;
        if (!block_counts<FORMAT>(row0, column0, m, n)) continue;
        const int own = lane / 8 * 8, column = column0 + lane % 8 * 4;
        float v[8][4], add[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) add[q] = bias != nullptr && column + q < n ? bias[column + q] : 0.0f;
        // Count of row i's numbers from `column` on; if `wide`, at least 4, or none.
        const auto count = [&](int i) { return row0 + own + i < m ? n - column : 0; };
        const auto at = [&](int i) { return count(i) > 0 ? static_cast<long long>(row0 + own + i) * n + column : 0; };
        // into the registers of the result; of all rows at once, for one wait
        if (relu_mask != nullptr) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float4 y = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (wide) {
                    if (count(i) > 0) y = *reinterpret_cast<const float4*>(relu_mask + at(i));
                } else {
                    y = load_four(relu_mask + at(i), count(i), false);
                }
                v[i][0] = y.x, v[i][1] = y.y, v[i][2] = y.z, v[i][3] = y.w;
            }
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float4 four = *reinterpret_cast<const float4*>(tile + (top + own + i) * PITCH<BN> + left + lane % 8 * 4);
            four = four + make_float4(add[0], add[1], add[2], add[3]);
            if (product.fused_relu) four = make_float4(relu(four.x), relu(four.y), relu(four.z), relu(four.w));
            if (relu_mask != nullptr) four = relu_gradient(four, make_float4(v[i][0], v[i][1], v[i][2], v[i][3]));
            v[i][0] = count(i) > 0 ? four.x : 0.0f, v[i][1] = count(i) > 1 ? four.y : 0.0f;
            v[i][2] = count(i) > 2 ? four.z : 0.0f, v[i][3] = count(i) > 3 ? four.w : 0.0f;
        }
        if (c != nullptr) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const float4 four = make_float4(v[i][0], v[i][1], v[i][2], v[i][3]);
                if (wide) {
                    if (count(i) > 0) *reinterpret_cast<float4*>(c + at(i)) = four;
                } else {
                    store_four(c + at(i), four, count(i), false);
                }
            }
        }
        if (packs) pack_block<FORMAT>(v, product.to, row0, column0, m, n);
    }
}
