// Copies that are used before they have arrived, and instructions of a whole warp that not all of it calls.
#include "async.cuh"
#include "mma.cuh"

constexpr int N = 64;

// The barrier orders threads. It waits for no copy.
extern "C" __global__ void no_wait(const float* x, float* y) {
    __shared__ __align__(16) float tile[4 * N];
    int t = threadIdx.x;
    copy_sixteen(tile + 4 * t, x + 4 * t, 4);  // <-
    commit_copies();
    __syncthreads();
    y[t] = tile[4 * N - 1 - t];  // <-
}

// Two stages are under way, and the first is read when at most two may be: one too many.
extern "C" __global__ void waits_for_too_few(const float* x, float* y, int steps) {
    __shared__ __align__(16) float ring[2][4 * N];
    int t = threadIdx.x;
    for (int stage = 0; stage < 2; ++stage) {
        copy_sixteen(ring[stage] + 4 * t, x + stage * 4 * N + 4 * t, 4);  // <-
        commit_copies();
    }
    float sum = 0.0f;
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<2>();
        __syncthreads();
        sum += ring[step % 2][4 * N - 1 - t];  // <-
        __syncthreads();
        if (step + 2 < steps) copy_sixteen(ring[step % 2] + 4 * t, x + (step + 2) * 4 * N + 4 * t, 4);  // <-
        commit_copies();
    }
    y[t] = sum;
}

// What is in no group is waited for by nobody.
extern "C" __global__ void no_commit(const float* x, float* y) {
    __shared__ __align__(16) float tile[4 * N];
    int t = threadIdx.x;
    copy_sixteen(tile + 4 * t, x + 4 * t, 4);  // <-
    wait_for_copies<0>();
    __syncthreads();
    y[t] = tile[4 * t];  // <-
}

// A thread waits for its own copies; those of others need a barrier as well.
extern "C" __global__ void wait_without_barrier(const float* x, float* y) {
    __shared__ __align__(16) float tile[4 * N];
    int t = threadIdx.x;
    copy_sixteen(tile + 4 * t, x + 4 * t, 4);  // <-
    commit_copies();
    wait_for_copies<0>();
    y[t] = tile[4 * N - 1 - t];  // <-
}

// The next copy begins while others still read what it overwrites.
extern "C" __global__ void copy_begins_too_early(const float* x, float* y, int steps) {
    __shared__ __align__(16) float tile[4 * N];
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int step = 0; step < steps; ++step) {
        copy_sixteen(tile + 4 * t, x + step * 4 * N + 4 * t, 4);  // <-
        commit_copies();
        wait_for_copies<0>();
        __syncthreads();
        sum += tile[4 * N - 1 - t];  // <-
    }
    y[t] = sum;
}

extern "C" __global__ void fragment_before_its_copy(const float* x, unsigned* y) {
    __shared__ __align__(16) float room[32][4];
    int t = threadIdx.x;
    copy_sixteen(room[t], x + 4 * t, 4);  // <-
    commit_copies();
    __syncwarp();
    unsigned words[4];
    load_matrices(words, room[t]);  // <-
    y[t] = words[0] ^ words[1] ^ words[2] ^ words[3];
}

extern "C" __global__ void copy_past_the_end(const float* x, float* y) {
    __shared__ __align__(16) float tile[4 * N - 8];
    int t = threadIdx.x;
    copy_sixteen(tile + 4 * t, x + 4 * t, 4);  // <-
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    y[t] = tile[t];
}

extern "C" __global__ void copy_to_an_odd_row(const float* x, float* y) {
    __shared__ __align__(16) float tile[N][5];
    int t = threadIdx.x;
    copy_sixteen(tile[t], x + 4 * t, 4);  // <-
    commit_copies();
    wait_for_copies<0>();
    y[t] = tile[t][0];
}

// Rows of 18 bytes: each other begins where 16 does not divide.
extern "C" __global__ void fragment_from_an_odd_row(const unsigned short* x, unsigned* y) {
    __shared__ __align__(16) unsigned short rows[8][9];
    int t = threadIdx.x;
    for (int i = t; i < 72; i += 32) rows[i / 9][i % 9] = x[i];
    __syncwarp();
    unsigned words[1];
    load_matrices(words, rows[t % 8]);  // <-
    y[t] = words[0];
}

extern "C" __global__ void fragment_past_the_end(const unsigned short* x, unsigned* y) {
    __shared__ __align__(16) unsigned short rows[8][8];
    int t = threadIdx.x;
    for (int i = t; i < 64; i += 32) rows[i / 8][i % 8] = x[i];
    __syncwarp();
    unsigned words[2];
    load_matrices(words, rows[0] + 8 * (t % 16));  // <-
    y[t] = words[0] + words[1];
}

extern "C" __global__ void half_a_warp_multiplies(float* y) {
    float d[4] = {};
    const unsigned a[4] = {1, 2, 3, 4}, b[2] = {5, 6};
    if (threadIdx.x < 16) mma_bf16(d, a, b);  // <-
    y[threadIdx.x] = d[0];
}

extern "C" __global__ void a_warp_of_sixteen(float* y) {
    float d[4] = {};
    const unsigned a[4] = {1, 2, 3, 4}, b[2] = {5, 6};
    mma_half(d, a, b);  // <-
    y[threadIdx.x] = d[0];
}

// Both halves multiply, each by an instruction of its own.
extern "C" __global__ void one_in_each_branch(float* y) {
    float d[4] = {};
    const unsigned a[4] = {1, 2, 3, 4}, b[2] = {5, 6};
    if (threadIdx.x < 16) mma_tf32(d, a, b);  // <-
    else mma_tf32(d, a, b);  // <-
    y[threadIdx.x] = d[0];
}

extern "C" __global__ void rest_waits_elsewhere(float* y) {
    float d[4] = {};
    const unsigned a[4] = {1, 2, 3, 4}, b[2] = {5, 6};
    if (threadIdx.x < 16) mma_bf16(d, a, b);  // <-
    __syncthreads();  // <-
    y[threadIdx.x] = d[0];
}
