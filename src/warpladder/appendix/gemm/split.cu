// C (m, n) = A (m, k) B (k, n), row by row in memory, float32, with fp32's accuracy, on tensor cores that take factors
// of 11 bits. Each factor is split into two halves, x = high + low: high is x rounded to 11 bits, low is what is
// missing, rounded to 11 bits again. Of
//     (ah + al) (bh + bl) = ah bh + ah bl + al bh + al bl
// the last product is 2^-22 of the first and left out: three products in half for one in fp32. Half reaches from 2^-24
// to 2^16 only. So every row of A and every column of B is multiplied by the power of two that brings its largest
// number to 2^14: numbers 2^-16 of that still have a low half above half's end. Sums are multiplied back in the end;
// nothing of this rounds. Tensor cores truncate sums (device/include/mma.cuh), and errors of one sign grow with k. So
// after every 32 terms their accumulator is added to a sum in a register, by an addition that rounds, and begins from 0
// again.
// arch: sm_80, sm_90, sm_100
#include "store.cuh"
#include "tiles16.cuh"
#include "warp.cuh"

constexpr int HIGHEST = 14;  // where the largest number of a row or column is brought to

// The exponent by which a line of numbers is multiplied, of which `most` is the largest; a line of zeros stays as it
// is.
__device__ __forceinline__ int exponent_for(float most) { return most > 0.0f ? HIGHEST - ilogbf(most) : 0; }

__device__ __forceinline__ void split(float x, int exponent, Bits& high, Bits& low) {
    x = ldexpf(x, exponent);
    const unsigned rounded = two_halves(x, 0.0f);
    high = static_cast<Bits>(rounded);
    low = static_cast<Bits>(two_halves(x - low_half(rounded), 0.0f));
}

constexpr int SPLITTERS = 256;

// One block for each row of x (rows, columns); the halves' rows are `pitch` numbers apart.
extern "C" __global__ void __launch_bounds__(SPLITTERS)
split_rows(const float* __restrict__ x, Bits* __restrict__ high, Bits* __restrict__ low, int* __restrict__ exponents,
    int columns, int pitch) {
    __shared__ float largest[SPLITTERS / 32];
    const float* row = x + (long long)blockIdx.x * columns;
    float most = 0.0f;
    for (int i = threadIdx.x; i < columns; i += SPLITTERS) most = fmaxf(most, fabsf(row[i]));
    for (int offset = 16; offset > 0; offset /= 2) most = fmaxf(most, __shfl_xor_sync(EVERY_LANE, most, offset));
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = most;
    __syncthreads();
    for (int warp = 0; warp < SPLITTERS / 32; ++warp) most = fmaxf(most, largest[warp]);
    const int exponent = exponent_for(most);
    const long long to = (long long)blockIdx.x * pitch;
    for (int i = threadIdx.x; i < columns; i += SPLITTERS) split(row[i], exponent, high[to + i], low[to + i]);
    if (threadIdx.x == 0) exponents[blockIdx.x] = exponent;
}

constexpr int COLUMN_SPLITTERS = 1024;  // few blocks: each needs many loads in flight

