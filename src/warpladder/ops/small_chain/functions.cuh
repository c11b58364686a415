// Functions of one number after a linear layer, or before the first one: activations and dropout, each with the product
// of the derivatives so far, so that the backward pass is one product whatever they are.
#pragma once
#include "../activation/activation.cuh"
#include "../dropout/dropout.cuh"
#include "nan.cuh"

// A number on its way through functions, and its derivative by what entered the first of them.
struct Traced {
    float value, slope;
};

// Place of a number in the masks of an epoch.
struct MaskPlace {
    unsigned key, position, element;
};

// Masks of a block's samples: the epoch's key, the first sample's position in the epoch's order, and the index in the
// sample of the first of a pass's numbers.
struct Masks {
    unsigned key, first, element;
    __device__ __forceinline__ Masks from(unsigned number) const { return {key, first, number}; }
    __device__ __forceinline__ MaskPlace at(int sample, int number) const {
        return {key, first + static_cast<unsigned>(sample), element + static_cast<unsigned>(number)};
    }
};

struct PositivePart {
    static __device__ __forceinline__ void apply(Traced& t, const MaskPlace&) {
        t.slope = t.value > 0.0f ? t.slope : 0.0f;
        t.value = relu(t.value);
    }
};

// NEGATIVE: type with the `slope` of LEAKY_RELU below 0.
template <int FUNCTION, class NEGATIVE>
struct Activated {
    static __device__ __forceinline__ void apply(Traced& t, const MaskPlace&) {
        const float y = value<FUNCTION>(t.value, NEGATIVE::slope);
        t.slope *= derivative<FUNCTION>(READS_OUTPUT<FUNCTION> ? y : t.value, NEGATIVE::slope);
        t.value = y;
    }
};

// MASK: type with the `layer`, `threshold` and `scale` of dropout_mask.
template <class MASK>
struct Dropped {
    static __device__ __forceinline__ void apply(Traced& t, const MaskPlace& at) {
        const float mask = dropout_mask(at.key, MASK::layer, at.position, at.element, MASK::threshold, MASK::scale);
        t.value *= mask;
        t.slope *= mask;
    }
};

// How the gradient by a number becomes the one by what entered its functions: it stays, it is 0 where the number is not
// above 0, or it is multiplied by the number's slope.
enum { STAYS = 0, MASKED = 1, MULTIPLIED = 2 };

template <int BACK>
__device__ __forceinline__ float before(float gradient, float number, const float* slope) {
    if constexpr (BACK == MASKED) return number > 0.0f ? gradient : 0.0f;
    if constexpr (BACK == MULTIPLIED) return gradient * *slope;
    return gradient;
}

// Functions in their order.
template <class... EACH>
struct Functions {
    static constexpr int BACK = MULTIPLIED;
    static __device__ __forceinline__ Traced of(float x, const MaskPlace& at) {
        Traced t = {x, 1.0f};
        (EACH::apply(t, at), ...);
        return t;
    }
};
template <>
struct Functions<> {
    static constexpr int BACK = STAYS;
    static __device__ __forceinline__ Traced of(float x, const MaskPlace&) { return {x, 1.0f}; }
};
template <>
struct Functions<PositivePart> {
    static constexpr int BACK = MASKED;
    static __device__ __forceinline__ Traced of(float x, const MaskPlace&) { return {relu(x), 1.0f}; }
};
