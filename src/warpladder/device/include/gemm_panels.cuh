// Panels of plain matrices for gemm.cuh: each copies BK x X numbers of a matrix to shared memory, k the slow axis.
//
// Numbers beyond the matrix are zeros: no tile is a special case.
#pragma once
#include "gemm.cuh"

// Number (k, x) is source[k * pitch + x]: neighbours in x are neighbours in memory. WIDTH (1 or 4) are copied at a
// time; with 4, source and pitch are multiples of 4 floats.
template <class T, int X, int WIDTH>
struct AcrossPanel {
    static constexpr int LANES = X / WIDTH < T::THREADS ? X / WIDTH : T::THREADS, ROWS = T::THREADS / LANES,
        PITCH = X + 4;
    static_assert(T::THREADS % LANES == 0 && X % (LANES * WIDTH) == 0 && (T::BK % ROWS == 0 || ROWS % T::BK == 0),
        "threads keep to columns");
    const float* source;
    long long pitch;
    int left;   // rows from this thread's first one to the end
    int count;  // columns from this thread's first one to the end
    int target;

    // The panel's first number is (k, x); the matrix has k_end rows and x_end columns.
    __device__ __forceinline__ AcrossPanel(const float* matrix, int pitch_, int k, int k_end, int x, int x_end) {
        const int row = threadIdx.x / LANES, column = threadIdx.x % LANES * WIDTH;
        pitch = pitch_;
        source = matrix + (k + row) * pitch + (x + column);
        left = k_end - k - row;
        count = x_end - x - column;
        target = row * PITCH + column;
    }
    __device__ __forceinline__ void fetch(float* shared) {
        if (ROWS > T::BK && target >= T::BK * PITCH) return;  // more threads than numbers
#pragma unroll
        for (int r = 0; r < T::BK; r += ROWS)
#pragma unroll
            for (int c = 0; c < X; c += LANES * WIDTH) {
                if (WIDTH == 4)
                    copy_sixteen(shared + target + r * PITCH + c, source + r * pitch + c, r < left
                        ? max(0, min(4, count - c)) : 0);
                else copy_float(shared + target + r * PITCH + c, source + r * pitch + c, r < left && c < count);
            }
        source += T::BK * pitch;
        left -= T::BK;
    }
};

// Number (k, x) is source[x * pitch + k]: neighbours in k are neighbours in memory, and the copy transposes.
// A warp copies 8 k of 4 x: whole sectors of 32 bytes are read, and 32 banks written.
template <class T, int X>
struct AlongPanel {
    static constexpr int ROWS = T::THREADS / 8, PITCH = X + 4;
    static_assert(X % ROWS == 0 || ROWS % X == 0, "every thread copies the same number of rows");
    const float* source;
    long long spacing;  // floats between a thread's rows
    int left;         // k from this thread's first one to the end
    int count;        // rows from this thread's first one to the end
    int target;

    __device__ __forceinline__ AlongPanel(const float* matrix, int pitch, int k, int k_end, int x, int x_end) {
        const int row = threadIdx.x / 8, column = threadIdx.x % 8;
        spacing = static_cast<long long>(pitch) * ROWS;
        source = matrix + static_cast<long long>(x + row) * pitch + (k + column);
        left = k_end - k - column;
        count = x_end - x - row;
        target = column * PITCH + row;
    }
    __device__ __forceinline__ void fetch(float* shared) {
        if (ROWS > X && static_cast<int>(threadIdx.x) >= 8 * X) return;  // more threads than numbers
#pragma unroll
        for (int k = 0; k < T::BK; k += 8)
#pragma unroll
            for (int x = 0; x < X; x += ROWS)
                copy_float(shared + target + k * PITCH + x, source + x / ROWS * spacing + k, k < left && x < count);
        source += T::BK;
        left -= T::BK;
    }
};

// A panel for A and one for B.
template <class A, class B>
struct Panels {
    A a;
    B b;
    __device__ __forceinline__ void fetch(float* to_a, float* to_b) {
        a.fetch(to_a);
        b.fetch(to_b);
    }
};
