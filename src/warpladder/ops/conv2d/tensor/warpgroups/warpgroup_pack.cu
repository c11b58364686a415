// Packing of factors of warpgroup products of convolutions: images channels last and weights by terms, in 16 bits.
// Launched by `PackedImages` and `PackedWeights` of images.py.
//
// bf16 rounds. SPLIT, fp32, makes two halves of each number, and HALF, fp16, one, times a power of two that scales the
// largest to 2^14 or a little above: of 64 channels of an image, so that one scale serves all taps and sums over
// pixels; of weights, of all terms of an output.
// arch: sm_80, sm_90, sm_100
#include "../folded.cuh"
#include "../halves.cuh"
#include "../taps.cuh"

// of a block that packs weights: threads, and columns, a warp for each
constexpr int THREADS = 256, AT_ONCE = THREADS / 32;
constexpr int MOST = 512;                             // threads of a block that packs pixels, at most

// Images before packing: x (n, c, h, w), and y null, or as x, the output of a ReLU whose gradient x is; or, with
// `argmax`, x (n, c, h / 2, w / 2), the gradient of a 2 x 2 pool, and its argmax indices (pooled.cuh).
struct Unpacked {
    const float *__restrict__ x, *__restrict__ y;
    const unsigned char* __restrict__ argmax;
    int h, w;

    // Reads four pixels of 8 channels from number `first` of all n c on, in row `row` from `column` on, and in the next
    // row after its end; 0 outside. All reads are in flight together.
    template <bool BY_FOUR>
    __device__ __forceinline__ void read(float (&v)[8][4], int first, int row, int column) const {
        const int plane = argmax != nullptr ? (h / 2) * (w / 2) : h * w;
        const long long begin = static_cast<long long>(first) * plane;
        const float* from = x + begin;
        const unsigned char* pool_argmax = argmax + (argmax != nullptr ? begin : 0);
        if (BY_FOUR && argmax == nullptr) {
            const bool here = row < h;
            from += row * w + column;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const float4 four = here ? *reinterpret_cast<const float4*>(from + i * plane)
                    : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                v[i][0] = four.x, v[i][1] = four.y, v[i][2] = four.z, v[i][3] = four.w;
            }
        } else if constexpr (BY_FOUR) {  // of two windows the upper or the lower halves
            const int at = row / 2 * (w / 2) + column / 2, upper = row % 2 * 2;
            const bool here = row / 2 < h / 2;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const float2 two = here ? *reinterpret_cast<const float2*>(from + at + i * plane)
                    : make_float2(0.0f, 0.0f);
                const int both = here ? *reinterpret_cast<const unsigned short*>(pool_argmax + at + i * plane) : 0;
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    v[i][e] = (both >> e / 2 * 8 & 255) == upper + e % 2 ? (e < 2 ? two.x : two.y) : 0.0f;
            }
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e, ++column) {
                if (column == w) ++row, column = 0;
                const bool here = argmax == nullptr ? row < h : row / 2 < h / 2 && column / 2 < w / 2;
                const int at = argmax == nullptr ? row * w + column : row / 2 * (w / 2) + column / 2;
#pragma unroll
                for (int i = 0; i < 8; ++i) v[i][e] = here ? from[at + i * plane] : 0.0f;
                if (here && argmax != nullptr)
#pragma unroll
                    for (int i = 0; i < 8; ++i)
                        v[i][e] = pool_argmax[at + i * plane] == row % 2 * 2 + column % 2 ? v[i][e] : 0.0f;
                if (here && y != nullptr)
#pragma unroll
                    for (int i = 0; i < 8; ++i) v[i][e] = relu_gradient(v[i][e], y[begin + at + i * plane]);
            }
        }
    }
};

// sums: (n, c), of each image, 64 of a block, for the bias. part: of a thread; lanes modulo 8 have the same channels.
__device__ __forceinline__ void add_up(float* __restrict__ sums, const float (&part)[8]) {
    __shared__ float warps[MOST / 32][64];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        float sum = part[i] + __shfl_xor_sync(EVERY_LANE, part[i], 8);
        sum += __shfl_xor_sync(EVERY_LANE, sum, 16);
        if (lane < 8) warps[warp][8 * lane + i] = sum;
    }
    __syncthreads();
    for (int channel = threadIdx.x; channel < 64; channel += blockDim.x) {
        float sum = warps[0][channel];
        for (int each = 1; each < blockDim.x / 32; ++each) sum += warps[each][channel];
        sums[blockIdx.x * 64 + channel] = sum;
    }
}

