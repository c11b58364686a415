// End of a step of a thin chain with many samples: sums over partials and blocks, the update, and the log.
#include "chain_end.cuh"

constexpr int PARTS = 16;

// part: (partials, size), whose sums are dw1. small: (blocks, count). lost, hits: (blocks,). width, out: outputs of the
// first and the last layer. Blocks along x: of dw1, then of the small sums, then one for the log. params,
// momentum_buffer: may be null.
extern "C" __global__ void __launch_bounds__(COLUMNS * PARTS) chain_finish(
    const float* __restrict__ part, int partials, int size, const float* __restrict__ small,
    const double* __restrict__ lost, const int* __restrict__ hits, int blocks, int count, int width, int out,
    float* dw1, float* db1, float* dw2, float* db2, float* grads, float* params, float* momentum_buffer, float rate,
    float momentum, int nesterov, float decay, float limit, int* step, double* log_loss, long long* log_correct,
    int batch, int first, int last
) {
    const Flat flat = {grads, params, momentum_buffer, {rate, momentum, nesterov, decay}, limit};
    const int wide = (size + COLUMNS - 1) / COLUMNS, block = blockIdx.x, lane = threadIdx.x % COLUMNS;
    if (block < wide) {
        const int k = block * COLUMNS + lane;
        sum_rows<PARTS>(part, partials, size, k, k < size ? dw1 + k : nullptr, flat);
    } else if (block < gridDim.x - 1) {
        const SmallSums to = {width, out, count, db1, dw2, db2};
        const int k = (block - wide) * COLUMNS + lane;
        sum_rows<PARTS>(small, blocks, count, k, to[k], flat);
    } else {
        sum_log<PARTS>(lost, hits, blocks, step, log_loss, log_correct, batch, first, last);
    }
}
