// Packing of a convolution's weights: rows of a plane's channels for each tap and output (`convolve_implicit`), or
// outputs one after the other for eight channels of each tap (`convolve_wide`).
// arch: sm_80, sm_90, sm_100
#include "../folded.cuh"
#include "implicit.cuh"

constexpr int THREADS = 256;

// A direction of a convolution: `channels` x K x K terms for `outputs`, in panels of `bn` outputs. few: terms are
// (channel, tap), not channels of a tap. swapped: w is (channels, outputs, ...), not (outputs, channels, ...). chunked:
// for convolve_wide.
struct Packing {
    uint4* packed;
    int outputs, channels, k, few, bn, swapped, chunked;
};

// Packs one output's weights: (outputs / bn, planes, taps, bn) rows of CHANNELS numbers, or (outputs / bn, planes,
// taps, copies, chunks, bn) of eight numbers; and after all of them the outputs' inverse scales. FOLD: factor of the
// upsampling whose sums of weights are packed (folded.cuh); 1 for none.
template <int FORMAT, int CHANNELS, int FOLD>
__device__ void pack(const Packing& to, const float* w, int output, unsigned (&warps)[THREADS / 32]) {
    using Panel = Lines<FORMAT, CHANNELS>;
    const int stride = to.chunked ? Panel::COPIES * Panel::CHUNKS : Panel::STRIDE;  // of an output, in 16 bytes
    const int k = to.k, size = k - FOLD + 1, inputs = to.few ? to.channels * k * k : to.channels,
        taps = to.few ? 1 : k * k, planes = over(inputs, CHANNELS), all = inputs * taps,
        tiles = over(to.outputs, to.bn);
    const auto number = [&](int input, int tap) {
        const int channel = to.few ? input / (k * k) : input, place = to.few ? input % (k * k) : tap;
        const int row = to.swapped ? channel * to.outputs + output : output * to.channels + channel;
        return FOLD == 1 ? w[row * (k * k) + place] : folded(w + row * (size * size), place / k, place % k, k, FOLD);
    };
    unsigned exponent = 127;
    if constexpr (SCALED<FORMAT>) {
        unsigned largest = 0;
        if (output < to.outputs)
            for (int i = threadIdx.x; i < all; i += THREADS)
                largest = max(largest, bits_of_size(number(i / taps, i % taps)));
        exponent = scale_exponent(largest_of_block(largest, warps));
        if (threadIdx.x == 0)
            reinterpret_cast<float*>(to.packed + tiles * planes * taps * to.bn * stride)[output] =
                power_of_two(254u - exponent) * UP;
    }
    for (int i = threadIdx.x; i < planes * Panel::CHUNKS * taps; i += THREADS) {
        const int tap = i % taps, chunk = i / taps % Panel::CHUNKS, plane = i / taps / Panel::CHUNKS;
        float held[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const int input = plane * CHANNELS + 8 * chunk + e;
            held[e] = output < to.outputs && input < inputs ? number(input, tap) * power_of_two(exponent) : 0.0f;
        }
        const int panel = ((output / to.bn * planes + plane) * taps + tap) * to.bn, row = panel + output % to.bn;
        const Eight<FORMAT> eight(held);
        if (to.chunked) {
            uint4* const at = to.packed + panel * stride + chunk * to.bn + output % to.bn;
            at[0] = make_uint4(eight.high[0], eight.high[1], eight.high[2], eight.high[3]);
            if constexpr (FORMAT == SPLIT)
                at[Panel::CHUNKS * to.bn] = make_uint4(eight.low[0], eight.low[1], eight.low[2], eight.low[3]);
            continue;
        }
        Panel{to.packed}.put(eight, row, chunk);
        if (chunk == 0) to.packed[row * Panel::STRIDE + Panel::STRIDE - 1] = make_uint4(0, 0, 0, 0);  // between rows
    }
}

// Packs weights w (o, c, k, k) for the direction from c to o (`half` blocks, one for an output), and for the way back
// unless `backward` is null. With FOLD w is (c, o, k - FOLD + 1, k - FOLD + 1). bn, back_bn: outputs of a panel;
// chunked, back_chunked: 1 for convolve_wide.
template <int FORMAT, int FOLD>
__global__ void __launch_bounds__(THREADS) pack_implicit(const float* __restrict__ w, int o, int c, int k, int few,
    int bn, int back_bn, int chunked, int back_chunked, int half, uint4* __restrict__ forward,
    uint4* __restrict__ backward) {
    __shared__ unsigned warps[THREADS / 32];
    const bool on = blockIdx.x < half;
    const Packing to = on ? Packing{forward, o, c, k, few, bn, FOLD > 1, chunked} : Packing{backward, c, o, k, 0,
        back_bn, FOLD == 1, back_chunked};
    const int output = on ? blockIdx.x : blockIdx.x - half;
    if (row_channels(few && on ? c * k * k : to.channels) == 16) pack<FORMAT, 16, FOLD>(to, w, output, warps);
    else pack<FORMAT, 32, FOLD>(to, w, output, warps);
}
