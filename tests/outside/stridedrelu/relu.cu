// ReLU with fewer threads than numbers: each goes on by as many numbers as the grid has threads. y may be x, and dx may be dy.

// y[i] = max(x[i], 0).
extern "C" __global__ void strided_relu_forward(const float* x, float* y, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

// dx[i] = dy[i] where y[i] > 0, else 0.
extern "C" __global__ void strided_relu_backward(const float* y, const float* dy, float* dx, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}
