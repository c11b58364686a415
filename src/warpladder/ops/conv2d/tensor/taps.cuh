// Taps of a convolution by warpgroup products: windows of 3 x 3 with a pixel of padding, also after an upsampling by 2.
#pragma once

//   WINDOW     without an upsampling: 3 x 3 pixels around the written one.
//   UPSAMPLED  y of an upsampled layer. The upsampled image is never stored: rows 2 r and 2 r + 1 of y read three
//              upsampled rows, which are two of the small image.
//                  row 2 r       w0 x[r - 1] + (w1 + w2) x[r]        row 2 r + 1       (w0 + w1) x[r] + w2 x[r + 1]
//              Columns likewise. So the pixels (2 r + p, 2 q + s) of y are a class, number 2 p + s, with 2 x 2 taps
//              from small pixel (r + p - 1, q + s - 1) on.
//   GATHERED   dx and dw of an upsampled layer: small pixel (r, q) reads 4 x 4 pixels of dy, from (2 r - 1, 2 q - 1)
//              on. Every class of dy's pixels is stored as a separate image, number 4 image + class, so that squares
//              of a class are squares.
// An upsampled layer's weights are the 4 x 4 kernel of folded.cuh; (i, j) multiplies dy's pixel (2 r - 1 + i, 2 q - 1 +
// j).
enum { WINDOW = 0, UPSAMPLED = 1, GATHERED = 2 };

struct Taps {
    int kind;
    // of written pixels, each with its own weights
    __device__ __forceinline__ int classes() const { return kind == UPSAMPLED ? 4 : 1; }
    __device__ __forceinline__ int side() const { return kind == WINDOW ? 3 : kind == UPSAMPLED ? 2 : 4; }
    __device__ __forceinline__ int count() const { return side() * side(); }

    // Distance of a tap's pixel from the written one along one axis, for `half` of a class, its p or s (or 0).
    __device__ __forceinline__ int far(int at, int half) const {
        return kind == GATHERED ? (at + 1) / 2 - 1 : at + half - 1; }
    // Row or column of the weights that a tap reads.
    __device__ __forceinline__ int number(int at, int half) const { return kind == UPSAMPLED ? 3 - half - 2 * at : at; }
    // Image that tap (i, j) reads for the written image: dy's row 2 r - 1 + i is odd where i is even.
    __device__ __forceinline__ int image(int image, int i, int j) const {
        return kind == GATHERED ? 4 * image + (i + 1) % 2 * 2 + (j + 1) % 2 : image; }
};

// Place of a pixel of an image of `plane` pixels, with even rows and columns, if pixels are sorted by class.
__device__ __forceinline__ int by_class(int row, int column, int plane, int columns) {
    return (row % 2 * 2 + column % 2) * (plane / 4) + row / 2 * (columns / 2) + column / 2;
}
