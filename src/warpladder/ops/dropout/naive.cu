// Dropout, one thread for each number. x, y: (count,), count = n * size of a sample; the backward pass takes dy and dx.
#include "dropout.cuh"
#include "index.cuh"

// y[i] = x[i] m, where m is 0 if the number's hash is below `threshold`, else `scale`. Reads and writes 4 bytes a
// thread; bound by memory. In predictions `threshold` is 0, and nothing is dropped.
// key: (1,), the epoch's mask key. step: (1,), the running step, of which `done` are counted already.
// batch: samples of a full batch. offset: the first sample of the slice in its batch. layer: added to the key.
extern "C" __global__ void dropout(const float* __restrict__ x, float* __restrict__ y, const unsigned* __restrict__ key,
    const int* __restrict__ step, int done, int batch, int offset, unsigned layer, int size, unsigned threshold,
    float scale, long long count) {
    const long long i = thread_number();
    if (i >= count) return;
    float mask = scale;
    if (threshold > 0) {
        const unsigned sample = (unsigned)(i / size), element = (unsigned)(i % size);
        const unsigned position = (unsigned)(*step - done) * (unsigned)batch + (unsigned)offset + sample;
        mask = dropout_mask(*key, layer, position, element, threshold, scale);
    }
    y[i] = x[i] * mask;
}
