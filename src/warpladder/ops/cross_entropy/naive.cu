// Softmax cross-entropy in three kernels, as in the reports. x, p, dx: (n, classes); label, losses, hits: (n,).
#include "block_sum.cuh"
#include "index.cuh"
#include "log.cuh"
#include "softmax.cuh"

// p[n, c] = exp(x[n, c]) / sum over all classes; losses[n] = -log p[n, label[n]]; hits[n] = 1 if the largest logit is
// the label's. One thread for each sample, which reads its row three times, from L1. losses, hits: may be null.
extern "C" __global__ void cross_entropy_softmax(const float* __restrict__ x, const int* __restrict__ label,
    float* __restrict__ p, float* __restrict__ losses, int* __restrict__ hits, int n, int classes) {
    const long long sample = thread_number();
    if (sample >= n) return;
    const float* logits = x + sample * classes;
    const Softmax s = softmax(logits, classes);
    for (int c = 0; c < classes; ++c) p[sample * classes + c] = expf(logits[c] - s.largest) / s.total;
    if (losses == nullptr) return;
    losses[sample] = surprise(s, logits[label[sample]]);
    hits[sample] = s.best == label[sample];
}

// dx[n, c] = (p[n, c] - (c is the label)) / batch, in place. One thread for each logit; bound by memory.
extern "C" __global__ void cross_entropy_gradient(const int* __restrict__ label, float* p, int n, int classes,
    int batch) {
    const long long i = thread_number();
    if (i >= static_cast<long long>(n) * classes) return;
    const float wanted = i % classes == label[i / classes] ? 1.0f : 0.0f;
    p[i] = (p[i] - wanted) / batch;
}

// Adds the sum of the losses, divided by `batch`, to the step's loss, and the hits to its count; n = 0 for none. One
// block.
extern "C" __global__ void cross_entropy_log(const float* __restrict__ losses, const int* __restrict__ hits, int n,
    int batch, int* step, double* loss, long long* correct, int first, int last) {
    __shared__ double shared[BLOCK_MOST];
    __shared__ long long counts[BLOCK_MOST];
    double sum = 0.0;
    long long count = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        sum += losses[i];
        count += hits[i];
    }
    sum = block_sum(sum, shared);
    count = block_sum(count, counts);
    if (threadIdx.x == 0) write_log(step, loss, correct, sum / batch, count, first, last);
}
