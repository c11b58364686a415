// Gathering of a batch from stored samples, several numbers for each thread; order.cuh computes the samples' order.
// source: (samples, size); x: (n, size); labels: (samples,); target: (n,).
// instance: gather_rows<unsigned char, float>; gather_rows<uchar4, float4>; gather_rows<float, float>
// instance: gather_rows<float4, float4>
#include "index.cuh"
#include "order.cuh"

__device__ __forceinline__ float times(unsigned char a, float scale) { return static_cast<float>(a) * scale; }
__device__ __forceinline__ float times(float a, float scale) { return a * scale; }
__device__ __forceinline__ float4 times(uchar4 a, float scale) {
    return make_float4(a.x * scale, a.y * scale, a.z * scale, a.w * scale); }
__device__ __forceinline__ float4 times(float4 a, float scale) {
    return make_float4(a.x * scale, a.y * scale, a.z * scale, a.w * scale); }

// x[i, e] = source[row, e] * scale, one product in float32, and target[i] = labels[row], row being the sample at
// position step * batch + offset + i of the order; without an order, i. labels and target may be null. A block takes
// one sample: its first thread finds the row, all copy it. From and To are four numbers, uchar4 and float4, where size
// four divides the row; `size` counts these.
template <typename From, typename To>
__global__ void gather_rows(
    const From* __restrict__ source, float scale, To* __restrict__ x, const int* __restrict__ labels,
    int* __restrict__ target, const unsigned* __restrict__ order, const int* __restrict__ step, int size, int batch,
    int offset
) {
    __shared__ unsigned found;
    const int i = blockIdx.x;
    if (threadIdx.x == 0) {
        const long long position = *step * static_cast<long long>(batch) + offset + i;
        found = order != nullptr ? order_at(order, static_cast<unsigned>(position)) : i;
        if (labels != nullptr) target[i] = labels[found];
    }
    __syncthreads();
    const From* from = source + static_cast<long long>(found) * size;
    To* to = x + start(i, size);
    for (int e = threadIdx.x; e < size; e += blockDim.x) to[e] = times(from[e], scale);
}
