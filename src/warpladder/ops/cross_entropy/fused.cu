// Softmax cross-entropy in one kernel: gradient, loss and accuracy. x, dx: (n, classes); label: (n,).
#include "index.cuh"
#include "log_blocks.cuh"
#include "softmax.cuh"

// dx[n, c] = (softmax(x[n])[c] - (c is the label)) / batch, one thread for each sample; the losses and hits of a
// block's samples are summed in parts (blocks,) and counts (blocks,), and the block that finishes last adds these
// in order. arrived: (1,), zero between launches. Only the gradient goes through memory.
extern "C" __global__ void cross_entropy_fused(
    const float* __restrict__ x, const int* __restrict__ label, float* __restrict__ dx, double* parts,
    long long* counts, unsigned* arrived, int n, int classes, int batch, int* step, double* loss, long long* correct,
    int first, int last
) {
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
        if (loss != nullptr) {
            sum = surprise(s, logits[wanted]);
            count = s.best == wanted;
        }
    }
    log_blocks(sum, count, parts, counts, arrived, batch, step, loss, correct, first, last);
}
