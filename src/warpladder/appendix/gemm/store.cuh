// Store of a product by tensor cores: a lane writes its numbers of a fragment of C.
#pragma once

// d is the lane's share of 16 x 8 numbers of c (m, n) at (row, column): two neighbours of row lane / 4, and two of the
// row 8 below.
__device__ __forceinline__ void store_fragment(float* c, const float (&d)[4], int row, int column, int m, int n) {
    const int lane = threadIdx.x % 32;
    column += lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int here = row + lane / 4 + 8 * half;
        float* to = c + (long long)here * n + column;
        if (here >= m || column >= n) continue;
        if (n % 2 == 0) {  // then both are there, at an address that 8 divides
            *reinterpret_cast<float2*>(to) = make_float2(d[2 * half], d[2 * half + 1]);
        } else {
            to[0] = d[2 * half];
            if (column + 1 < n) to[1] = d[2 * half + 1];
        }
    }
}
