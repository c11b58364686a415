// End of a loss kernel of many blocks: the sum of their sums, and the step's entry in the log.
#pragma once

#include "last_block.cuh"
#include "log.cuh"
#include "warp.cuh"

// Writes the log from the samples' losses and hits; every thread of every block of whole warps calls it. The blocks'
// sums are stored in parts and counts (blocks,), and the block that finishes last adds these in order. arrived: (1,),
// zero between launches. loss: null without a loss; then one thread counts the step.
__device__ inline void log_blocks(double sum, long long hits, double* parts, long long* counts, unsigned* arrived,
    int batch, int* step, double* loss, long long* correct, int first, int last) {
    if (loss == nullptr) {
        if (blockIdx.x == 0 && threadIdx.x == 0) write_log(step, loss, correct, 0.0, 0, first, last);
        return;
    }
    __shared__ double shared[32];
    __shared__ long long shared_counts[32];
    sum = sum_by_warps(sum, shared);
    hits = sum_by_warps(hits, shared_counts);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        counts[blockIdx.x] = hits;
    }
    if (!last_block(arrived)) return;
    sum = 0.0;
    hits = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
        sum += parts[i];
        hits += counts[i];
    }
    sum = sum_by_warps(sum, shared);
    hits = sum_by_warps(hits, shared_counts);
    if (threadIdx.x == 0) write_log(step, loss, correct, sum / batch, hits, first, last);
}
