// Block of `convolve` (product.cu): its size, its tile, and its operations on sums.
#pragma once
#include "tensor_pixels.cuh"

// Operation on a sum. The last two leave it to add_parts of gemm.cu, for split sums, POOLED_PARTS by windows.
enum { PLAIN = 0, RELU = 1, POOL = 2, PARTS = 3, POOLED_PARTS = 4 };

// Tile of a block: outputs from o0 on, class, its axes and pixels, and the first pixel of the tile.
struct Where {
    Axis down, along;
    int o0, phase, high, wide, row0, column0, image0;
};

// of a block: warps, pixels, and panels that shared memory has space for
constexpr int WARPS = 4, PIXELS = 128, RING = 3;
