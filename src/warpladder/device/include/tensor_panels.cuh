// Numbers on tensor cores: formats, scales that shift 32 terms of a line into the range of halves, and mma steps.
//
// A line is a vector along which a sum runs: a row of A, or a column of B.
#pragma once
#include "four.cuh"
#include "mma.cuh"
#include "warp.cuh"

// Formats of a factor's numbers: two halves of 16 bits each, or rounded to tf32, to bf16, or to one half; EXACT next to
// SPLIT: whole numbers up to 2,048, such as bytes, exact in one half.
enum { SPLIT = 0, TF32 = 1, BF16 = 2, HALF = 3, EXACT = 4 };

// True if a format's lines are multiplied by powers of two: halves have a far smaller range than floats.
template <int FORMAT>
constexpr bool SCALED = FORMAT == SPLIT || FORMAT == HALF;

constexpr int DEPTH = 32;  // terms in a panel

// Two halves reach from 2^-24 to 2^16, floats from 2^-149 to 2^128. So the DEPTH numbers of a line are multiplied by
// the power of two that scales the largest to 2^14 or a little above, at most 2^126, so that nothing is lost above the
// smallest float. It rounds nothing. `largest` is the bits of that number without its sign: infinity and NaN stay.
__device__ __forceinline__ unsigned scale_exponent(unsigned largest) { return min(268u - (largest >> 23), 253u); }
__device__ __forceinline__ float power_of_two(unsigned exponent) { return __uint_as_float(exponent << 23); }

// The bits of a number without its sign: they order numbers by size.
__device__ __forceinline__ unsigned bits_of_size(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// The bits of the largest of COUNT numbers.
template <int COUNT>
__device__ __forceinline__ unsigned largest_of(const float (&x)[COUNT]) {
    unsigned largest = 0;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) largest = max(largest, bits_of_size(x[i]));
    return largest;
}

// The largest over the lanes whose numbers differ in the bits FROM to TO, and the exponent of its scale.
template <int FROM, int TO>
__device__ __forceinline__ unsigned largest_of_lanes(unsigned largest) {
#pragma unroll
    for (int offset = FROM; offset < TO; offset *= 2)
        largest = max(largest, __shfl_xor_sync(EVERY_LANE, largest, offset));
    return largest;
}
template <int FROM, int TO>
__device__ __forceinline__ unsigned shared_exponent(unsigned largest) {
    return scale_exponent(largest_of_lanes<FROM, TO>(largest));
}

// The inverse scales of two factors multiply a part of a sum in two steps, one times DOWN and then the other times UP,
// about the size of that factor's largest number: their product alone may exceed the range of floats. In between a
// number is up to 2^7 times the first factor's largest: above 2^121, 3e36, it may overflow that much too early.
constexpr float DOWN = 1.0f / 16384, UP = 16384;

template <int FORMAT>
struct Held {
    using Number = unsigned short;
    static constexpr int TERMS = 16;  // of one mma
};
template <>
struct Held<TF32> {
    using Number = unsigned;
    static constexpr int TERMS = 8;
};

// d += a b, by a whole warp: 16 x 8 numbers of d, Held<FORMAT>::TERMS terms.
template <int FORMAT>
__device__ __forceinline__ void mma_step(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    if constexpr (SCALED<FORMAT>) mma_half(d, a, b);
    else if constexpr (FORMAT == TF32) mma_tf32(d, a, b);
    else mma_bf16(d, a, b);
}
