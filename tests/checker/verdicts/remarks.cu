// Kernels for tests of remarks on values, of conversions, of endless recursion, and of arguments.
__global__ void halved(const float* x, float* out, int n) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = t < n ? x[t] : 0.0f;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (t < k) s[t] += s[t + k];  // <- lost
        __syncthreads();
    }
    if (t == 0) out[0] = s[0];
}

__global__ void unrolled(const float* x, float* out) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
        float sum = s[t] + s[t + 32];
        s[t] = sum;
        __syncwarp();
        for (int k = 16; k > 0; k /= 2) {
            sum += s[t + k];
            __syncwarp();
            s[t] = sum;
            __syncwarp();
        }
        if (t == 0) out[0] = s[0];
    }
}

__global__ void tiled(const float* x, float* y, int n) {
    __shared__ float tile[34];
    int i = blockIdx.x * 32 + threadIdx.x, l = threadIdx.x + 1;
    tile[l] = i < n ? x[i] : 0.0f;
    if (threadIdx.x == 0) tile[0] = i > 0 ? x[i - 1] : 0.0f;
    if (threadIdx.x == 31) tile[33] = i + 1 < n ? x[i + 1] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = tile[l - 1] + tile[l + 1];
}

__global__ void rooted(const float* x, float* y, float least) {
    y[threadIdx.x] = sqrtf(x[threadIdx.x]) + (least < 0 ? 1 : 0);  // <- nan
}

__global__ void any(const float* x, int* flag, int n) {
    if (x[threadIdx.x] < 100.0f) *flag = 1;  // <- same
}

__global__ void last(int* flag) {
    *flag = threadIdx.x / 32;  // <- differing
}

template <typename T, typename F> __device__ T to(F x) { return static_cast<T>(x); }
__global__ void converted(const float* in, int* is, unsigned* lambda, long long* from, unsigned char* as, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    is[i] = (int)in[i];
    lambda[i] = unsigned(in[i]);
    from[i] = to<long long>(in[i]);
    as[i] = (unsigned char)in[i];
}

__global__ void quiet(const float* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }  // <- quiet

__device__ int down(int n) { return n == 0 ? 0 : 1 + down(n - 2); }
__global__ void recursive(int* out) { out[threadIdx.x] = down(7); }
__global__ void ended(int* out) { out[threadIdx.x] = down(8); }

__global__ void shifted(const float* in, float* out) {
    int i = threadIdx.x;
    out[i] = in[i - 3] + in[i + 3];
}

__global__ void in_registers(const float* x, float* out, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    float sum = s[t] = t < n ? x[t] : 0.0f;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (t < k) s[t] = sum = sum + s[t + k];
        __syncthreads();
    }
    if (t == 0) out[0] = sum;
}

__global__ void ranks(const float* x, float* y, int n) {
    __shared__ float s[64];
    int t = threadIdx.x, rank = 0;
    s[t] = t < n ? x[t] : 1.0f;
    __syncthreads();
    for (int k = 0; k < t; ++k) rank += s[k] <= s[t - 1];
    if (t < n) y[t] = rank;
}

__global__ void running(const float* x, float* y, int n) {
    __shared__ float s[2][64];
    int t = threadIdx.x, now = 0;
    s[0][t] = t < n ? x[t] : 0.0f;
    __syncthreads();
    for (int d = 1; d < 64; d *= 2, now = 1 - now) {
        s[1 - now][t] = s[now][t] + (t >= d ? s[now][t - d] : 0.0f);
        __syncthreads();
    }
    if (t < n) y[t] = s[now][t];
}
