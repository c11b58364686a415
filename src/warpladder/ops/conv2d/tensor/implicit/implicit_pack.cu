// Packing of a convolution's weights for `convolve_implicit`: rows of a plane's channels for each tap and output.
// arch: sm_80, sm_90, sm_100
#include "implicit.cuh"

constexpr int THREADS = 256;

// A direction of a convolution: `inputs` terms of `taps` taps for `outputs`, in panels of `bn` outputs. swapped: w is
// (inputs, outputs, taps), not (outputs, inputs, taps).
struct Packing {
    uint4* packed;
    int outputs, inputs, taps, bn, swapped;
};

// Packs one output's weights: (outputs / bn, planes, taps, bn) rows of CHANNELS numbers, and after all of them the
// outputs' inverse scales.
template <int FORMAT, int CHANNELS>
__device__ void pack(const Packing& to, const float* w, int output, unsigned (&warps)[THREADS / 32]) {
    using Panel = Lines<FORMAT, CHANNELS>;
    const int planes = over(to.inputs, CHANNELS), all = to.inputs * to.taps, tiles = over(to.outputs, to.bn);
    const auto number = [&](int input, int tap) {
        return w[(to.swapped ? input * to.outputs + output : output * to.inputs + input) * to.taps + tap]; };
    unsigned exponent = 127;
    if constexpr (SCALED<FORMAT>) {
        unsigned largest = 0;
        if (output < to.outputs)
            for (int i = threadIdx.x; i < all; i += THREADS)
                largest = max(largest, bits_of_size(number(i / to.taps, i % to.taps)));
        exponent = scale_exponent(largest_of_block(largest, warps));
        if (threadIdx.x == 0)
            reinterpret_cast<float*>(to.packed + tiles * planes * to.taps * to.bn * Panel::STRIDE)[output] =
                power_of_two(254u - exponent) * UP;
    }
    for (int i = threadIdx.x; i < planes * Panel::CHUNKS * to.taps; i += THREADS) {
        const int tap = i % to.taps, chunk = i / to.taps % Panel::CHUNKS, plane = i / to.taps / Panel::CHUNKS;
        float held[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const int input = plane * CHANNELS + 8 * chunk + e;
            held[e] = output < to.outputs && input < to.inputs ? number(input, tap) * power_of_two(exponent) : 0.0f;
        }
        const int row = ((output / to.bn * planes + plane) * to.taps + tap) * to.bn + output % to.bn;
        const Panel panel{to.packed};
        panel.put(Eight<FORMAT>(held), row, chunk);
        if (chunk == 0) to.packed[row * Panel::STRIDE + Panel::STRIDE - 1] = make_uint4(0, 0, 0, 0);  // between rows
    }
}

// Packs weights w (o, c, taps) for the forward pass (`half` blocks, one for an output) and for the input gradient
// unless `backward` is null. bn, back_bn: outputs of a panel.
template <int FORMAT>
__global__ void __launch_bounds__(THREADS) pack_implicit(const float* __restrict__ w, int o, int c, int taps, int few,
    int bn, int back_bn, int half, uint4* __restrict__ forward, uint4* __restrict__ backward) {
    __shared__ unsigned warps[THREADS / 32];
    const bool on = blockIdx.x < half;
    const Packing to = on ? Packing{forward, o, few ? c * taps : c, few ? 1 : taps, bn, 0}
                         : Packing{backward, c, o, taps, back_bn, 1};
    const int output = on ? blockIdx.x : blockIdx.x - half;
    if (row_channels(to.inputs) == 16) pack<FORMAT, 16>(to, w, output, warps);
    else pack<FORMAT, 32>(to, w, output, warps);
}
