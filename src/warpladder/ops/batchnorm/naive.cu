// Batch normalisation. x, y, dx, dy: (n, channels, size), size numbers of a channel in a sample; w, b: (channels,),
// null without an affine map. All sums are double, in a fixed order.
#include "block_sum.cuh"
#include "index.cuh"

// Index of number t among a channel's n * size numbers in the batch.
__device__ inline long long in_channel(long long t, int channel, int channels, int size) {
    return (t / size * channels + channel) * size + t % size;
}

// Writes statistics (2, channels): mean, and 1 / sqrt(biased variance + eps). running_mean and running_var move by the
// share `momentum` towards the mean and the unbiased variance. A block for each channel.
extern "C" __global__ void batchnorm_statistics(const float* __restrict__ x, double* __restrict__ statistics,
    float* __restrict__ running_mean, float* __restrict__ running_var, long long count, int channels, int size,
    double eps, double momentum) {
    __shared__ double shared[BLOCK_MOST];
    const int channel = blockIdx.x;
    double sum = 0.0;
    for (long long t = threadIdx.x; t < count; t += blockDim.x) sum += x[in_channel(t, channel, channels, size)];
    const double mean = block_sum(sum, shared) / count;
    sum = 0.0;
    for (long long t = threadIdx.x; t < count; t += blockDim.x) {
        const double difference = x[in_channel(t, channel, channels, size)] - mean;
        sum += difference * difference;
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x > 0) return;
    statistics[channel] = mean;
    statistics[channels + channel] = 1.0 / sqrt(sum / count + eps);
    running_mean[channel] = static_cast<float>((1.0 - momentum) * running_mean[channel] + momentum * mean);
    running_var[channel] = static_cast<float>((1.0 - momentum) * running_var[channel] + momentum * (sum / (count - 1)));
}

// Writes statistics (2, channels) of predictions: the running mean, and 1 / sqrt(running variance + eps).
extern "C" __global__ void batchnorm_running(const float* __restrict__ running_mean,
    const float* __restrict__ running_var, double* __restrict__ statistics, int channels, double eps) {
    const int channel = thread_number();
    if (channel >= channels) return;
    statistics[channel] = running_mean[channel];
    statistics[channels + channel] = 1.0 / sqrt(running_var[channel] + eps);
}

// y = (x - mean) factor w + b. One thread for each number; bound by memory.
extern "C" __global__ void batchnorm_forward(const float* __restrict__ x, const double* __restrict__ statistics,
    const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ y, long long count, int channels,
    int size) {
    const long long i = thread_number();
    if (i >= count) return;
    const int channel = i / size % channels;
    const float z = static_cast<float>((x[i] - statistics[channel]) * statistics[channels + channel]);
    y[i] = w == nullptr ? z : z * w[channel] + b[channel];
}

// Writes sums (2, channels), of dy z and of dy; dw and db, unless null, get the same sums. A block for each channel.
extern "C" __global__ void batchnorm_sums(const float* __restrict__ x, const float* __restrict__ dy,
    const double* __restrict__ statistics, double* __restrict__ sums, float* __restrict__ dw, float* __restrict__ db,
    long long count, int channels, int size) {
    __shared__ double shared[BLOCK_MOST];
    const int channel = blockIdx.x;
    const double mean = statistics[channel], factor = statistics[channels + channel];
    double products = 0.0, total = 0.0;
    for (long long t = threadIdx.x; t < count; t += blockDim.x) {
        const long long i = in_channel(t, channel, channels, size);
        products += dy[i] * ((x[i] - mean) * factor);
        total += dy[i];
    }
    products = block_sum(products, shared);
    total = block_sum(total, shared);
    if (threadIdx.x > 0) return;
    sums[channel] = products;
    sums[channels + channel] = total;
    if (dw == nullptr) return;
    dw[channel] = static_cast<float>(products);
    db[channel] = static_cast<float>(total);
}

// dx = w factor (dy - mean of dy - z mean of dy z); each: numbers of a channel in the batch. A thread for each number.
extern "C" __global__ void batchnorm_backward(const float* __restrict__ x, const float* __restrict__ dy,
    const double* __restrict__ statistics, const double* __restrict__ sums, const float* __restrict__ w,
    float* __restrict__ dx, long long count, long long each, int channels, int size) {
    const long long i = thread_number();
    if (i >= count) return;
    const int channel = i / size % channels;
    const double factor = statistics[channels + channel], z = (x[i] - statistics[channel]) * factor;
    const double inner = dy[i] - sums[channels + channel] / each - z * (sums[channel] / each);
    dx[i] = static_cast<float>((w == nullptr ? factor : w[channel] * factor) * inner);
}
