// Kernels whose counts are known by hand (test_metrics.py).

__global__ void coalesced(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

__global__ void strided(const float* x, float* y, int stride) {
    int i = threadIdx.x;
    y[i] = x[i * stride];
}

__global__ void shifted(const float* x, float* y) {
    int i = threadIdx.x;
    y[i] = x[i + 1];
}

__global__ void vectors(const float4* x, float4* y) {
    float4 v = x[threadIdx.x];
    v.x += 1.0f;
    y[threadIdx.x] = v;
}

template <int WIDTH> __global__ void column(float* y) {
    __shared__ float t[32][WIDTH];
    for (int r = 0; r < 32; ++r) t[r][threadIdx.x] = float(r);
    __syncthreads();
    float sum = 0.0f;
    for (int r = 0; r < 32; ++r) {
        sum += t[threadIdx.x][r];
    }
    y[threadIdx.x] = sum;
}

__global__ void wide(double* y) {
    __shared__ double t[64];
    t[threadIdx.x] = 1.0;
    __syncthreads();  // or the number stays in a register
    y[threadIdx.x] = t[threadIdx.x];
}

__global__ void branch(const float* x, float* y) {
    int i = threadIdx.x;
    if (i % 2)
        y[i] = x[i];
    else
        y[i] = -x[i];
    y[i + 32] = 1.0f;
}

// Lane i goes round i + 1 times, and only in every other turn does it read.
__global__ void loop(const float* x, float* y) {
    int i = threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k <= i; ++k) {
        if ((i + k) % 2) {
            sum += x[k];
        }
    }
    y[i] = sum;
}

__global__ void one_address(int* count) {
    atomicAdd(count, 1);
}

__global__ void histogram(const int* x, int* bins) {
    atomicAdd(&bins[x[threadIdx.x] & 3], 1);
}

__global__ void polynomial(const float* x, float* y, float a) {
    int i = threadIdx.x;
    y[i] = a * x[i] + 3.0f;
}
