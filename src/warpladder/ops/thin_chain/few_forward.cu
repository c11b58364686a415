// Few samples through a thin chain: forward, the loss, and back to g. Shapes: thin_chain.cuh.
//
// Latency bounds few samples, so independent loads are issued together: a block for each sample loads the step, the
// order's keys and its weights, then the sample, which it copies for the gradient's kernel. The warps' partial sums are
// added in shared memory, and in one warp a lane for each output computes the rest. For the last layer of a larger net
// this kernel also computes the gradient by its input: every warp then computes the rest itself.
// instance: chain_forward_few<0, 10, 1, 1, float>; chain_forward_few<0, 16, 4, 1, float>
// instance: chain_forward_few<16, 16, 4, 0, float>
#include "nan.cuh"
#include "order.cuh"
#include "pixels.cuh"
#include "softmax.cuh"
#include "thin_chain.cuh"
#include "warp.cuh"

// Most threads of a block: fewer if each holds more weights.
template <int HIDDEN, int OUT>
constexpr int THREADS = HIDDEN > 0 || OUT > 12 ? 384 : 768;

// order: null for the order of storage, from `offset` on. x: (n, inputs), null for no copy. lost, hits, small: a row
// for each sample; small only with two layers, lost and hits null without losses. With BACK, of one layer, dx (n,
// inputs) is written: the sum over o of g[s, o] w1[o, i]. Block s has sample s.
template <int HIDDEN, int OUT, int WIDE, int BACK, class Pixel>
__global__ void __launch_bounds__(THREADS<HIDDEN, OUT>, 1) chain_forward_few(
    const Pixel* __restrict__ source, float scale, const int* __restrict__ label, const unsigned* __restrict__ order,
    const int* __restrict__ step, const float* __restrict__ w1, const float* __restrict__ b1,
    const float* __restrict__ w2, const float* __restrict__ b2, Pixel* __restrict__ x, float* __restrict__ g,
    float* __restrict__ small, double* __restrict__ lost, int* __restrict__ hits, float* __restrict__ dx, int inputs,
    int whole, int offset, int batch
) {
    using C = Chain<HIDDEN, OUT>;
    static_assert(!BACK || HIDDEN == 0, "a whole net has no dx");
    constexpr int WIDTH = C::WIDTH;
    __shared__ float part[THREADS<HIDDEN, OUT> / 32][WIDTH];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, s = blockIdx.x;

    unsigned now = 0;
    Order samples;
    if (order != nullptr) {
        now = *step;
        samples = Order(order);
    }
    Pixels<float, WIDE> w[WIDTH];
    const auto load_weights = [&](int i) {
#pragma unroll
        for (int o = 0; o < WIDTH; ++o) w[o].load(w1 + o * inputs + i);
    };
    if (t * WIDE < inputs) load_weights(t * WIDE);
    // lane o of a warp that does the rest: biases of output o, and weights of the second layer into and out of it
    const bool does_rest = BACK || warp == 0;
    const bool first = does_rest && lane < WIDTH, second = HIDDEN > 0 && does_rest && lane < OUT;
    const float bias1 = first ? b1[lane] : 0.0f, bias2 = second ? b2[lane] : 0.0f;
    float from_hidden[HIDDEN > 0 ? HIDDEN : 1], to_hidden[HIDDEN > 0 ? OUT : 1];
    if constexpr (HIDDEN > 0) {
#pragma unroll
        for (int i = 0; i < HIDDEN; ++i) from_hidden[i] = second ? w2[lane * HIDDEN + i] : 0.0f;
#pragma unroll
        for (int o = 0; o < OUT; ++o) to_hidden[o] = first ? w2[o * HIDDEN + lane] : 0.0f;
    }

    const float mean = 1.0f / static_cast<float>(batch);

    int row = offset + s;
    if (order != nullptr) row = samples[now * whole + row];
    const int wanted = does_rest ? label[row] : 0;
    const Pixel* const from = source + static_cast<long long>(row) * inputs;
    float sum[WIDTH] = {};
    for (int i = t * WIDE; i < inputs; i += blockDim.x * WIDE) {
        if (i > t * WIDE) load_weights(i);
        Pixels<Pixel, WIDE> pixels;
        pixels.load(from + i);
        if (x != nullptr) pixels.store(x + static_cast<long long>(s) * inputs + i);
#pragma unroll
        for (int o = 0; o < WIDTH; ++o)
#pragma unroll
            for (int e = 0; e < WIDE; ++e) sum[o] = fmaf(pixels[e], w[o][e], sum[o]);
    }
    Share share = {0, WIDTH};
    warp_sums<WIDTH>(sum, share);
#pragma unroll
    for (int k = 0; k < left_of(WIDTH); ++k)
        if (k < share.count) part[warp][share.first + k] = sum[k];
    __syncthreads();
    if (!does_rest) return;

    // the rest of the net: lane o has output o of either layer
    float total = 0.0f;
    if (first) {
#pragma unroll 8
        for (int v = 0; v < blockDim.x / 32; ++v) total += part[v][lane];
    }
    const float z = fmaf(total, scale, bias1), h = relu(z);
    float logit = z;
    if constexpr (HIDDEN > 0) {
        logit = bias2;
#pragma unroll
        for (int i = 0; i < HIDDEN; ++i) logit = fmaf(from_hidden[i], __shfl_sync(EVERY_LANE, h, i), logit);
    }
    if (lane >= OUT) logit = __uint_as_float(0xFF800000u);  // minus infinity: no chance
    const Softmax soft = softmax_of_lanes(logit);
    const float wanted_logit = __shfl_sync(EVERY_LANE, logit, wanted);
    const float d = (expf(logit - soft.largest) * (1.0f / soft.total) - (lane == wanted ? 1.0f : 0.0f)) * mean;
    float back = d;
    if constexpr (HIDDEN > 0) {
        back = 0.0f;
#pragma unroll
        for (int o = 0; o < OUT; ++o) back = fmaf(to_hidden[o], __shfl_sync(EVERY_LANE, d, o), back);
        back = z > 0.0f ? back : 0.0f;
    }
    if constexpr (BACK) {
        float factor[WIDTH];
#pragma unroll
        for (int o = 0; o < WIDTH; ++o) factor[o] = __shfl_sync(EVERY_LANE, back, o);
        for (int i = t * WIDE; i < inputs; i += blockDim.x * WIDE) {
            if (inputs > blockDim.x * WIDE) load_weights(i);  // else the weights are still there
            Pixels<float, WIDE> out;
#pragma unroll
            for (int e = 0; e < WIDE; ++e) {
                float product = factor[0] * w[0][e];
#pragma unroll
                for (int o = 1; o < WIDTH; ++o) product = fmaf(factor[o], w[o][e], product);
                out.set(e, product);
            }
            out.store(dx + static_cast<long long>(s) * inputs + i);
        }
        if (warp > 0) return;
    }
    if (lane < C::PITCH) g[s * C::PITCH + lane] = lane < WIDTH ? back : 0.0f;
    if (lane == 0 && lost != nullptr) {
        lost[s] = surprise(soft, wanted_logit);
        hits[s] = soft.best == wanted;
    }
    if constexpr (HIDDEN > 0) {
        float* const to = small + static_cast<long long>(s) * C::COUNT;
        if (first) to[lane] = back;
        if (second) to[WIDTH + lane] = d;
        for (int k = lane; k < (OUT * HIDDEN + 31) / 32 * 32; k += 32) {
            const float product = __shfl_sync(EVERY_LANE, d, k / HIDDEN % 32) * __shfl_sync(EVERY_LANE, h, k % HIDDEN);
            if (k < OUT * HIDDEN) to[WIDTH + OUT + k] = product;
        }
    }
}
