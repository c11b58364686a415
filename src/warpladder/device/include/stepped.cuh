// End of a number of the gradient in a launch that makes any optimizer's step: it is stored, and its parameter updated.
#pragma once
#include "update.cuh"

// Flat arrays of one layout; params: null if another launch updates; first, second: null if the optimizer has no such
// slot. limit: of clipped gradients, or infinity. row: numbers of the step.
template <class Rule>
struct Stepped {
    float *grads, *params, *first, *second;
    float limit;
    Rule rule;

    __device__ __forceinline__ Stepped(float* grads, float* params, float* first, float* second, float limit,
        const float4* row) : grads(grads), params(params), first(first), second(second), limit(limit),
        rule(Numbers(row, nullptr)) {}

    __device__ __forceinline__ void finish(float* gradient, float sum) const {
        *gradient = sum;
        if (params == nullptr) return;
        const long long at = gradient - grads;
        float w = params[at], a = first != nullptr ? first[at] : 0.0f, b = second != nullptr ? second[at] : 0.0f;
        rule.step(w, clip(sum, limit), a, b);
        params[at] = w;
        if (first != nullptr) first[at] = a;
        if (second != nullptr) second[at] = b;
    }
};
