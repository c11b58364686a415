// Head of a classifier in one phase, where the last layer has few outputs: its outputs, the loss and the gradients by
// its outputs and inputs. A block has some samples of its own, several warps for each, so that no other block waits for
// the softmax of many samples. The layer's weights are in shared memory, requested before the phase.
#pragma once
#include "phases.cuh"

// Request the weights of a block with samples, by all its threads.
template <int IN, int OUT, int ROWS>
__device__ __forceinline__ void request_head(Blocks team, const float* w, int n) {
    if (team.block >= pieces(n, ROWS)) return;
#pragma unroll 1
    for (int i = 4 * threadIdx.x; i < OUT * line(IN); i += 4 * THREADS) copy_sixteen(tile_memory() + i, w + i, 4);
}

// Outputs before the loss of the sample x, of which each of its lanes has EACH quads, LANES quads apart, from `first`
// on: the sums of a warp's lanes, in all of them. w: (OUT, line(IN)) in shared memory.
template <int IN, int OUT, int EACH, int LANES>
__device__ __forceinline__ void head_outputs(float (&sum)[OUT], const float (&x)[EACH][4], const float* w, int first) {
#pragma unroll
    for (int o = 0; o < OUT; ++o) {
        sum[o] = 0.0f;
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            float weights[4];
            const int e = 4 * (first + k * LANES);
            load_some(weights, w + o * line(IN) + e, e < IN);
#pragma unroll
            for (int j = 0; j < 4; ++j) sum[o] += x[k][j] * weights[j];
        }
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
#pragma unroll
        for (int o = 0; o < OUT; ++o) sum[o] += __shfl_xor_sync(EVERY_LANE, sum[o], offset);
}

// Last layer of a classifier, its loss as in `classify`, g, the gradient by its outputs before a ReLU (n, OUT), and dx,
// the gradient by its inputs x (n, IN); with BEFORE zero where x is not positive. RELU: true if a ReLU follows the
// layer. A tile is ROWS samples. label: (n,). batch: samples of the whole batch.
template <int IN, int OUT, int ROWS, bool RELU, bool BEFORE>
__device__ __noinline__ int head(
    Blocks team, const float* x, const float* w, const int* label, float* g, float* dx, Parts parts, int n, int batch
) {
    constexpr int WARPS = THREADS / 32 / ROWS, LANES = 32 * WARPS, EACH = ((IN + 3) / 4 + LANES - 1) / LANES;
    __shared__ double lost[THREADS / 32];
    __shared__ int hits[THREADS / 32];
    __shared__ float sums[THREADS / 32][OUT], outputs[ROWS][OUT], gradient[ROWS][OUT];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp / WARPS, first = threadIdx.x % LANES;
    const float* const held = tile_memory();
    const int tiles = pieces(n, ROWS);
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    for (int tile = team.block; tile < tiles; tile += team.blocks) {
        const int m = tile * ROWS + row;
        float inputs[EACH][4], sum[OUT];
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const int e = 4 * (first + k * LANES);
            load_some(inputs[k], x + m * line(IN) + e, m < n && e < IN);
        }
        const int wanted = m < n ? label[m] : 0;
        head_outputs<IN, OUT, EACH, LANES>(sum, inputs, held, first);
        if (lane == 0)
#pragma unroll
            for (int o = 0; o < OUT; ++o) sums[warp][o] = sum[o];
        __syncthreads();
        float loss = 0.0f;
        bool hit = false;
        if (warp % WARPS == 0 && m < n) {
            for (int o = lane; o < OUT; o += 32) {
                float total = IN % 4 == 0 ? held[o * line(IN) + IN] : 0.0f;  // else the last quad has the bias
                for (int part = 0; part < WARPS; ++part) total += sums[warp + part][o];
                outputs[row][o] = RELU ? relu(total) : total;
            }
            __syncwarp();
            cross_entropy<OUT, RELU>(outputs[row], wanted, batch, gradient[row], loss, hit);
            __syncwarp();
            for (int o = lane; o < OUT; o += 32) g[m * line(OUT) + o] = gradient[row][o];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const int e = 4 * (first + k * LANES);
            if (m >= n || e >= IN) continue;
            float out[4] = {};
#pragma unroll
            for (int o = 0; o < OUT; ++o) {
                float weights[4];
                load_four(weights, held + o * line(IN) + e);
#pragma unroll
                for (int j = 0; j < 4; ++j) out[j] += gradient[row][o] * weights[j];
            }
            if constexpr (BEFORE)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    if (!(inputs[k][j] > 0.0f)) out[j] = 0.0f;
            store_some(dx + m * line(IN) + e, out, e, IN);
        }
        store_losses(parts, tile, loss, hit, lost, hits);
    }
    end_of_tile();
    return tiles;
}
