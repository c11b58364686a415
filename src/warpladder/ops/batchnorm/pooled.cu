// Batch normalisation with an activation and 2 x 2 max pooling after it: y = the maximum of f(z w + b) in each window.
//
// x, dx: (n, channels, h, w); y, dy, argmax: (n, channels, h / 2, w / 2). f of x is stored nowhere: backward computes
// it again. A thread has a window, also an incomplete one at an odd edge, which has no output. windows: of a channel,
// these among them; window_share: of a block. Other arguments: as in fused.cu.
// arch: sm_80, sm_90, sm_100
// instance: pool_forward<4, 7, 1>; pool_forward<1, 3, 0>; pool_forward<4, 7, 2>
// instance: pool_sums<7>; pool_sums<3>; pool_backward<7, 1>; pool_backward<3, 0>
#include "nan.cuh"
#include "norm.cuh"

// A window of a channel: its first pixel in x, its place in y, and which of its columns and rows are there.
struct Window {
    long long pixel, output;
    bool right, below;

    __device__ __forceinline__ Window(unsigned number, int channel, int channels, int h, int w) {
        const unsigned across = (w + 1) / 2, down = (h + 1) / 2, sample = number / (across * down),
            row = number / across % down, column = number % across;
        const long long plane = static_cast<long long>(sample) * channels + channel;
        right = 2 * column + 1 < w;
        below = 2 * row + 1 < h;
        pixel = (plane * h + 2 * row) * w + 2 * column;
        output = (plane * (h / 2) + row) * (w / 2) + column;
    }

    // Pixel k of four, 2 * row + column, and whether it is there.
    __device__ __forceinline__ long long at(int k, int w) const { return pixel + k / 2 * w + k % 2; }
    __device__ __forceinline__ bool has(int k) const { return (k % 2 == 0 || right) && (k < 2 || below); }
    __device__ __forceinline__ bool is_complete() const { return right && below; }
};

// The pixels of a window, two at a time where rows begin at an even number; 0 where there is none.
__device__ __forceinline__ void load_window(const float* __restrict__ x, const Window& window, int w,
    float (&found)[4]) {
    if (w % 2 == 0) {
        const float2 none = make_float2(0.0f, 0.0f), *pairs = reinterpret_cast<const float2*>(x + window.pixel);
        const float2 above = pairs[0], under = window.below ? pairs[w / 2] : none;
        found[0] = above.x, found[1] = above.y, found[2] = under.x, found[3] = under.y;
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) found[k] = window.has(k) ? x[window.at(k, w)] : 0.0f;
}

__device__ __forceinline__ void store_window(float* dx, const Window& window, int w, const float (&found)[4]) {
    if (w % 2 == 0) {
        float2* pairs = reinterpret_cast<float2*>(dx + window.pixel);
        pairs[0] = make_float2(found[0], found[1]);
        if (window.below) pairs[w / 2] = make_float2(found[2], found[3]);
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (window.has(k)) dx[window.at(k, w)] = found[k];
    }
}

// argmax may be null: no gradient is computed.
template <int VEC, int FUNCTION, int SOURCE>
__global__ void __launch_bounds__(THREADS<FUNCTION>, 1) pool_forward(const float* __restrict__ x, float* __restrict__ y,
    unsigned char* __restrict__ argmax, const float* __restrict__ weight, const float* __restrict__ b,
    float* __restrict__ running_mean, float* __restrict__ running_var, float* __restrict__ saved,
    const double* __restrict__ parts, unsigned units, unsigned per, unsigned chunks, unsigned width, unsigned windows,
    unsigned window_share, int channels, int h, int w, double eps, double momentum, float slope) {
    const Units<1> mine(units, per, chunks, width, channels);
    const Map map = map_of<1, VEC, SOURCE>(x, mine, weight, b, running_mean, running_var, saved, parts, units, chunks,
        eps, momentum);
    const Units<1> own(windows, window_share, chunks, 1, channels);
#pragma unroll 2
    for (unsigned number = own.first; number < own.last; number += own.step) {
        const Window window(number, own.channel, channels, h, w);
        if (!window.is_complete()) continue;
        float found[4];
        load_window(x, window, w, found);
        int place = 0;
#pragma unroll
        for (int k = 0; k < 4; ++k) found[k] = value<FUNCTION>(map.mapped(map.difference(found[k])), slope);
        float best = found[0];
#pragma unroll
        for (int k = 1; k < 4; ++k) {
            if (beats(found[k], best)) best = found[k], place = k;
        }
        y[window.output] = best;
        if (argmax != nullptr) argmax[window.output] = static_cast<unsigned char>(place);
    }
}