// One block for 32 columns of x (rows, columns); its warps take turns at the rows.
extern "C" __global__ void __launch_bounds__(COLUMN_SPLITTERS)
split_columns(
    const float* __restrict__ x, Bits* __restrict__ high, Bits* __restrict__ low, int* __restrict__ exponents, int rows,
        int columns, int pitch
) {
    __shared__ float largest[COLUMN_SPLITTERS / 32][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    const int end = column < columns ? rows : 0;
    float most = 0.0f;
    for (int row = warp; row < end; row += COLUMN_SPLITTERS / 32)
        most = fmaxf(most, fabsf(x[(long long)row * columns + column]));
    largest[warp][lane] = most;
    __syncthreads();
    for (int other = 0; other < COLUMN_SPLITTERS / 32; ++other) most = fmaxf(most, largest[other][lane]);
    const int exponent = exponent_for(most);
    for (int row = warp; row < end; row += COLUMN_SPLITTERS / 32) {
        const long long to = (long long)row * pitch + column;
        split(x[(long long)row * columns + column], exponent, high[to], low[to]);
    }
    if (warp == 0 && column < columns) exponents[column] = exponent;
}

constexpr int TILE = 128, DEPTH = 32, STAGES = 3, THREADS = 256;
using TileA = Tile16<TILE, DEPTH, THREADS>;
using TileB = Tile16<DEPTH, TILE, THREADS>;
// numbers: high and low of both; a block takes 2 STAGES STAGE bytes of shared memory
constexpr int STAGE = 2 * (TileA::SIZE + TileB::SIZE);

// As ring.cu, with three products for one; a warp has 64 x 32 numbers of C, twice: in the tensor cores' accumulators
// and in sums.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
product(
    const Bits* __restrict__ a_high, const Bits* __restrict__ a_low, const int* __restrict__ a_exponents,
    const Bits* __restrict__ b_high,
    const Bits* __restrict__ b_low, const int* __restrict__ b_exponents, float* __restrict__ c, int m, int n, int k,
        int pitch_a, int pitch_b
) {
    extern __shared__ uint4 shared[];
    Bits* ring = reinterpret_cast<Bits*>(shared);
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    const int warp = threadIdx.x / 32, rows = warp % 2 * 64, columns = warp / 2 * 32;
    const int steps = (k + DEPTH - 1) / DEPTH;
    auto fetch = [&](int step) {
        if (step < steps) {
            Bits* to = ring + step % STAGES * STAGE;
            const int first = step * DEPTH;
            const long long of_a = (long long)top * pitch_a + first, of_b = (long long)first * pitch_b + left;
            TileA::fetch(to, a_high + of_a, pitch_a, m - top, k - first);
            TileA::fetch(to + TileA::SIZE, a_low + of_a, pitch_a, m - top, k - first);
            TileB::fetch(to + 2 * TileA::SIZE, b_high + of_b, pitch_b, k - first, n - left);
            TileB::fetch(to + 2 * TileA::SIZE + TileB::SIZE, b_low + of_b, pitch_b, k - first, n - left);
        }
        commit_copies();
    };
    for (int step = 0; step < STAGES - 1; ++step) fetch(step);

    float sum[4][4][4] = {};
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        fetch(step + STAGES - 1);
        const Bits *tile_a = ring + step % STAGES * STAGE, *tile_b = tile_a + 2 * TileA::SIZE;
        float part[4][4][4] = {};  // 32 terms of each sum
#pragma unroll
        for (int first = 0; first < DEPTH; first += 16) {
            unsigned high_a[4][4], low_a[4][4], high_b[4][2], low_b[4][2];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                TileA::left(high_a[i], tile_a, rows + 16 * i, first);
                TileA::left(low_a[i], tile_a + TileA::SIZE, rows + 16 * i, first);
            }
#pragma unroll
            for (int j = 0; j < 4; j += 2) {
                TileB::right(high_b[j], high_b[j + 1], tile_b, first, columns + 8 * j);
                TileB::right(low_b[j], low_b[j + 1], tile_b + TileB::SIZE, first, columns + 8 * j);
            }
#pragma unroll
            // al bh, ah bl, ah bh: the small ones first, so that less of them is cut off
            for (int product = 0; product < 3; ++product)
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        mma_half(part[i][j], product == 0 ? low_a[i] : high_a[i], product == 1 ? low_b[j] : high_b[j]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
#pragma unroll
                for (int l = 0; l < 4; ++l) sum[i][j][l] += part[i][j][l];
    }
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int l = 0; l < 4; ++l) {
                const int row = min(top + rows + 16 * i + g + l / 2 * 8, m - 1),
                    column = min(left + columns + 8 * j + 2 * t + l % 2, n - 1);
                sum[i][j][l] = ldexpf(sum[i][j][l], -(a_exponents[row] + b_exponents[column]));
            }
            store_fragment(c, sum[i][j], top + rows + 16 * i, left + columns + 8 * j, m, n);
        }
}
