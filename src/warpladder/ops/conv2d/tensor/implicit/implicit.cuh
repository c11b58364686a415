// Shapes of an implicit GEMM that are known when it is compiled, and eight numbers of an image on their way to shared
// memory.
#pragma once
#include "../narrow/narrow.cuh"
#include "pooled.cuh"

// How the numbers of an image are found: as stored; 0 where a ReLU's output is not above 0; or a 2 x 2 pool's gradient,
// which goes to the pixel of its argmax (pooled.cuh).
enum { STORED = 0, MASKED = 1, POOLED = 2 };

// Smaller and larger of two, and the quotient rounded up.
__device__ constexpr int least(int a, int b) { return a < b ? a : b; }
__device__ constexpr int most(int a, int b) { return a > b ? a : b; }
__device__ constexpr int over(int a, int b) { return (a + b - 1) / b; }

// Pixels of stride S, padding P and side K on the way back: written pixels r = S q + b of a class b read rows
// q + reach(b) - t of the gradient, t from 0 on, under tap (b + P) % S + S t.
__device__ constexpr int first_tap(int b, int s, int p) { return (b + p) % s; }
__device__ constexpr int taps_of(int b, int k, int s, int p) {
    return first_tap(b, s, p) < k ? over(k - first_tap(b, s, p), s) : 0; }
__device__ constexpr int reach(int b, int s, int p) { return (b + p) / s; }
// Least and largest distance of a row of the gradient from q.
__device__ constexpr int nearest(int k, int s, int p) {
    int found = reach(0, s, p);
    for (int b = 0; b < s; ++b) found = least(found, reach(b, s, p) - most(taps_of(b, k, s, p), 1) + 1);
    return found;
}
__device__ constexpr int farthest(int s, int p) { return reach(s - 1, s, p); }

// Channels of a row of shared memory: all, or 32 of them; and how many such planes an image has.
__device__ constexpr int row_channels(int channels) { return channels <= 16 ? 16 : 32; }
__device__ constexpr int planes_of(int channels) { return over(channels, row_channels(channels)); }

// Images (n, C, H, W). relu: what MASKED reads with the images.
template <int GRADIENT, int C, int H, int W>
struct Pixels {
    const float* x;
    const float* relu;
    int n;

    // Channels first to first + 7 of a pixel, first below C; zeros outside. Every load has an address: none waits for
    // another.
    __device__ __forceinline__ void read(float (&out)[8], int image, int row, int column, int first) const {
        const bool there = static_cast<unsigned>(row) < static_cast<unsigned>(H)
            && static_cast<unsigned>(column) < static_cast<unsigned>(W) && image < n;
        const long long at = there ? (static_cast<long long>(image) * C + first) * (H * W) + row * W + column : 0;
        const auto wanted = [&](int i) { return C % 8 == 0 || first + i < C; };
        float under[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int next = wanted(i) ? i * (H * W) : 0;
            out[i] = __ldg(x + at + next);
            if constexpr (GRADIENT == MASKED) under[i] = __ldg(relu + at + next);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            bool kept = there && wanted(i);
            if constexpr (GRADIENT == MASKED) kept = kept && under[i] > 0.0f;
            out[i] = kept ? out[i] : 0.0f;
        }
    }
};

// Windows of a 2 x 2 pool over images (n, C, H, W): its gradient and the argmax (pooled.cuh).
template <int C, int H, int W>
struct Windows {
    const float* pooled;
    const unsigned char* argmax;
    int n;

    // Channels first to first + 7 of a window, first below C: the gradient, 0 for no pixel, and four places in a word.
    __device__ __forceinline__ void read(float (&out)[8], unsigned (&places)[2], int image, int row, int column,
        int first) const {
        constexpr int HIGH = H / 2, WIDE = W / 2;
        const bool there = static_cast<unsigned>(row) < static_cast<unsigned>(HIGH)
            && static_cast<unsigned>(column) < static_cast<unsigned>(WIDE) && image < n;
        const long long at = there ? (static_cast<long long>(image) * C + first) * (HIGH * WIDE) + row * WIDE + column
            : 0;
        unsigned place[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int next = C % 8 == 0 || first + i < C ? i * (HIGH * WIDE) : 0;
            out[i] = __ldg(pooled + at + next);
            place[i] = __ldg(argmax + at + next);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i)
            out[i] = there && (C % 8 == 0 || first + i < C) && place[i] < 4 ? out[i] : 0.0f;
#pragma unroll
        for (int i = 0; i < 2; ++i)
            places[i] = place[4 * i] | place[4 * i + 1] << 8 | place[4 * i + 2] << 16 | place[4 * i + 3] << 24;
    }
};

// Masks, for two 16 bits each, of those of eight numbers whose place is `place`.
__device__ __forceinline__ void masks_of(unsigned (&wanted)[4], const unsigned (&places)[2], unsigned place) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned two = places[i / 2] >> 16 * (i % 2);
        wanted[i] = ((two & 255u) == place ? 0xffffu : 0u) | ((two >> 8 & 255u) == place ? 0xffff0000u : 0u);
    }
}

// Eight terms (channel, tap) of a patch, from number `first` on, of images (n, C, H, W) under K x K taps.
template <int C, int H, int W, int K>
struct Patch {
    const float* x;
    int n, offset[8], row[8], column[8];

    __device__ __forceinline__ Patch(const float* x, int n, int first) : x(x), n(n) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int term = first + i, tap = term % (K * K);
            row[i] = term < C * K * K ? tap / K : -(1 << 20), column[i] = tap % K;
            offset[i] = term / (K * K) * (H * W) + tap / K * W + tap % K;
        }
    }
    // row0, column0: of the patch's first tap.
    __device__ __forceinline__ void read(float (&out)[8], int image, int row0, int column0, bool there) const {
        const float* from = x + static_cast<long long>(image) * (C * H * W) + (row0 * W + column0);
        bool wanted[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            wanted[i] = there && image < n && static_cast<unsigned>(row0 + row[i]) < static_cast<unsigned>(H)
                && static_cast<unsigned>(column0 + column[i]) < static_cast<unsigned>(W);
            out[i] = __ldg(wanted[i] ? from + offset[i] : x);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) out[i] = wanted[i] ? out[i] : 0.0f;
    }
};
