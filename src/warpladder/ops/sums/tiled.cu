// Sums over parts of blocks, in their order. Blocks of 32 x 8 threads: 32 numbers across, 8 parts at a time.

constexpr int ACROSS = 32, DOWN = 8;

// Sum over p = 0 ... count - 1 of part[p * spacing + number], for the threads with threadIdx.y = 0: thread y adds
// the parts y, y + 8, ..., and then a tree of three steps adds the eight sums.
__device__ float sum_of_parts(const float* part, int count, long long spacing, long long number, bool wanted) {
    __shared__ float sums[DOWN][ACROSS];
    float sum = 0.0f;
    if (wanted) {
#pragma unroll 4
        for (int p = threadIdx.y; p < count; p += DOWN) sum += part[p * spacing + number];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    for (int half = DOWN / 2; half > 0; half /= 2) {
        if (threadIdx.y < half) sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + half][threadIdx.x];
        __syncthreads();
    }
    return sums[0][threadIdx.x];
}

// dw (weights,) and db (biases,) from parts (count, weights + biases).
extern "C" __global__ void add_gradients(const float* __restrict__ part, int count, float* __restrict__ dw, int weights,
    float* __restrict__ db, int biases) {
    const long long number = static_cast<long long>(blockIdx.x) * ACROSS + threadIdx.x,
        all = static_cast<long long>(weights) + biases;
    const float sum = sum_of_parts(part, count, all, number, number < all);
    if (threadIdx.y > 0 || number >= all) return;
    if (number < weights) dw[number] = sum;
    else db[number - weights] = sum;
}

// y (rows, columns) from parts (count, rows, columns), + bias (columns,) unless null, then ReLU. size: of y.
extern "C" __global__ void add_outputs(const float* __restrict__ part, int count, const float* __restrict__ bias,
    float* __restrict__ y, long long size, int columns, int fused_relu) {
    const long long number = static_cast<long long>(blockIdx.x) * ACROSS + threadIdx.x;
    float sum = sum_of_parts(part, count, size, number, number < size);
    if (threadIdx.y > 0 || number >= size) return;
    if (bias != nullptr) sum += bias[number % columns];
    y[number] = fused_relu && sum < 0.0f ? 0.0f : sum;  // NaN stays
}
