// Softmax regression as somebody writes it who wants a rung of their own: one kernel for each formula.
// x (samples, inputs), label (samples,), index (samples of the steps,), w: weights (classes, inputs) and biases
// (classes,), one after the other. A step's samples are index[at] to index[at + n - 1].

// A number with so many bits of its fraction, rounded to nearest; 0 for all of them.
__device__ float shortened(float value, int bits) {
    if (bits == 0) return value;
    const unsigned low = 1u << (23 - bits);
    return __uint_as_float((__float_as_uint(value) + low / 2) & ~(low - 1));
}

// z[r, c] = b[c] + sum over i of x[index[at + r], i] w[c, i]. One thread for each z.
extern "C" __global__ void outputs(const float* x, const int* index, const float* w, float* z, int at, int n,
                                   int inputs, int classes, int bits) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n * classes) return;
    const int c = k % classes;
    const float* sample = x + static_cast<size_t>(index[at + k / classes]) * inputs;
    float sum = w[classes * inputs + c];
    for (int i = 0; i < inputs; ++i) sum += shortened(sample[i], bits) * shortened(w[c * inputs + i], bits);
    z[k] = sum;
}

// z becomes its gradient, (softmax - 1 at the label) / divisor; loss[r], hit[r] of each sample. One thread for each.
// is_last: 1 to take the last of equal largest outputs for the answer, 0 for the first.
extern "C" __global__ void losses(float* z, const int* label, const int* index, float* loss, int* hit, int at, int n,
                                  int classes, int divisor, int is_last) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float* row = z + static_cast<size_t>(r) * classes;
    const int wanted = label[index[at + r]];
    int best = 0;
    for (int c = 1; c < classes; ++c)
        if (row[c] > row[best] || (is_last && row[c] == row[best])) best = c;
    const float largest = row[best];
    float total = 0.0f;
    for (int c = 0; c < classes; ++c) total += expf(row[c] - largest);
    loss[r] = logf(total) - (row[wanted] - largest);
    hit[r] = best == wanted;
    for (int c = 0; c < classes; ++c) row[c] = (expf(row[c] - largest) / total - (c == wanted)) / divisor;
}

// The mean loss and the count of right samples of a step. One block of 32 threads.
extern "C" __global__ void mean(const float* loss, const int* hit, double* losses, int* hits, int n, int step) {
    __shared__ double sums[32];
    __shared__ int counts[32];
    double sum = 0.0;
    int count = 0;
    for (int r = threadIdx.x; r < n; r += 32) {
        sum += loss[r];
        count += hit[r];
    }
    sums[threadIdx.x] = sum;
    counts[threadIdx.x] = count;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int t = 1; t < 32; ++t) {
        sum += sums[t];
        count += counts[t];
    }
    losses[step] = sum / n;
    hits[step] = count;
}

// w[k] -= rate * sum over the samples of dz[r, c] x[index[at + r], i], for k from first to last - 1. One thread for
// each.
extern "C" __global__ void learn(const float* x, const int* index, const float* dz, float* w, const float* rates,
                                 int at, int n, int inputs, int classes, int step, int first, int last) {
    const int k = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= last) return;
    const bool is_bias = k >= classes * inputs;
    const int c = is_bias ? k - classes * inputs : k / inputs, i = is_bias ? 0 : k % inputs;
    float sum = 0.0f;
    for (int r = 0; r < n; ++r)
        sum += dz[r * classes + c] * (is_bias ? 1.0f : x[static_cast<size_t>(index[at + r]) * inputs + i]);
    w[k] -= rates[step] * sum;
}

// Weights with fewer bits. One thread for each.
extern "C" __global__ void shorten(float* w, int count, int bits) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < count) w[k] = shortened(w[k], bits);
}
