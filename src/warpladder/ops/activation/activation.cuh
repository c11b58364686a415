// Activations of one number: value and derivative by a function's number, as in scalar.py; and two more functions, for
// kernels that end with an activation, a ReLU or neither.
#pragma once

enum { TANH = 0, SIGMOID = 1, LEAKY_RELU = 2, GELU_ERF = 3, GELU_TANH = 4, SILU = 5, IDENTITY = 6, RELU = 7 };

// sqrt(2 / pi), the cubic term of GELU's approximation, sqrt(1 / 2), and 1 / sqrt(2 pi).
#define GELU_ROOT 0.7978845608028654f
#define GELU_CUBE 0.044715f
#define GELU_HALF 0.7071067811865476f
#define GELU_DENSITY 0.3989422804014327f

// Activation f(x). slope: slope below 0, of LEAKY_RELU.
template <int FUNCTION>
__device__ __forceinline__ float value(float x, float slope) {
    if constexpr (FUNCTION == TANH) return tanhf(x);
    if constexpr (FUNCTION == SIGMOID) return 1.0f / (1.0f + expf(-x));
    if constexpr (FUNCTION == LEAKY_RELU) return x > 0.0f ? x : slope * x;
    if constexpr (FUNCTION == GELU_ERF) return x * 0.5f * erfcf(-GELU_HALF * x);
    if constexpr (FUNCTION == GELU_TANH) return x / (1.0f + expf(-2.0f * GELU_ROOT * (x + GELU_CUBE * x * x * x)));
    if constexpr (FUNCTION == SILU) return x / (1.0f + expf(-x));
    if constexpr (FUNCTION == IDENTITY) return x;
    if constexpr (FUNCTION == RELU) return x < 0.0f ? 0.0f : x;  // NaN stays
}

// True if the derivative is computed from the output.
template <int FUNCTION>
constexpr bool READS_OUTPUT = FUNCTION == TANH || FUNCTION == SIGMOID;

// Derivative f'(x). saved: the output if READS_OUTPUT, else the input.
template <int FUNCTION>
__device__ __forceinline__ float derivative(float saved, float slope) {
    if constexpr (FUNCTION == TANH) return 1.0f - saved * saved;
    if constexpr (FUNCTION == SIGMOID) return saved * (1.0f - saved);
    if constexpr (FUNCTION == LEAKY_RELU) return saved > 0.0f ? 1.0f : slope;
    if constexpr (FUNCTION == GELU_ERF) {
        return 0.5f * erfcf(-GELU_HALF * saved) + GELU_DENSITY * saved * expf(-0.5f * saved * saved);
    }
    if constexpr (FUNCTION == GELU_TANH) {
        const float square = saved * saved, v = 2.0f * GELU_ROOT * (saved + GELU_CUBE * saved * square);
        const float rise = 2.0f * GELU_ROOT * (1.0f + 3.0f * GELU_CUBE * square);
        return (1.0f + saved / (1.0f + expf(v)) * rise) / (1.0f + expf(-v));
    }
    if constexpr (FUNCTION == SILU) return (1.0f + saved / (1.0f + expf(saved))) / (1.0f + expf(-saved));
}

// Gradient of x from g, the gradient of f(x).
template <int FUNCTION>
__device__ __forceinline__ float through(float g, float x, float slope) {
    if constexpr (FUNCTION == IDENTITY) return g;
    else if constexpr (FUNCTION == RELU) return x > 0.0f ? g : 0.0f;
    else if constexpr (READS_OUTPUT<FUNCTION>) {
        return derivative<FUNCTION>(value<FUNCTION>(x, slope), slope) * g;
    } else {
        return derivative<FUNCTION>(x, slope) * g;
    }
}
