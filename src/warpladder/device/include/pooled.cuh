// The ReLU and 2 x 2 pool of the kernels that write a convolution, applied to the four numbers of a window.
#pragma once
#include "nan.cuh"

// A number, and its place among the four of a window: (0, 0), (0, 1), (1, 0), (1, 1).
struct Best {
    float value;
    int place;
};

// The largest of four neighbouring numbers, the first among equals; of a NaN any place.
__device__ __forceinline__ Best best_of(const float* four) {
    const float upper = larger(four[0], four[1]), lower = larger(four[2], four[3]);
    const int above = four[1] > four[0] ? 1 : 0, below = four[3] > four[2] ? 3 : 2;
    return {larger(upper, lower), lower > upper ? below : above};
}

// The place that a window's gradient goes back to after a ReLU: 4 where the largest is not above 0, and none does.
__device__ __forceinline__ unsigned place_of(const Best& best) { return best.value > 0.0f ? best.place : 4; }

// y becomes the window's output, and argmax the place that the gradient goes back to.
// argmax may be null: then it is not stored.
__device__ __forceinline__ void store_best(const Best& best, float* y, unsigned char* argmax, long long target) {
    y[target] = relu(best.value);
    if (argmax != nullptr) argmax[target] = static_cast<unsigned char>(place_of(best));
}
