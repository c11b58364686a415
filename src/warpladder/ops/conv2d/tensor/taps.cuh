// Where the taps of a convolution by warpgroup products read: a window of 3 x 3 with a pixel of padding, alone or
// after an upsampling of the image by 2.
#pragma once

//   WINDOW    Without an upsampling: 3 x 3 pixels around the written one.
//   UPSAMPLED  y of an upsampled layer. The upsampled image is never there: rows 2 r and 2 r + 1 of y meet three
// upsampled rows, which are two of the small image.
//                 row 2 r       w0 x[r - 1] + (w1 + w2) x[r]        row 2 r + 1       (w0 + w1) x[r] + w2 x[r + 1]
//             Columns likewise. So the pixels (2 r + p, 2 q + s) of y are a class, number 2 p + s, with 2 x 2 taps from
// small pixel (r + p - 1, q + s - 1) on.
//   GATHERED  dx and dw of an upsampled layer: small pixel (r, q) meets 4 x 4 pixels of dy, from (2 r - 1, 2 q - 1) on.
// Every class of dy's pixels lies as an
//             image of its own, number 4 image + class, so that squares of a class are squares.
// All of an upsampled layer's weights are the 4 x 4 kernel of folded.cuh, whose number (i, j) dy's pixel (2 r - 1 + i,
// 2 q - 1 + j) meets.
enum { WINDOW = 0, UPSAMPLED = 1, GATHERED = 2 };

struct Taps {
    int kind;
    // of written pixels, each with its own weights
    __device__ __forceinline__ int classes() const { return kind == UPSAMPLED ? 4 : 1; }
    __device__ __forceinline__ int side() const { return kind == WINDOW ? 3 : kind == UPSAMPLED ? 2 : 4; }
    __device__ __forceinline__ int count() const { return side() * side(); }

    // Along one axis, tap `at` of `side` for `half` of a class, its p or its s (0 without classes): how many pixels
    // from the written one it reads.
    __device__ __forceinline__ int far(int at, int half) const {
        return kind == GATHERED ? (at + 1) / 2 - 1 : at + half - 1; }
    // Likewise, which row or column of the weights it meets.
    __device__ __forceinline__ int number(int at, int half) const { return kind == UPSAMPLED ? 3 - half - 2 * at : at; }
    // Which of the images that are read tap (i, j) reads for the written image `image`: dy's row 2 r - 1 + i is odd
    // where i is even.
    __device__ __forceinline__ int image(int image, int i, int j) const {
        return kind == GATHERED ? 4 * image + (i + 1) % 2 * 2 + (j + 1) % 2 : image; }
};

// Where a pixel of an image of `plane` pixels and `columns` columns, both even numbers of rows and columns, stands
// among all when they are put by their class.
__device__ __forceinline__ int by_class(int row, int column, int plane, int columns) {
    return (row % 2 * 2 + column % 2) * (plane / 4) + row / 2 * (columns / 2) + column / 2;
}
