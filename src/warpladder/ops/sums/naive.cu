// Sums along one axis of a matrix (rows, columns), one thread for each sum, each in the order of its terms.
#include "index.cuh"

// out[r] = sum over c of a[r, c]. Each thread reads a separate row; neighbours share no cache line, L1 holds the lines.
extern "C" __global__ void sum_rows(const float* __restrict__ a, float* __restrict__ out, long long rows, int columns) {
    const long long row = thread_number();
    if (row >= rows) return;
    const float* line = a + row * columns;
    float sum = 0.0f;
    for (int column = 0; column < columns; ++column) sum += line[column];
    out[row] = sum;
}

// out[s, c] = sum over the rows of partial s, from s * partial on, of a[r, c]. Reads are coalesced.
extern "C" __global__ void sum_columns(const float* __restrict__ a, float* __restrict__ out, int columns, int rows,
    int partial, int partials) {
    const int column = thread_number();
    if (column >= columns) return;
    for (int s = blockIdx.y; s < partials; s += gridDim.y) {
        const int first = s * partial, last = rows - first < partial ? rows : first + partial;
        float sum = 0.0f;
#pragma unroll 8
        for (int row = first; row < last; ++row) sum += a[start(row, columns) + column];
        out[start(s, columns) + column] = sum;
    }
}
