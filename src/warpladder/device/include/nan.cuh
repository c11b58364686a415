// Functions that propagate NaN: a comparison that drops a NaN hides that training has diverged.
#pragma once

// ReLU max(x, 0), NaN for NaN.
__device__ inline float relu(float x) { return x < 0.0f ? 0.0f : x; }

// Clipping of x to [-limit, limit], NaN for NaN.
__device__ inline float clip(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

// True if x replaces the maximum so far: it is larger, or the first NaN.
__device__ inline bool beats(float x, float best) { return x > best || (x != x && best == best); }

// Larger of two numbers, NaN if one of them is.
__device__ inline float larger(float x, float y) {
#if !defined(__CUDA_EMU__) && __CUDA_ARCH__ >= 800
    float found;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(found) : "f"(x), "f"(y));
    return found;
#else
    return x > y || x != x ? x : y;
#endif
}