// x, y, argmax, h, w: as in Unpacked. high, low: (n, h w, c), two channels a word. inverse_scale: (n, c / 64), inverse
// scales, null in bf16. low: null but in SPLIT. sums: null, or (n, c), each channel's sum over an image's pixels.
// by_classes: 1 if pixels are stored by the four classes of taps.cuh, each as an image of a quarter of the pixels; h
// and w are even then. A block has 64 channels of an image, and a warp of them 16 pixels at a time, four lanes for
// every eight channels: a lane reads 16 bytes of each of eight channels, and writes 16 bytes of each of four pixels,
// next to the seven lanes that have the pixel's other channels. Of a block of 512 threads an image of 256 pixels is
// read once; of a larger one with a scale the largest number is found first, and then all is read again. BY_FOUR: true
// if four pixels of x begin at a multiple of 16 bytes, or a pool's at one of 8, in one row; and y is null.
template <int FORMAT, bool BY_FOUR>
__global__ void __launch_bounds__(MOST, BY_FOUR ? 2 : 1) pack_pixels(
    const float* __restrict__ x, const float* __restrict__ y, const unsigned char* __restrict__ argmax,
    unsigned* __restrict__ high, unsigned* __restrict__ low, float* __restrict__ inverse_scale,
    float* __restrict__ sums, int c, int h, int w, int by_classes
) {
    const Unpacked unpacked{x, y, argmax, h, w};
    const int lane = threadIdx.x % 32, blocks = c / 64, image = blockIdx.x / blocks, block = blockIdx.x % blocks,
        plane = h * w;
    const int at_once = blockDim.x / 2, rounds = (plane + at_once - 1) / at_once;  // pixels, and how often that many
    __shared__ unsigned warps[MOST / 32];
    float v[8][4], by = 1.0f, sum[8] = {};
    unsigned largest = 0;
#pragma unroll 1
    for (int turn = SCALED<FORMAT> ? 0 : rounds; turn < 2 * rounds; ++turn) {
        const int first = turn % rounds * at_once + threadIdx.x / 32 * 16 + lane / 8 * 4;
        int row = first / w, column = first % w;
        if (!SCALED<FORMAT> || turn < rounds || rounds > 1)
            unpacked.read<BY_FOUR>(v, blockIdx.x * 64 + lane % 8 * 8, row, column);
        if (turn < rounds) {
#pragma unroll
            for (int i = 0; i < 32; ++i) largest = max(largest, bits_of_size(v[i / 4][i % 4]));
            if (turn < rounds - 1) continue;
            const unsigned exponent = scale_exponent(largest_of_block(largest, warps, blockDim.x / 32));
            by = power_of_two(exponent);
            if (threadIdx.x == 0) inverse_scale[blockIdx.x] = power_of_two(254u - exponent);
            continue;
        }
#pragma unroll
        for (int e = 0; e < 4; ++e, ++column) {
            if (column == w) ++row, column = 0;
            if (row >= h) continue;
            unsigned two[4], rest[4];
#pragma unroll
            for (int i = 0; i < 8; ++i) sum[i] += v[i][e];
#pragma unroll
            for (int i = 0; i < 4; ++i) two_numbers<FORMAT>(v[2 * i][e] * by, v[2 * i + 1][e] * by, two[i], rest[i]);
            const int pixel = by_classes ? by_class(row, column, plane, w) : row * w + column;
            // in 16 bytes
            const long long at = ((static_cast<long long>(image) * plane + pixel) * blocks + block) * 8 + lane % 8;
            reinterpret_cast<uint4*>(high)[at] = make_uint4(two[0], two[1], two[2], two[3]);
            if constexpr (FORMAT == SPLIT)
                reinterpret_cast<uint4*>(low)[at] = make_uint4(rest[0], rest[1], rest[2], rest[3]);
        }
    }
    if (sums != nullptr) add_up(sums, sum);
}

