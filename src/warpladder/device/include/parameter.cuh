// End of a number of the gradient: it is stored, and its parameter is updated if the launch includes the update.
#pragma once
#include "nan.cuh"
#include "sgd.cuh"

// Flat arrays of one layout; params: null if another launch updates. limit: of clipped gradients, or infinity.
struct Flat {
    float *grads, *params, *momentum_buffer;
    Sgd sgd;
    float limit;

    __device__ __forceinline__ void finish(float* gradient, float sum) const;
};

// Parameter of one gradient, loaded before the sum is known, so that no thread waits for it; none for null.
struct Parameter {
    float w, v;

    __device__ __forceinline__ Parameter(const Flat& flat, const float* gradient) : w(0.0f), v(0.0f) {
        if (flat.params == nullptr || gradient == nullptr) return;
        w = flat.params[gradient - flat.grads];
        if (flat.sgd.momentum != 0.0f) v = flat.momentum_buffer[gradient - flat.grads];
    }

    __device__ __forceinline__ void finish(const Flat& flat, float* gradient, float sum) {
        *gradient = sum;
        if (flat.params == nullptr) return;
        sgd_update(w, clip(sum, flat.limit), v, flat.sgd);
        flat.params[gradient - flat.grads] = w;
        if (flat.sgd.momentum != 0.0f) flat.momentum_buffer[gradient - flat.grads] = v;
    }
};

__device__ __forceinline__ void Flat::finish(float* gradient, float sum) const {
    Parameter(*this, gradient).finish(*this, gradient, sum);
}
