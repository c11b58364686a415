// Losses of one element: value and derivative by a function's number, as in scalar.py; and the target of a label.
#pragma once

enum { MSE = 0, L1 = 1, HUBER = 2, BINARY = 3 };

// True if the loss reads a setting: delta of HUBER, the positive targets' factor of BINARY.
template <int FUNCTION>
constexpr bool HAS_SETTING = FUNCTION == HUBER || FUNCTION == BINARY;

// Loss f(x, t).
template <int FUNCTION>
__device__ __forceinline__ float element_value(float x, float t, float setting) {
    const float d = x - t;
    if constexpr (FUNCTION == MSE) return d * d;
    if constexpr (FUNCTION == L1) return fabsf(d);
    if constexpr (FUNCTION == HUBER) {
        const float size = fabsf(d);
        return size <= setting ? 0.5f * d * d : setting * (size - 0.5f * setting);
    }
    if constexpr (FUNCTION == BINARY) {
        const float rest = log1pf(expf(-fabsf(x)));
        return setting * t * (rest + (x < 0.0f ? -x : 0.0f)) + (1.0f - t) * (rest + (x > 0.0f ? x : 0.0f));
    }
}

// Derivative df / dx. A NaN stays NaN; L1's derivative is 0 at 0.
template <int FUNCTION>
__device__ __forceinline__ float element_slope(float x, float t, float setting) {
    const float d = x - t;
    if constexpr (FUNCTION == MSE) return 2.0f * d;
    if constexpr (FUNCTION == L1) return d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : d;
    if constexpr (FUNCTION == HUBER) return d > setting ? setting : d < -setting ? -setting : d;
    if constexpr (FUNCTION == BINARY) {
        return (1.0f - t) / (1.0f + expf(-x)) - setting * t / (1.0f + expf(x));
    }
}

// Target q of a class with this weight, in a cross-entropy: weight smoothing / classes, and weight (1 - smoothing) more
// at the label.
__device__ __forceinline__ float class_target(float weight, float smoothing, int classes, bool is_label) {
    return weight * (smoothing / classes) + (is_label ? weight * (1.0f - smoothing) : 0.0f);
}
