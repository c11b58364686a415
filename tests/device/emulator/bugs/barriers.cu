// Barriers that not all threads of a block reach, or not the same one.

// Inside of the guard: the rows beyond the end do not come.
extern "C" __global__ void barrier_in_a_branch(const float* x, float* y, int rows) {
    __shared__ float kept[8][8];
    int column = threadIdx.x, row = threadIdx.y;
    kept[row][column] = x[row * 8 + column];
    if (row < rows) {
        __syncthreads();  // <-
        y[row * 8 + column] = kept[row][7 - column];
    }
}

// Threads without work leave, and the others wait.
extern "C" __global__ void early_return(const float* x, float* y, int n) {
    __shared__ float kept[64];
    int t = threadIdx.x;
    if (t >= n) return;
    kept[t] = x[t];
    __syncthreads();  // <-
    y[t] = kept[n - 1 - t];
}

// Two barriers, one for each half.
extern "C" __global__ void two_barriers(const float* x, float* y) {
    __shared__ float kept[64];
    int t = threadIdx.x;
    kept[t] = x[t];
    if (t < 32) {
        __syncthreads();  // <-
    } else {
        __syncthreads();  // <-
    }
    y[t] = kept[63 - t];
}

// Each thread goes on as long as its own number is large: some count once more often.
extern "C" __global__ void uneven_counts(const int* x, int* y) {
    int t = threadIdx.x, rounds = 0;
    for (int left = x[t]; left > 0; --left) rounds += __syncthreads_count(left > 1);  // <-
    y[t] = rounds;
}

// The whole grid waits in a launch that does not run it at once.
#include "sync.cuh"
extern "C" __global__ void grid_too_hasty(float* x) {
    x[blockIdx.x] = 1.0f;
    grid_sync();  // <-
}
