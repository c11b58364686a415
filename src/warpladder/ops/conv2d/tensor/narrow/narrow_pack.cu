// Packing of the weights of a convolution of few channels for `convolve_narrow`: a row for each tap and output.
// arch: sm_80, sm_90, sm_100
#include "narrow.cuh"

// of a block, at least as many as eights of an output's weights: 5 x 5 taps of 32 channels have 100
constexpr int THREADS = 128;

// One output's weights: rows (taps, width) of CHANNELS numbers, and after all of them the outputs' inverse scales. w:
// (outputs, inputs, taps); swapped: (inputs, outputs, taps), and taps in reverse, for the other direction.
template <int FORMAT, int CHANNELS>
__device__ void pack(uint4* packed, const float* w, int output, int outputs, int width, int inputs, int taps,
    bool swapped) {
    using Panel = Lines<FORMAT, CHANNELS>;
    __shared__ unsigned largests[THREADS / 32];
    const Panel to{packed};
    const int tap = threadIdx.x / Panel::CHUNKS, chunk = threadIdx.x % Panel::CHUNKS, row = tap * width + output;
    float held[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int input = 8 * chunk + i, pair = swapped ? input * outputs + output : output * inputs + input;
        held[i] = tap < taps && output < outputs && input < inputs ? w[pair * taps + (swapped ? taps - 1 - tap : tap)]
            : 0.0f;
    }
    if constexpr (SCALED<FORMAT>) {
        const unsigned of_warp = __reduce_max_sync(EVERY_LANE, largest_of(held));
        if (threadIdx.x % 32 == 0) largests[threadIdx.x / 32] = of_warp;
        __syncthreads();
        unsigned largest = 0;
#pragma unroll
        for (int warp = 0; warp < THREADS / 32; ++warp) largest = max(largest, largests[warp]);
        const unsigned exponent = scale_exponent(largest);
        scale_all(held, power_of_two(exponent));
        if (threadIdx.x == 0)
            reinterpret_cast<float*>(packed + taps * width * Panel::STRIDE)[output] = power_of_two(254u - exponent)
            * UP;
    }
    if (tap >= taps) return;
    to.put(Eight<FORMAT>(held), row, chunk);
    if (chunk == 0) packed[row * Panel::STRIDE + Panel::STRIDE - 1] = make_uint4(0, 0, 0, 0);  // between rows
}

// Packs weights w (o, c, k, k) for the forward pass (`o_width` blocks, one for an output), and for the input gradient
// (`c_width` blocks) unless `backward` is null. o_width, c_width: o and c, rounded up to 16 or 32. taps: k k.
template <int FORMAT>
__global__ void __launch_bounds__(THREADS) pack_narrow(const float* __restrict__ w, int o, int c, int taps, int o_width,
    int c_width, uint4* __restrict__ forward, uint4* __restrict__ backward) {
    const bool on = blockIdx.x < o_width;
    uint4* to = on ? forward : backward;
    const int output = on ? blockIdx.x : blockIdx.x - o_width, outputs = on ? o : c, width = on ? o_width : c_width,
        inputs = on ? c : o;
    if ((on ? c_width : o_width) == 16) pack<FORMAT, 16>(to, w, output, outputs, width, inputs, taps, !on);
    else pack<FORMAT, 32>(to, w, output, outputs, width, inputs, taps, !on);
}
