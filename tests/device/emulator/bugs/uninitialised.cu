// Memory that is read before it is written.

// The part of the tile beyond the end is not filled with zeros.
extern "C" __global__ void no_zero_fill(const float* x, float* y, int n) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    if (t < n) tile[t] = x[t];
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < 64; ++i) sum += tile[i];  // <-
    y[t] = sum;
}

// A sum in dynamic shared memory that begins with whatever stands there.
extern "C" __global__ void sum_from_nowhere(const int* x, int* y) {
    extern __shared__ int total[];
    atomicAdd(&total[0], x[threadIdx.x]);  // <-
    __syncthreads();
    if (threadIdx.x == 0) y[0] = total[0];
}

// Added to an output that nobody has cleared.
extern "C" __global__ void output_not_cleared(const float* x, float* y) {
    y[threadIdx.x] += x[threadIdx.x];  // <-
}
