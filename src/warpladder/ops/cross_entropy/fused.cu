// Softmax cross-entropy in one kernel: gradient, loss and accuracy. x, dx: (n, classes); label: (n,).
#include "block_sum.cuh"
#include "index.cuh"
#include "last_block.cuh"
#include "log.cuh"
#include "softmax.cuh"

// dx[n, c] = (softmax(x[n])[c] - (c is the label)) / batch, one thread for each sample; the losses and hits of a block's samples are added up
// in parts (blocks,) and counts (blocks,), and the block that finishes last adds those up, in their order. arrived: (1,), zero between launches.
// Nothing but the gradient goes through memory; three launches become one.
extern "C" __global__ void cross_entropy_fused(
    const float* __restrict__ x, const int* __restrict__ label, float* __restrict__ dx, double* parts, long long* counts, unsigned* arrived,
    int n, int classes, int batch, int* step, double* loss, long long* correct, int first, int last
) {
    __shared__ double shared[BLOCK_MOST];
    __shared__ long long shared_counts[BLOCK_MOST];
    const long long sample = thread_number();
    double sum = 0.0;
    long long count = 0;
    if (sample < n) {
        const float* logits = x + sample * classes;
        const Softmax s = softmax(logits, classes);
        const int wanted = label[sample];
        for (int c = 0; c < classes; ++c) {
            dx[sample * classes + c] = (expf(logits[c] - s.largest) / s.total - (c == wanted ? 1.0f : 0.0f)) / batch;
        }
        sum = surprise(s, logits[wanted]);
        count = s.best == wanted;
    }
    sum = block_sum(sum, shared);
    count = block_sum(count, shared_counts);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        counts[blockIdx.x] = count;
    }
    if (!last_block(arrived)) return;
    sum = 0.0;
    count = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
        sum += parts[i];
        count += counts[i];
    }
    sum = block_sum(sum, shared);
    count = block_sum(count, shared_counts);
    if (threadIdx.x == 0) write_log(step, loss, correct, sum / batch, count, first, last);
}
