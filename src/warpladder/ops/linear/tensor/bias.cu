// Bias gradient from the sums of 32 samples each that the packing of dy wrote; and the update of the bias.
// arch: sm_80, sm_90, sm_100
#include "chain_end.cuh"

constexpr int PARTS = 8;

// sums: (blocks, outputs). db: (outputs,). A block has COLUMNS outputs; a warp adds every PARTS-th row. params: may be
// null.
extern "C" __global__ void __launch_bounds__(COLUMNS * PARTS) finish_bias(
    const float* __restrict__ sums, int blocks, int outputs, float* db, float* grads, float* params,
    float* momentum_buffer, float rate, float momentum, int nesterov, float decay, float limit
) {
    const int column = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    sum_rows<PARTS>(sums, blocks, outputs, column, column < outputs ? db + column : nullptr,
        {grads, params, momentum_buffer, {rate, momentum, nesterov, decay}, limit});
}
