// Gathering of a batch from stored samples, one thread for each number. source: (samples, size); x: (n, size);
// rows: (n,).
#include "index.cuh"
#include "order.cuh"

// rows[i] = the sample at position step * batch + offset + i of the order. One thread for each sample. A position
// beyond the end, for which an order is undefined, counts from the beginning.
extern "C" __global__ void gather_order(const unsigned* __restrict__ order, const int* __restrict__ step,
    int* __restrict__ rows, int n, int batch, int offset) {
    const long long i = thread_number();
    if (i >= n) return;
    const long long position = *step * static_cast<long long>(batch) + offset + i;
    rows[i] = order_at(order, static_cast<unsigned>(position % order_length(order)));
}

// x[i, e] = source[rows[i], e] * scale, one product in float32, and target[i] = labels[rows[i]]; without rows, from row
// i. labels and target may be null. Bound by memory: 1 or 4 bytes read and 4 written a thread, coalesced.
template <typename T>
__device__ void gather(const T* source, const int* rows, float scale, float* x, const int* labels, int* target,
    int size, int n) {
    const int e = thread_number();
    if (e >= size) return;
    for (int i = blockIdx.y; i < n; i += gridDim.y) {
        const int row = rows != nullptr ? rows[i] : i;
        x[start(i, size) + e] = static_cast<float>(source[start(row, size) + e]) * scale;
        if (e == 0 && labels != nullptr) target[i] = labels[row];
    }
}

extern "C" __global__ void gather_bytes(const unsigned char* __restrict__ source, const int* __restrict__ rows,
    float scale, float* __restrict__ x, const int* __restrict__ labels, int* __restrict__ target, int size, int n) {
    gather(source, rows, scale, x, labels, target, size, n);
}

extern "C" __global__ void gather_floats(const float* __restrict__ source, const int* __restrict__ rows, float scale,
    float* __restrict__ x, const int* __restrict__ labels, int* __restrict__ target, int size, int n) {
    gather(source, rows, scale, x, labels, target, size, n);
}
