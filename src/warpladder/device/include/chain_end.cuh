// End of a step of a thin chain: sums over rows of samples or blocks, the update of their parameters, and the log.
#pragma once
#include "log.cuh"
#include "parameter.cuh"
#include "warp.cuh"

constexpr int COLUMNS = 32;  // numbers whose sums a block computes: a lane of each of its PARTS warps for each
constexpr int AT_ONCE = 16;  // rows that a lane requests before it adds any

// Sum over rows (many, pitch) of this lane's column, a number of the gradient: each warp adds every PARTS-th row,
// the first warp the warps' sums. to: its destination, null for lanes without a column. By all threads of PARTS warps.
template <int PARTS>
__device__ void sum_rows(const float* __restrict__ rows, int many, int pitch, int column, float* to, const Flat& flat) {
    __shared__ float held[PARTS][COLUMNS];
    const int lane = threadIdx.x % COLUMNS, mine = threadIdx.x / COLUMNS;
    float total = 0.0f;
    const float* from = rows + static_cast<long long>(mine) * pitch + column;
    const int wanted = to != nullptr ? many : 0;
    for (int r = mine; r < many; r += AT_ONCE * PARTS) {
        float some[AT_ONCE];
#pragma unroll
        for (int a = 0; a < AT_ONCE; ++a) {
            some[a] = r + a * PARTS < wanted ? *from : 0.0f;
            from += static_cast<long long>(PARTS) * pitch;
        }
#pragma unroll
        for (int a = 0; a < AT_ONCE; ++a) total += some[a];
    }
    if (mine > 0) held[mine][lane] = total;
    Parameter parameter(flat, mine == 0 ? to : nullptr);
    __syncthreads();
    if (mine > 0 || to == nullptr) return;
#pragma unroll
    for (int p = 1; p < PARTS; ++p) total += held[p][lane];
    parameter.finish(flat, to, total);
}

// Destinations of the small sums of thin_chain.cuh, by number; null beyond them.
struct SmallSums {
    int width, out, count;  // outputs of the first and the last layer, and how many sums there are
    float *db1, *dw2, *db2;

    __device__ float* operator[](int k) const {
        return k < width ? db1 + k : k >= count ? nullptr : k < width + out ? db2 + (k - width)
            : dw2 + (k - width - out);
    }
};

// The log's entry from losses and counts (many,). By all threads of PARTS warps. log_loss: null without a loss.
template <int PARTS>
__device__ void sum_log(const double* __restrict__ lost, const int* __restrict__ hits, int many, int* step,
    double* log_loss, long long* log_correct, int batch, int first, int last) {
    __shared__ double held_loss[PARTS];
    __shared__ long long held_hits[PARTS];
    const int now = *step;  // loaded with the rest
    if (log_loss == nullptr) {
        if (threadIdx.x == 0) write_log(now, step, log_loss, log_correct, 0.0, 0, first, last);
        return;
    }
    double loss = 0.0;
    long long correct = 0;
#pragma unroll 4
    for (int r = threadIdx.x; r < many; r += 32 * PARTS) {
        loss += lost[r];
        correct += hits[r];
    }
    loss = warp_sum(loss);
    correct = warp_sum(correct);
    if (threadIdx.x % 32 == 0) held_loss[threadIdx.x / 32] = loss, held_hits[threadIdx.x / 32] = correct;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int p = 1; p < PARTS; ++p) {
        loss += held_loss[p];
        correct += held_hits[p];
    }
    write_log(now, step, log_loss, log_correct, loss / batch, correct, first, last);
}
