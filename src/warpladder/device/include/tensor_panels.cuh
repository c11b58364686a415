// What a number becomes on tensor cores: formats, the scale that brings 32 terms of a line into half's range, and one
// step of a product in each format.
//
// A line is what a sum runs along: a row of A, or a column of B.
#pragma once
#include "four.cuh"
#include "mma.cuh"
#include "warp.cuh"

// Formats of a factor's numbers on tensor cores: each as two halves of 16 bits, or rounded to tf32, to bf16, or to one
// half; EXACT next to SPLIT: whole numbers up to 2,048, bytes among them, which one half holds as they are.
enum { SPLIT = 0, TF32 = 1, BF16 = 2, HALF = 3, EXACT = 4 };

// Whether a format's lines are multiplied by powers of two: those whose numbers are halves, which end far sooner than
// floats.
template <int FORMAT>
constexpr bool SCALED = FORMAT == SPLIT || FORMAT == HALF;

constexpr int DEPTH = 32;  // terms in a panel

// Two halves reach from 2^-24 to 2^16, floats from 2^-149 to 2^128. So the DEPTH numbers of a line are multiplied by
// one power of two that brings the largest of them to 2^14 or a little above; where that power is beyond 2^126, by
// 2^126, and then nothing is lost below floats' own end. It rounds nothing. `largest` is that number's bits without its
// sign: infinity and NaN have the largest exponent of all, and stay what they are.
// as a float has it: 127 for 2^0
__device__ __forceinline__ unsigned scale_exponent(unsigned largest) { return min(268u - (largest >> 23), 253u); }
__device__ __forceinline__ float power_of_two(unsigned exponent) { return __uint_as_float(exponent << 23); }

// What undoes the scales of two factors multiplies a part of a sum in two steps, one factor's times DOWN and then the
// other's times UP, which is about the size of that factor's largest number: the product of the two alone may be beyond
// the end of floats. On the way a number is up to 2^7 times the first factor's largest: above 2^121, 3e36, a line of it
// may give infinity that much too early. Nothing becomes 0 too early.
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
