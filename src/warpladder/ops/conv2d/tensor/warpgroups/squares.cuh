// Squares of pixels, and the ring through which the copy engine (TMA) copies them for a warpgroup's products (wgmma).
//
// A piece of 8 kB in shared memory has 64 rows of 128 bytes: a square of 8 x 8 pixels of an image with 64 channels of
// each, channels last, or 64 terms of 64 outputs of packed weights. Pixels outside the image are copied as zeros.
#pragma once
#include "../taps.cuh"
#include "tensor_panels.cuh"
#include "turn.cuh"
#include "wgmma.cuh"

// pixels along a square, bytes of a piece, a block's threads, warpgroups that multiply
constexpr int SIDE = 8, PIECE = 64 * 128, THREADS = 384, GROUPS = 2;
// columns of a warpgroup's sums, two pieces of the second factor
constexpr int COLUMNS = 128;

// A ring of stages for 64 terms: `FIRST` pieces of the first factor and `SECOND` of the second, twice if split.
template <int FORMAT, int FIRST, int SECOND>
struct Ring {
    static constexpr int COPIES = FORMAT == SPLIT ? 2 : 1, HALF_BYTES = (FIRST + SECOND) * PIECE,
        BYTES = COPIES * HALF_BYTES;
    static constexpr int STAGES = 196608 / BYTES;  // a block takes STAGES BYTES + 1,024 bytes of shared memory
    Barrier arrived[STAGES], read[STAGES];

    // Initialises the barriers; by all threads, before anything else.
    __device__ __forceinline__ void init() {
        if (threadIdx.x == 0) {
            for (int stage = 0; stage < STAGES; ++stage) {
                barrier_init(&arrived[stage], 1);
                barrier_init(&read[stage], 4 * GROUPS);  // a lane of every warp that multiplies
            }
            barriers_ready();
        }
        __syncthreads();
    }
};

// One step of 64 x 128 sums over 16 terms; in the first factor they go along rows (pixels by channels), or down.
template <int FORMAT, bool ACROSS_PIXELS>
__device__ __forceinline__ void multiply_step(float (&sum)[COLUMNS / 2], const char* first, const char* second,
    int term, bool add) {
    const unsigned long long right = terms_down(second + 128 * term, PIECE);
    if constexpr (ACROSS_PIXELS) {
        const unsigned long long left = terms_down(first + 128 * term, 0);
        if constexpr (SCALED<FORMAT>) wgmma_half_down(sum, left, right, add);
        else wgmma_bf16_down(sum, left, right, add);
    } else {
        const unsigned long long left = terms_along(first + 2 * term);
        if constexpr (SCALED<FORMAT>) wgmma_half(sum, left, right, add);
        else wgmma_bf16(sum, left, right, add);
    }
}

// 64 terms of 64 x 128 sums; of halves al bh, ah bl, ah bh: the small ones first. `half`: bytes to the low ones.
template <int FORMAT, bool ACROSS_PIXELS>
__device__ __forceinline__ void multiply_terms(float (&sum)[COLUMNS / 2], const char* first, const char* second,
    int half, bool add) {
#pragma unroll
    for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)
#pragma unroll
        for (int term = 0; term < 64; term += 16)
            multiply_step<FORMAT, ACROSS_PIXELS>(
                sum, first + (product == 0 ? half : 0), second + (product == 1 ? half : 0), term, add || term > 0
                    || (FORMAT == SPLIT && product > 0)
            );
}

// Squares of n images, by row: their number, and the first pixel of number `square`.
struct Squares {
    int across, down, n;
    __device__ __forceinline__ Squares(int n_, int h, int w) : across((w + SIDE - 1) / SIDE),
        down((h + SIDE - 1) / SIDE), n(n_) {}
    __device__ __forceinline__ int count() const { return n * across * down; }
    __device__ __forceinline__ int image(int square) const { return square / (across * down); }
    // the first square of the next image
    __device__ __forceinline__ int after(int image) const { return (image + 1) * across * down; }
    __device__ __forceinline__ int row(int square) const { return square / across % down * SIDE; }
    __device__ __forceinline__ int column(int square) const { return square % across * SIDE; }
};

// Inverse scale of 64 channels of an image; squares beyond the last image have zeros only.
__device__ __forceinline__ float inverse_scale_at(const float* inverse_scale, int image, int n, int channels, int block)
    {
    return inverse_scale[min(image, n - 1) * (channels / 64) + min(block, channels / 64 - 1)];
}
