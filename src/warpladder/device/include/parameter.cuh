// What becomes of a number of the gradient once its sum is complete: it is stored, and where the step ends with it its
// parameter is updated.
#pragma once
#include "nan.cuh"
#include "sgd.cuh"

// Flat arrays of one layout; params is null where somebody else updates. Gradients are clipped to [-limit, limit];
// infinity does not clip.
struct Flat {
    float *grads, *params, *momentum_buffer;
    Sgd sgd;
    float limit;
};

// The parameter whose gradient goes to one place: requested before the sum is known, so that no thread waits for it
// afterwards. None for null.
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
