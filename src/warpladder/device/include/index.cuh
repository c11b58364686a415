// Index of the number of an array that a thread computes.
//
// A launch over a flat array has one thread for each number, along x. A launch over samples has one thread for each
// number of a sample along x, and samples along y: an index within a sample fits 32 bits, where division is cheap.
#pragma once

// A thread's number along x. 64 bits: a batch may hold more than 2^31 numbers.
__device__ inline long long thread_number() { return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; }

// First number of a sample in a batch of samples of this size.
__device__ inline long long start(int sample, int size) { return static_cast<long long>(sample) * size; }

// Pixel's channel, row and column in an image.
struct Pixel {
    int channel, row, column;
};

// Channel, row and column of number `index` of an image (channels, height, width).
__device__ inline Pixel pixel(int index, int height, int width) {
    const int line = index / width;
    return {line / height, line % height, index % width};
}
