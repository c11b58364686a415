// Softmax cross-entropy by warps: gradient, loss and accuracy in one kernel. x, dx: (n, classes); label: (n,).
#include "log_blocks.cuh"
#include "warp.cuh"

// Largest of all lanes' values and its position, the first among equals.
__device__ __forceinline__ void warp_largest(float& value, int& place) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(EVERY_LANE, value, offset);
        const int there = __shfl_xor_sync(EVERY_LANE, place, offset);
        if (other > value || (other == value && there < place)) {
            value = other;
            place = there;
        }
    }
}

// dx[s, c] = (softmax(x[s])[c] - (c is the label)) / batch. Lanes take the classes l, l + 32, ...; logits are read
// coalesced, and twice more from L1. Losses and hits of a block's samples are added in parts (blocks,) and counts
// (blocks,), and the last block adds those, in order. arrived: (1,), zero between launches.
extern "C" __global__ void cross_entropy_by_warps(
    const float* __restrict__ x, const int* __restrict__ label, float* __restrict__ dx, double* parts,
    long long* counts, unsigned* arrived, int n, int classes, int batch, int* step, double* loss, long long* correct,
    int first, int last
) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    double sum = 0.0;
    long long count = 0;
    for (long long sample = static_cast<long long>(blockIdx.x) * warps + threadIdx.x / 32; sample < n;
        sample += static_cast<long long>(gridDim.x) * warps) {
        const float* logits = x + sample * classes;
        int best = min(lane, classes - 1);
        float largest = logits[best];
        for (int c = lane + 32; c < classes; c += 32) {
            if (logits[c] > largest) {
                largest = logits[c];
                best = c;
            }
        }
        warp_largest(largest, best);
        float total = 0.0f;
        for (int c = lane; c < classes; c += 32) total += expf(logits[c] - largest);
        total = warp_sum(total);  // NaN where a logit is
        const int wanted = label[sample];
        for (int c = lane; c < classes; c += 32) {
            dx[sample * classes + c] = (expf(logits[c] - largest) / total - (c == wanted ? 1.0f : 0.0f)) / batch;
        }
        if (lane == 0 && loss != nullptr) {
            sum += logf(total) - (logits[wanted] - largest);
            count += best == wanted;
        }
    }
    log_blocks(sum, count, parts, counts, arrived, batch, step, loss, correct, first, last);
}
