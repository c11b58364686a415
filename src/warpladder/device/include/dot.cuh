// Sums of products in a fixed order.
#pragma once

// The sum of a[t * a_step] * b[t * b_step], t = 0 ... n - 1, in four interleaved chains, to hide latency.
__device__ inline float dot_row(const float* a, long long a_step, const float* b, long long b_step, int n) {
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    int t = 0;
#pragma unroll 2
    for (; t + 4 <= n; t += 4) {
        s0 += a[0] * b[0];
        s1 += a[a_step] * b[b_step];
        s2 += a[2 * a_step] * b[2 * b_step];
        s3 += a[3 * a_step] * b[3 * b_step];
        a += 4 * a_step;
        b += 4 * b_step;
    }
    for (; t < n; ++t) {
        s0 += a[0] * b[0];
        a += a_step;
        b += b_step;
    }
    return (s0 + s1) + (s2 + s3);
}

// Three terms, without a loop.
__device__ inline float dot_3(const float* a, int a_step, const float* b, int b_step) {
    return a[0] * b[0] + a[a_step] * b[b_step] + a[2 * a_step] * b[2 * b_step];
}

// The sum of a[p * a_plane + i * a_row + j * a_step] * b[p * b_plane + i * b_row + j * b_step] over p < planes, i <
// rows, j < columns: windows of channels times those of a filter. Rows are summed, then windows, then channels. The
// usual 3 x 3 is written out: loops of three steps cost more than their bodies.
__device__ inline float dot_windows(const float* a, int a_plane, int a_row, int a_step, const float* b, int b_plane,
    int b_row, int b_step, int planes, int rows, int columns) {
    float sum = 0.0f;
    if (rows == 3 && columns == 3) {
        for (int p = 0; p < planes; ++p) {
            sum += dot_3(a, a_step, b, b_step) + dot_3(a + a_row, a_step, b + b_row, b_step)
                + dot_3(a + 2 * a_row, a_step, b + 2 * b_row, b_step);
            a += a_plane;
            b += b_plane;
        }
        return sum;
    }
    for (int p = 0; p < planes; ++p) {
        float window = 0.0f;
        for (int i = 0; i < rows; ++i) {
            float row = 0.0f;
            for (int j = 0; j < columns; ++j) row += a[i * a_row + j * a_step] * b[i * b_row + j * b_step];
            window += row;
        }
        sum += window;
        a += a_plane;
        b += b_plane;
    }
    return sum;
}

// For long sums: parts of 1,024 terms are added, so that the rounding errors of 60,000 terms stay small.
__device__ inline float dot(const float* a, long long a_step, const float* b, long long b_step, int n) {
    constexpr int PART = 1024;
    float sum = 0.0f;
    for (int t = 0; t < n; t += PART) {
        const int part = n - t < PART ? n - t : PART;
        sum += dot_row(a + t * a_step, a_step, b + t * b_step, b_step, part);
    }
    return sum;
}
