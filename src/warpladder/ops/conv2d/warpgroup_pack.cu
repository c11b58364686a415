// What warpgroup products of convolutions (warpgroups.cu, warpgroup_weights.cu) read: images channels last and weights by terms, both in 16 bits.
//
// bf16 rounds. SPLIT, fp32, makes two halves of each number, and HALF, fp16, one, times a power of two that brings the largest to 2^14 or a little above:
// of 64 channels of an image, so that one scale serves all taps and sums over pixels too; of weights, of all terms of an output.
// arch: sm_80, sm_90, sm_100
#include "folded.cuh"
#include "taps.cuh"
#include "tensor_panels.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;

// Where a pixel of an image of `plane` pixels and `columns` columns, both even numbers of rows and columns, stands among all when they are put by their class.
__device__ __forceinline__ int by_class(int pixel, int plane, int columns) {
    const int row = pixel / columns, column = pixel % columns;
    return (row % 2 * 2 + column % 2) * (plane / 4) + row / 2 * (columns / 2) + column / 2;
}

// x: (n, c, plane). high, low: (n, plane, c), two channels a word. undo: (n, c / 64), what undoes a scale. undo: null in bf16. low: null but in SPLIT.
// apart: 0, or the columns of an image whose pixels are wanted by the four classes of taps.cuh, each as an image of a quarter of the pixels.
// A block has 64 channels of an image, 32 pixels at a time: rows of pixels come in, rows of channels go out.
template <int FORMAT>
__global__ void __launch_bounds__(THREADS) pack_pixels(
    const float* __restrict__ x, unsigned* __restrict__ high, unsigned* __restrict__ low, float* __restrict__ undo, int c, int plane, int apart
) {
    __shared__ float tile[64][33];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, blocks = c / 64, image = blockIdx.x / blocks, block = blockIdx.x % blocks;
    const float* from = x + static_cast<long long>(blockIdx.x) * 64 * plane;
    float by = 1.0f;
    if constexpr (SCALED<FORMAT>) {
        unsigned largest = 0;
        for (int i = threadIdx.x; i < 64 * plane; i += THREADS) largest = max(largest, bits_of_size(from[i]));
        const unsigned exponent = scale_exponent(largest_of_block<WARPS>(largest));
        by = power_of_two(exponent);
        if (threadIdx.x == 0) undo[blockIdx.x] = power_of_two(254u - exponent);
    }
    const long long to = (static_cast<long long>(image) * plane * blocks + block) * 32;  // in words
    for (int first = 0; first < plane; first += 32) {
        float held[64 / WARPS];
#pragma unroll
        for (int i = 0; i < 64 / WARPS; ++i) held[i] = first + lane < plane ? from[static_cast<long long>(warp + i * WARPS) * plane + first + lane] : 0.0f;
        __syncthreads();  // everybody has read the tile before
#pragma unroll
        for (int i = 0; i < 64 / WARPS; ++i) tile[warp + i * WARPS][lane] = held[i] * by;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 32 / WARPS; ++i) {
            const int pixel = warp + i * WARPS;
            if (first + pixel >= plane) continue;
            unsigned two, rest;
            two_numbers<FORMAT>(tile[2 * lane][pixel], tile[2 * lane + 1][pixel], two, rest);
            const long long word = to + static_cast<long long>(apart > 0 ? by_class(first + pixel, plane, apart) : first + pixel) * blocks * 32 + lane;
            high[word] = two;
            if constexpr (FORMAT == SPLIT) low[word] = rest;
        }
    }
}

// Weights w (o, c, 3, 3) for both ways. Forward: (9 c, o), terms ordered (64 channels, tap, channel). Backward: (9 o, c) likewise, taps mirrored; null where
// there is no input gradient. enlarged: whether they are those behind an enlargement by 2; forward then (16 c, o), terms (class, 64 channels, tap, channel), and
// backward (16 o, c). undo: (o,) and (c,), times 2^14 (squares.cuh); one for all classes of an output, since all are sums of the same nine numbers.
// undo: null in bf16. low: null but in SPLIT. A block packs two columns, which are the halves of its words.
template <int FORMAT>
__global__ void __launch_bounds__(THREADS) pack_weights(
    const float* __restrict__ w, unsigned* __restrict__ high, unsigned* __restrict__ low, float* __restrict__ undo, unsigned* __restrict__ back_high,
    unsigned* __restrict__ back_low, float* __restrict__ back_undo, int o, int c, int enlarged
) {
    const bool back = static_cast<int>(blockIdx.x) >= o / 2;
    const Taps taps{!enlarged ? WINDOW : back ? GATHERED : ENLARGED};
    const int columns = back ? c : o, each = taps.count() * (back ? o : c), terms = taps.classes() * each;
    const int column = 2 * (blockIdx.x - (back ? o / 2 : 0));
    const auto number = [&](int term, int which) {
        const int of_class = term / each, within = term % each, tap = within / 64 % taps.count(), other = within / 64 / taps.count() * 64 + within % 64;
        const float* from = w + (back ? static_cast<long long>(other) * c + which : static_cast<long long>(which) * c + other) * 9;
        if (!enlarged) return from[back ? 8 - tap : tap];
        return folded(from, taps.number(tap / taps.side(), of_class / 2), taps.number(tap % taps.side(), of_class % 2), 4, 2);
    };
    float by[2] = {1.0f, 1.0f};
    if constexpr (SCALED<FORMAT>) {
        for (int i = 0; i < 2; ++i) {
            unsigned largest = 0;
            for (int term = threadIdx.x; term < terms; term += THREADS) largest = max(largest, bits_of_size(number(term, column + i)));
            const unsigned exponent = scale_exponent(largest_of_block<WARPS>(largest));
            __syncthreads();  // everybody has read the warps' largest ones
            by[i] = power_of_two(exponent);
            if (threadIdx.x == 0) (back ? back_undo : undo)[column + i] = power_of_two(254u - exponent) * 16384.0f;
        }
    }
    for (int term = threadIdx.x; term < terms; term += THREADS) {
        unsigned two, rest;
        two_numbers<FORMAT>(number(term, column) * by[0], number(term, column + 1) * by[1], two, rest);
        const long long word = (static_cast<long long>(term) * columns + column) / 2;
        (back ? back_high : high)[word] = two;
        if constexpr (FORMAT == SPLIT) (back ? back_low : low)[word] = rest;
    }
}