// Gradient of z w + b at a window's argmax, from its input x.
template <int FUNCTION>
__device__ __forceinline__ float pooled_gradient(float dy, float x, const Map& map, float slope) {
    return through<FUNCTION>(dy, map.mapped(map.difference(x)), slope);
}

// Sums of g z and of g over a block's windows, whose argmax alone has a gradient.
template <int FUNCTION>
__device__ __forceinline__ void pooled_sums(const float* __restrict__ x, const float* __restrict__ dy,
    const unsigned char* __restrict__ argmax, const Units<1>& own, int h, int w, const Map& map, float slope,
    double& products, double& total) {
    products = total = 0.0;
    for (unsigned number = own.first; number < own.last; number += AHEAD * own.step) {
        float product = 0.0f, sum = 0.0f;
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            if (number + k * own.step >= own.last) continue;
            const Window window(number + k * own.step, own.channel, own.channels, h, w);
            if (!window.is_complete()) continue;
            const float number_there = x[window.at(argmax[window.output], w)];
            const float g = pooled_gradient<FUNCTION>(dy[window.output], number_there, map, slope);
            product = fmaf(g, map.difference(number_there) * map.factor, product);
            sum += g;
        }
        products += product;
        total += sum;
    }
}

template <int FUNCTION>
__global__ void __launch_bounds__(THREADS<FUNCTION>, 1) pool_sums(const float* __restrict__ x,
    const float* __restrict__ dy, const unsigned char* __restrict__ argmax, const float* __restrict__ saved,
    double* __restrict__ parts, unsigned chunks, unsigned windows, unsigned window_share, int channels, int h, int w,
    float slope) {
    __shared__ double shared[WARP_SUMS<1>], totals[2];
    const Units<1> own(windows, window_share, chunks, 1, channels);
    double products, total;
    pooled_sums<FUNCTION>(x, dy, argmax, own, h, w, saved_map<1>(saved, own), slope, products, total);
    add_in_block<1>(products, total, shared, totals);
    store_parts<1>(totals, parts);
}

// As norm_backward of fused.cu; count: numbers of a channel.
template <int FUNCTION, int SOURCE>
__global__ void __launch_bounds__(THREADS<FUNCTION>, 1) pool_backward(const float* __restrict__ x,
    const float* __restrict__ dy, const unsigned char* __restrict__ argmax, const float* __restrict__ saved,
    const double* __restrict__ parts, float* __restrict__ dx, float* dw, float* db, unsigned chunks, unsigned windows,
    unsigned window_share, int channels, int h, int w, double count, float slope, float* grads, float* params,
    float* momentum_buffer, float rate, float momentum, int nesterov, float decay, float limit) {
    __shared__ double shared[WARP_SUMS<1>], totals[2];
    const Units<1> own(windows, window_share, chunks, 1, channels);
    const Map map = saved_map<1>(saved, own);
    if constexpr (SOURCE == PARTS) {
        add_parts<1>(parts, chunks, totals);
    } else {
        double products, total;
        pooled_sums<FUNCTION>(x, dy, argmax, own, h, w, map, slope, products, total);
        add_in_block<1>(products, total, shared, totals);
    }
    finish_parameters<1>(totals, own, dw, db, blockIdx.x % chunks == 0,
        {grads, params, momentum_buffer, {rate, momentum, nesterov, decay}, limit});
    if (dx == nullptr) return;
    const float product = static_cast<float>(totals[0] / count), middle = static_cast<float>(totals[1] / count);
#pragma unroll 2
    for (unsigned number = own.first; number < own.last; number += own.step) {
        const Window window(number, own.channel, channels, h, w);
        float found[4], incoming = 0.0f;
        load_window(x, window, w, found);
        int place = -1;
        if (window.is_complete()) incoming = dy[window.output], place = argmax[window.output];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float g = k == place ? pooled_gradient<FUNCTION>(incoming, found[k], map, slope) : 0.0f;
            const float z = map.difference(found[k]) * map.factor;
            found[k] = map.scale * (g - middle - z * product);
        }
        store_window(dx, window, w, found);
    }
}
