// Linear layer, one thread for each computed number.
// x, dx: (n, inputs); w, dw: (outputs, inputs); b: (outputs,); y, dy: (n, outputs).
#include "dot.cuh"
#include "index.cuh"

// y[n, o] = b[o] + sum over i of x[n, i] w[o, i]. Both factors are contiguous along i, so a warp's loads touch as many
// rows as it has samples and outputs: a block is 8 outputs wide and blockDim.y samples high, 8 + 4 rows for a warp, not
// 32 + 1. Two loads for each multiply-add, most from L1.
extern "C" __global__ void linear_forward(const float* __restrict__ x, const float* __restrict__ w,
    const float* __restrict__ b, float* __restrict__ y, int n, int inputs, int outputs) {
    const int across = (outputs + blockDim.x - 1) / blockDim.x;  // blocks that cover one sample's outputs
    const int o = blockIdx.x % across * blockDim.x + threadIdx.x;
    const int sample = blockIdx.x / across * blockDim.y + threadIdx.y;
    if (o >= outputs || sample >= n) return;
    y[start(sample, outputs) + o] = b[o] + dot(x + start(sample, inputs), 1, w + start(o, inputs), 1, inputs);
}

// dx[n, i] = sum over o of dy[n, o] w[o, i].
// Threads along i: w is read coalesced, dy is equal for a whole warp.
extern "C" __global__ void linear_input_gradient(const float* __restrict__ dy, const float* __restrict__ w,
    float* __restrict__ dx, int n, int inputs, int outputs) {
    const int i = thread_number();
    if (i >= inputs) return;
    for (int sample = blockIdx.y; sample < n; sample += gridDim.y) {
        dx[start(sample, inputs) + i] = dot(dy + start(sample, outputs), 1, w + i, inputs, outputs);
    }
}

// parts[s, o, i] = sum over the samples n of partial s, from s * partial on, of dy[n, o] x[n, i]. Threads along i: x is
// read coalesced, dy is nearly equal for a whole warp. With one partial, parts is dw.
extern "C" __global__ void linear_weight_gradient(const float* __restrict__ dy, const float* __restrict__ x,
    float* __restrict__ parts, int weights, int n, int partial, int partials, int inputs, int outputs) {
    const int weight = thread_number();
    if (weight >= weights) return;
    const int o = weight / inputs, i = weight % inputs;
    for (int s = blockIdx.y; s < partials; s += gridDim.y) {
        const int first = s * partial, count = n - first < partial ? n - first : partial;
        parts[start(s, weights) + weight] = dot(dy + start(first, outputs) + o, outputs, x + start(first, inputs) + i,
            inputs, count);
    }
}
