// Sums over blocks' parts of each number of the gradient, and what is done with them, such as any optimizer's step.
#pragma once
#include "chain_end.cuh"

// Sum over rows (many, pitch) of this lane's column, to its number of the gradient; null for lanes without one. A warp
// adds every PARTS-th row, the first one the warps' sums. By all threads of PARTS warps.
template <int PARTS, class Ends>
__device__ void finish_sum(const float* __restrict__ rows, int many, int pitch, int column, float* to,
    const Ends& ends) {
    __shared__ float held[PARTS][COLUMNS];
    const int lane = threadIdx.x % COLUMNS, mine = threadIdx.x / COLUMNS;
    float total = 0.0f;
    for (int r = mine; r < many; r += AT_ONCE * PARTS) {
        float some[AT_ONCE];
#pragma unroll
        for (int a = 0; a < AT_ONCE; ++a) {
            const int row = r + a * PARTS;
            some[a] = row < many && to != nullptr ? rows[static_cast<long long>(row) * pitch + column] : 0.0f;
        }
#pragma unroll
        for (int a = 0; a < AT_ONCE; ++a) total += some[a];
    }
    held[mine][lane] = total;
    __syncthreads();
    if (mine > 0 || to == nullptr) return;
#pragma unroll
    for (int p = 1; p < PARTS; ++p) total += held[p][lane];
    ends.finish(to, total);
}
