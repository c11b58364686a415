// Halos of rectangles of pixels in shared memory, such that neighbours of any row are a product's next numbers.
//
//     a chunk of eight channels:   (0,0) (0,1) (0,2) .. (0,PART-1) (1,0) (1,1) ..      16 bytes each
//     written pixels number        0     1     2     .. PART-1     PART  ..
//
// A tap is the same from another place on. Numbers of written pixels go on over the halo's edge. With a stride pixels
// lie sorted by the parity of row and column (modulo STEP), so that neighbours in y are neighbours there.
#pragma once
#include "implicit.cuh"

// Halo of IMAGES rectangles of ROWS x COLUMNS written pixels under TAP_ROWS x K taps, in 16 bytes for eight channels of
// a pixel; and SPACE, as many pixels as products of NUMBERS written pixels read.
template <int IMAGES, int ROWS, int COLUMNS, int TAP_ROWS, int K, int S, int P, bool BACK, int NUMBERS>
struct FlatHalo {
    static constexpr int STEP = BACK ? 1 : S, LOW = BACK ? nearest(K, S, P) : -P,
        DOWN = over(BACK ? ROWS + farthest(S, P) - LOW : (ROWS - 1) * S + TAP_ROWS, STEP),
        PART = over(BACK ? COLUMNS + farthest(S, P) - LOW : (COLUMNS - 1) * S + K, STEP),
        HIGH = STEP * DOWN, WIDE = STEP * PART, IMAGE = DOWN * PART, PARITY = IMAGES * IMAGE,
        COUNT = STEP * STEP * PARITY;
    // from the first written pixel to the last one, and the farthest that a tap moves them
    static constexpr int SPAN = (IMAGES - 1) * IMAGE + (ROWS - 1) * PART + COLUMNS,
        FAR = BACK ? (DOWN - ROWS) * PART + PART - COLUMNS
            : (STEP * STEP - 1) * PARITY + (TAP_ROWS - 1) / STEP * PART + (K - 1) / STEP,
        SPACE = most(COUNT, NUMBERS + FAR);
    static_assert(SPAN <= NUMBERS);

    __device__ __forceinline__ static constexpr int at(int image, int row, int column) {
        return (row % STEP * STEP + column % STEP) * PARITY + image * IMAGE + row / STEP * PART + column / STEP; }
};
