// Thirty small kernels whose requests, sectors, wavefronts and lanes are compared with Nsight Compute's counts
// (compare_ncu.py): each takes x, y and n, with a grid of n / 256 blocks of 256 threads.
// instance: strided<1>; strided<2>; strided<3>; strided<8>; strided<32>; shifted<1>; shifted<4>; shifted<16>
// instance: banks<1>; banks<2>; banks<4>; banks<16>; banks<32>; banks<33>; turned<32>; turned<33>
// instance: diverging<1>; diverging<2>; diverging<8>; diverging<32>; added<1>; added<4>; added<32>
#define I int(blockIdx.x * blockDim.x + threadIdx.x)

template <int S> __global__ void strided(const float* x, float* y, int n) { y[I] = x[I * S % n]; }
template <int S> __global__ void shifted(const float* x, float* y, int n) { y[I] = x[I + S < n ? I + S : 0]; }
template <int S> __global__ void banks(const float* x, float* y, int n) {
    __shared__ float s[256 * 4];
    for (int k = threadIdx.x; k < 1024; k += 256) s[k] = x[k % n];
    __syncthreads();
    y[I] = s[threadIdx.x * S % 1024];
}
template <int W> __global__ void turned(const float* x, float* y, int n) {
    __shared__ float tile[32][W];
    int column = threadIdx.x % 32, row = threadIdx.x / 32, first = blockIdx.x * 1024 % n;
    for (int k = row; k < 32; k += 8) tile[k][column] = x[first + k * 32 + column];
    __syncthreads();
    for (int k = row; k < 32; k += 8) y[first + k * 32 + column] = tile[column][k];
}
template <int S> __global__ void diverging(const float* x, float* y, int n) {
    float v = x[I];
#pragma unroll 1
    for (int k = 0; k < int(threadIdx.x % S) + 1; ++k) v = v * 1.5f + x[(I + 32 * k) % n];
    y[I] = v;
}
template <int S> __global__ void added(const float* x, float* y, int n) { atomicAdd(&y[threadIdx.x % S], x[I]); }
__global__ void wide(const float* x, float* y, int n) {
    if (I < n / 4) reinterpret_cast<float4*>(y)[I] = reinterpret_cast<const float4*>(x)[I];
}
__global__ void pairs(const float* x, float* y, int n) {
    if (I < n / 2) reinterpret_cast<float2*>(y)[I] = reinterpret_cast<const float2*>(x)[I];
}
__global__ void one(const float* x, float* y, int n) { y[I] = x[0]; }
__global__ void gathered(const float* x, float* y, int n) { y[I] = x[I * 7919 % n]; }
__global__ void stencil(const float* x, float* y, int n) {
    if (I > 0 && I < n - 1) y[I] = x[I - 1] + x[I] + x[I + 1];
}
__global__ void reduced(const float* x, float* y, int n) {
    __shared__ float s[256];
    s[threadIdx.x] = x[I];
    __syncthreads();
    for (int k = 128; k > 0; k /= 2) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
__global__ void bins(const float* x, float* y, int n) {
    __shared__ int s[32];
    if (threadIdx.x < 32) s[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&s[int(x[I] * 8) & 31], 1);
    __syncthreads();
    if (threadIdx.x < 32) atomicAdd(&y[threadIdx.x], float(s[threadIdx.x]));
}
