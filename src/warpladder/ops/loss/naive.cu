// Losses with settings or with weights of samples, in one kernel each: gradient, loss and accuracy.
// instance: element_loss<0>; element_loss<1>; element_loss<2>; element_loss<3>
#include "index.cuh"
#include "log_blocks.cuh"
#include "loss.cuh"
#include "softmax.cuh"

// Share of a sample of the batch in its mean: 1 / batch, or the share at its position in the epoch's order. shares:
// (samples,), or null. place: first position of the slice in the batch. batch: samples of a full batch, from which the
// step's first position is computed. own: samples of this batch.
__device__ __forceinline__ float share_of(const float* shares, const int* step, int batch, int place, long long sample,
    int own) {
    if (shares == nullptr) return 1.0f / own;
    return shares[static_cast<long long>(*step) * batch + place + sample];
}

// End of a step's loss, as `log_blocks`; the step is counted after all blocks have read it.
__device__ __forceinline__ void end_of(double sum, long long hits, const float* shares, double* parts,
    long long* counts, unsigned* arrived, int* step, double* loss, long long* correct, int first, int last) {
    if (loss != nullptr || shares == nullptr) {
        log_blocks(sum, hits, parts, counts, arrived, 1, step, loss, correct, first, last);
    } else if (last_block(arrived) && threadIdx.x == 0) {
        write_log(step, loss, correct, 0.0, 0, first, last);
    }
}

// x, target, dx: (n * size,); setting: (size,). dx[i] = f'(x[i], target[i]) share / size. Threads take the elements i,
// i + all threads, ...; the losses of a block are summed in parts (blocks,), and the block that finishes last adds
// these in order. counts: (blocks,). arrived: (1,), zero between launches.
template <int FUNCTION>
__global__ void element_loss(const float* __restrict__ x, const float* __restrict__ target, float* __restrict__ dx,
    const float* __restrict__ setting, const float* __restrict__ shares, double* parts, long long* counts,
    unsigned* arrived, long long count, int size, int batch, int place, int own, int* step, double* loss,
    long long* correct, int first, int last) {
    double sum = 0.0;
    for (long long i = thread_number(); i < count; i += static_cast<long long>(gridDim.x) * blockDim.x) {
        const float share = share_of(shares, step, batch, place, i / size, own) / size, its = setting[i % size];
        if (loss != nullptr) sum += static_cast<double>(share) * element_value<FUNCTION>(x[i], target[i], its);
        dx[i] = element_slope<FUNCTION>(x[i], target[i], its) * share;
    }
    end_of(sum, 0, shares, parts, counts, arrived, step, loss, correct, first, last);
}

// x, dx: (n, classes); label: (n,); weight: (classes,). dx[n, c] = share (softmax(x[n])[c] sum(q) - q[c]), where q[c]
// is its class_target. One thread for each sample; losses and hits are summed as in `element_loss`.
extern "C" __global__ void label_loss(const float* __restrict__ x, const int* __restrict__ label,
    float* __restrict__ dx, const float* __restrict__ weight, const float* __restrict__ shares, double* parts,
    long long* counts, unsigned* arrived, int n, int classes, float smoothing, int batch, int place, int own, int* step,
    double* loss, long long* correct, int first, int last) {
    const long long sample = thread_number();
    double sum = 0.0;
    long long count = 0;
    if (sample < n) {
        const float* logits = x + sample * classes;
        const Softmax s = softmax(logits, classes);
        const int wanted = label[sample];
        const float share = share_of(shares, step, batch, place, sample, own);
        float every = 0.0f, lost = 0.0f;
        for (int c = 0; c < classes; ++c) {
            const float q = class_target(weight[c], smoothing, classes, c == wanted);
            every += q;
            lost += q * (s.largest - logits[c]);
        }
        for (int c = 0; c < classes; ++c) {
            const float q = class_target(weight[c], smoothing, classes, c == wanted);
            dx[sample * classes + c] = (expf(logits[c] - s.largest) / s.total * every - q) * share;
        }
        if (loss != nullptr) {
            sum = static_cast<double>(share) * (every * logf(s.total) + lost);
            count = s.best == wanted;
        }
    }
    end_of(sum, count, shares, parts, counts, arrived, step, loss, correct, first, last);
}