// Packs weights w (o, c, 3, 3) for both directions. Forward: (9 c, o), terms ordered (64 channels, tap, channel).
// Backward: (9 o, c) likewise, taps mirrored; null without an input gradient. upsampled: 1 after an upsampling by 2;
// forward then (16 c, o), terms (class, 64 channels, tap, channel), and backward (16 o, c). inverse_scale: (o,) and
// (c,), times 2^14 (squares.cuh); one for all classes of an output, since all are sums of the same nine numbers.
// inverse_scale: null in bf16. low: null but in SPLIT. A block packs eight columns, each by a warp, whose lanes have a
// row of w's each, an output and a channel: its nine numbers are read once and make all sixteen. Through shared memory
// the eight columns, 16 bytes of a term, come together.
template <int FORMAT>
__global__ void __launch_bounds__(THREADS) pack_weights(
    const float* __restrict__ w, unsigned* __restrict__ high, unsigned* __restrict__ low,
    float* __restrict__ inverse_scale, unsigned* __restrict__ back_high, unsigned* __restrict__ back_low,
    float* __restrict__ back_inverse, int o, int c, int upsampled
) {
    // of a term's columns; with a word between, lanes that write one after the other meet other banks
    constexpr int WORDS = AT_ONCE / 2, PITCH = WORDS + 1;
    __shared__ unsigned highs[16][32][PITCH], lows[FORMAT == SPLIT ? 16 : 1][32][PITCH];
    const bool back = static_cast<int>(blockIdx.x) >= o / AT_ONCE;
    const Taps taps{!upsampled ? WINDOW : back ? GATHERED : UPSAMPLED};
    const int columns = back ? c : o, others = back ? o : c, each = taps.count() * others,
        left = AT_ONCE * (blockIdx.x - (back ? o / AT_ONCE : 0));
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Numbers of the warp's column for another channel, or output: w's nine, or sixteen of an upsampled layer.
    const auto read = [&](int other, float (&number)[16]) {
        const float* from = w + (back ? static_cast<long long>(other) * c + left + warp
            : static_cast<long long>(left + warp) * c + other) * 9;
        float nine[9];
#pragma unroll
        for (int i = 0; i < 9; ++i) nine[i] = from[i];
#pragma unroll
        for (int i = 0; i < 16; ++i) number[i] = upsampled ? folded(nine, i / 4, i % 4, 4, 2) : i < 9 ? nine[i] : 0.0f;
    };
    float number[16], by = 1.0f;
    if constexpr (SCALED<FORMAT>) {
        unsigned largest = 0;
#pragma unroll 2
        for (int other = lane; other < others; other += 32) {
            read(other, number);
#pragma unroll
            for (int i = 0; i < 16; ++i) largest = max(largest, bits_of_size(number[i]));
        }
        const unsigned exponent = shared_exponent<1, 32>(largest);
        by = power_of_two(exponent);
        if (lane == 0) (back ? back_inverse : inverse_scale)[left + warp] = power_of_two(254u - exponent) * UP;
    }
    for (int first = 0; first < others; first += 32) {
        read(first + lane, number);
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            unsigned one, rest;
            two_numbers<FORMAT>(number[i] * by, 0.0f, one, rest);
            reinterpret_cast<unsigned short*>(highs[i][lane])[warp] = static_cast<unsigned short>(one);
            if constexpr (FORMAT == SPLIT)
                reinterpret_cast<unsigned short*>(lows[i][lane])[warp] = static_cast<unsigned short>(rest);
        }
        __syncthreads();
        for (int at = threadIdx.x; at < taps.classes() * taps.count() * 32 * WORDS; at += THREADS) {
            const int word = at % WORDS, other = at / WORDS % 32, of_class = at / WORDS / 32 / taps.count(),
                tap = at / WORDS / 32 % taps.count();
            const int row = taps.number(tap / taps.side(), of_class / 2),
                column = taps.number(tap % taps.side(), of_class % 2);
            const int from = upsampled ? 4 * row + column : back ? 8 - tap : tap;
            const long long term = static_cast<long long>(of_class) * each + ((first + other) / 64 * taps.count() + tap)
                * 64 + (first + other) % 64;
            (back ? back_high : high)[(term * columns + left) / 2 + word] = highs[from][other][word];
            if constexpr (FORMAT == SPLIT)
                (back ? back_low : low)[(term * columns + left) / 2 + word] = lows[from][other][word];
        }
        __syncthreads();
    }
}
