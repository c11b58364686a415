// Tensor cores and what feeds them: copies that run ahead, fragments of every kind, steps whose sums are cut off.
#include "async.cuh"
#include "mma.cuh"

constexpr int N = 64;

// Three stages in a ring: two are under way while one is read, and the last groups are empty.
extern "C" __global__ void ring(const float* x, float* y, int steps) {
    __shared__ __align__(16) float stages[3][4 * N];
    const int t = threadIdx.x;
    for (int stage = 0; stage < 2; ++stage) {
        if (stage < steps) copy_sixteen(stages[stage] + 4 * t, x + stage * 4 * N + 4 * t, 4);
        commit_copies();
    }
    float sum = 0.0f;
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<1>();
        __syncthreads();
        const int next = step + 2;
        if (next < steps) copy_sixteen(stages[next % 3] + 4 * t, x + next * 4 * N + 4 * t, 4);
        commit_copies();
        sum += stages[step % 3][4 * N - 1 - t];
    }
    y[t] = sum;
}

// Copies of fewer numbers than sixteen bytes hold, of single floats, and one that only its own thread reads.
extern "C" __global__ void pieces(const float* x, float* y, int n) {
    __shared__ __align__(16) float tile[4 * N], own[N];
    const int t = threadIdx.x;
    copy_sixteen(tile + 4 * t, x + 4 * t, max(0, min(4, n - 4 * t)));
    copy_float(own + t, x + t, t < n);
    commit_copies();
    wait_for_copies<0>();
    y[4 * N + t] = own[t];
    __syncthreads();
    for (int i = t; i < 4 * N; i += N) y[i] = tile[4 * N - 1 - i];
}

// Rows of 8 numbers of 16 bits, as each lane gets them: of 1, 2 and 4 matrices, straight and turned.
extern "C" __global__ void fragments(const unsigned short* x, unsigned* y) {
    __shared__ __align__(16) unsigned short rows[32][8];
    const int t = threadIdx.x;
    for (int i = 0; i < 8; ++i) rows[t][i] = x[8 * t + i];
    __syncwarp();
    unsigned one[1], two[2], four[4];
    load_matrices(one, t < 8 ? rows[t] : nullptr);
    y[t] = one[0];
    load_matrices_turned(two, rows[t % 16]);
    y[32 + t] = two[0], y[64 + t] = two[1];
    load_matrices(four, rows[t]);
    for (int i = 0; i < 4; ++i) y[96 + 32 * i + t] = four[i];
    load_matrices_turned(four, rows[t]);
    for (int i = 0; i < 4; ++i) y[224 + 32 * i + t] = four[i];
}

// d (16, 8) += a (16, 16) b (8, 16) turned, words of two numbers each; KIND 0 half, 1 bf16. a (16, 8) b (8, 8) of
// floats with KIND 2, tf32.
template <int KIND>
__global__ void step(const unsigned* a, const unsigned* b, float* d) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float sum[4];
    unsigned left[4], right[2];
    for (int i = 0; i < 4; ++i) left[i] = a[(g + 8 * (i & 1)) * 8 + t + 4 * (i >> 1)];
    for (int i = 0; i < 2; ++i) right[i] = b[g * 8 + t + 4 * i];
    for (int i = 0; i < 4; ++i) sum[i] = d[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)];
    if (KIND == 0) mma_half(sum, left, right);
    if (KIND == 1) mma_bf16(sum, left, right);
    if (KIND == 2) mma_tf32(sum, left, right);
    for (int i = 0; i < 4; ++i) d[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)] = sum[i];
}

extern "C" __global__ void packed(const float* x, unsigned* brain, unsigned* half, float* back) {
    const int i = threadIdx.x;
    brain[i] = two_bf16(x[2 * i], x[2 * i + 1]);
    half[i] = two_halves(x[2 * i], x[2 * i + 1]);
    back[2 * i] = low_half(half[i]);
    back[2 * i + 1] = high_half(half[i]);
}
