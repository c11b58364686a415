// ReLU and 2 x 2 pool of the kernels that write a convolution, applied to the four numbers of a window.
#pragma once
#include "nan.cuh"

// A number, and its index among the four of a window: (0, 0), (0, 1), (1, 0), (1, 1).
struct Best {
    float value;
    int place;
};

// Largest of four neighbouring numbers, the first among equals; with a NaN any index.
__device__ __forceinline__ Best best_of(const float* four) {
    const float upper = larger(four[0], four[1]), lower = larger(four[2], four[3]);
    const int above = four[1] > four[0] ? 1 : 0, below = four[3] > four[2] ? 3 : 2;
    return {larger(upper, lower), lower > upper ? below : above};
}

// Argmax index of a window after a ReLU: 4, no pixel, if the largest is not above 0.
__device__ __forceinline__ unsigned place_of(const Best& best) { return best.value > 0.0f ? best.place : 4; }

// Stores the window's output in y, and its argmax index in argmax, unless null.
__device__ __forceinline__ void store_best(const Best& best, float* y, unsigned char* argmax, long long target) {
    y[target] = relu(best.value);
    if (argmax != nullptr) argmax[target] = static_cast<unsigned char>(place_of(best));
}
