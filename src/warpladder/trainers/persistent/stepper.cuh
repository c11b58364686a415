// Optimizer's step of parameters in rows, with their slots in registers.
#pragma once
#include "nan.cuh"
#include "panel.cuh"

// Parameters with the optimizer's slots (null if it has fewer), and the update of WIDE neighbours. Gradients are
// clipped to [-limit, limit]; infinity does not clip.
template <class Rule>
struct Stepper {
    float *params, *first, *second;
    float limit;
    Rule rule;

    // Parameters and their slots in registers, loaded before the gradient is known, so that no thread waits for them.
    template <int WIDE>
    struct Held {
        float w[WIDE], a[WIDE], b[WIDE];
    };

    template <int WIDE>
    __device__ __forceinline__ void request(Held<WIDE>& held, int at) const {
        load_some(held.w, params + at, true);
        load_some(held.a, first + at, first != nullptr);
        load_some(held.b, second + at, second != nullptr);
    }

    template <int WIDE>
    __device__ __forceinline__ void step(int at, Held<WIDE>& held, const float (&gradient)[WIDE]) const {
#pragma unroll
        for (int j = 0; j < WIDE; ++j) rule.step(held.w[j], clip(gradient[j], limit), held.a[j], held.b[j]);
        store_some(params + at, held.w, 0, WIDE);
        if (first != nullptr) store_some(first + at, held.a, 0, WIDE);
        if (second != nullptr) store_some(second + at, held.b, 0, WIDE);
    }

    // The update of one parameter.
    __device__ __forceinline__ void step(int at, float gradient) const {
        Held<1> held;
        request(held, at);
        step(at, held, {gradient});
    }
};
