// Packing of the weights of a convolution of few outputs after an upsampling by 2, for shifted.cu.
// Launched by `ShiftedConvolution` of shifted.py.
//
// A piece has 64 channels, each with 64 columns: 16 numbers of the folded weights (folded.cuh) times four outputs,
// zeros for absent ones. Sums of y run down the rows of a piece, and those of dx along them. In bf16 one piece serves
// both; SPLIT and HALF have scales, of y one for an output, and of dx one for a channel, and so a piece for each.
// arch: sm_80, sm_90, sm_100
// instance: pack_shifted<SPLIT>; pack_shifted<BF16>; pack_shifted<HALF>
#include "../folded.cuh"
#include "../halves.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32, OUTPUTS = 4, WORDS = 64 * 32;  // words of a piece

// Number (a, b) = (number / 4, number % 4) of the folded weights of an output and a channel. w: (o, c, 3, 3).
__device__ __forceinline__ float weight(const float* __restrict__ w, int output, int channel, int number, int o, int c)
    {
    return output < o ? folded(w + (static_cast<long long>(output) * c + channel) * 9, number / 4, number % 4, 4, 2)
        : 0.0f;
}

// forward, backward: (c / 64, 1 or in SPLIT 2) pieces; backward null if it is not needed, or equals forward.
// inverse_scale: (4,) and (c,), times 2^14, null in bf16. dealt: 1 if rows backward are in the order in which a lane
// that sums over columns ends with eight neighbouring channels, twice: row 32 f + 8 j + 2 t + b has channel 32 f + 8 t
// + 2 j + b. A block has 64 channels; each computes the scales of the outputs.
template <int FORMAT>
__global__ void __launch_bounds__(THREADS) pack_shifted(
    const float* __restrict__ w, unsigned* __restrict__ forward, float* __restrict__ inverse_scale,
    unsigned* __restrict__ backward, float* __restrict__ back_inverse, int o, int c, int dealt
) {
    constexpr int COPIES = FORMAT == SPLIT ? 2 : 1;
    __shared__ unsigned warps[WARPS];
    __shared__ float of_output[OUTPUTS], of_channel[64];
    const int first = blockIdx.x * 64;
    if constexpr (SCALED<FORMAT>) {
        for (int output = 0; output < OUTPUTS; ++output) {
            unsigned largest = 0;
            for (int i = threadIdx.x; i < 16 * c; i += THREADS)
                largest = max(largest, bits_of_size(weight(w, output, i / 16, i % 16, o, c)));
            const unsigned exponent = scale_exponent(largest_of_block(largest, warps));
            if (threadIdx.x == 0) {
                of_output[output] = power_of_two(exponent);
                if (blockIdx.x == 0) inverse_scale[output] = power_of_two(254u - exponent) * UP;
            }
            __syncthreads();
        }
        if (backward != nullptr && threadIdx.x < 64) {
            unsigned largest = 0;
            for (int i = 0; i < 16 * o; ++i)
                largest = max(largest, bits_of_size(weight(w, i / 16, first + threadIdx.x, i % 16, o, c)));
            const unsigned exponent = scale_exponent(largest);
            of_channel[threadIdx.x] = power_of_two(exponent),
                back_inverse[first + threadIdx.x] = power_of_two(254u - exponent) * UP;
        }
        __syncthreads();
    }
    const auto store = [&](unsigned* to, int i, float one, float other) {
        const int row = i / 32, word = i % 32,
            at = blockIdx.x * COPIES * WORDS + row * 32 + (word / 4 ^ row % 8) * 4 + word % 4;
        unsigned high, low;
        two_numbers<FORMAT>(one, other, high, low);
        to[at] = high;
        if constexpr (FORMAT == SPLIT) to[at + WORDS] = low;
    };
    for (int i = threadIdx.x; i < WORDS; i += THREADS) {  // two outputs of a number and a channel
        const int channel = i / 32, number = i % 32 / 2, output = i % 2 * 2;
        const float one = weight(w, output, first + channel, number, o, c),
            other = weight(w, output + 1, first + channel, number, o, c);
        if constexpr (SCALED<FORMAT>) store(forward, i, one * of_output[output], other * of_output[output + 1]);
        else store(forward, i, one, other);
    }
    if (backward == nullptr) return;
    for (int i = threadIdx.x; i < WORDS; i += THREADS) {
        const int row = i / 32, number = i % 32 / 2, output = i % 2 * 2;
        const int channel = dealt ? row / 32 * 32 + row % 8 / 2 * 8 + row / 8 % 4 * 2 + row % 2 : row;
        float one = weight(w, output, first + channel, number, o, c),
            other = weight(w, output + 1, first + channel, number, o, c);
        if constexpr (SCALED<FORMAT>) one *= of_channel[channel], other *= of_channel[channel];
        store(backward, i, one, other);
    }
}
