// Softmax cross-entropy after a library's log-softmax: gradient, loss and accuracy. x, p: (n, classes); label: (n,).
#include "index.cuh"
#include "log_blocks.cuh"

// p holds the logarithms of the probabilities, and then the gradient: p[n, c] = (exp(p[n, c]) - (c is the label)) /
// batch. One thread for each sample. The losses and hits of a block's samples are summed in parts and counts
// (blocks,), and the block that finishes last adds these in order. arrived: (1,), zero between launches. Hits
// are computed from the logits x, before any rounding.
extern "C" __global__ void cross_entropy_from_log(
    const float* __restrict__ x, const int* __restrict__ label, float* __restrict__ p, double* parts, long long* counts,
    unsigned* arrived, int n, int classes, int batch, int* step, double* loss, long long* correct, int first, int last
) {
    const long long sample = thread_number();
    double sum = 0.0;
    long long count = 0;
    if (sample < n) {
        const float* logits = x + sample * classes;
        float* row = p + sample * classes;
        const int wanted = label[sample];
        sum = -row[wanted];
        int best = 0;
        for (int c = 0; c < classes; ++c) {
            if (logits[c] > logits[best]) best = c;
            row[c] = (expf(row[c]) - (c == wanted ? 1.0f : 0.0f)) / batch;
        }
        count = best == wanted;
    }
    log_blocks(sum, count, parts, counts, arrived, batch, step, loss, correct, first, last);
}
