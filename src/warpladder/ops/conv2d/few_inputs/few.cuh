// Registers of a thread in a convolution of few inputs (colours) and stride 1: pixels read by 2 x 2 pixels of an
// output. x: (n, C, h, w). w: (o, C, K, K). b: (o,). y: (n, o, oh, ow), or after a 2 x 2 pool (n, o, oh / 2, ow / 2).
#pragma once
#include "gemm_patches.cuh"
#include "nan.cuh"
#include "pooled.cuh"

// Operations after a convolution in its kernel: none, a ReLU, or a ReLU and a 2 x 2 pool.
enum { PLAIN = 0, RELU = 1, POOL = 2 };

constexpr int OUTPUTS = 64;  // of a block, at most

// Weights and biases of a block's outputs, in shared memory.
template <int C, int K>
struct FewWeights {
    static constexpr int WEIGHTS = C * K * K, PITCH = (WEIGHTS + 3) / 4 * 4;
    float4 weights4[OUTPUTS * PITCH / 4];
    float biases[OUTPUTS];

    // Copies the weights and biases of `count` outputs, from output `first` on; by all threads of a block.
    __device__ __forceinline__ void bring(const float* w, const float* b, int first, int count) {
        float* weights = reinterpret_cast<float*>(weights4);
        for (int t = threadIdx.x; t < count * PITCH; t += blockDim.x)
            weights[t] = t % PITCH < WEIGHTS ? w[(first + t / PITCH) * WEIGHTS + t % PITCH] : 0.0f;
        for (int t = threadIdx.x; t < count; t += blockDim.x) biases[t] = b[first + t];
        __syncthreads();
    }
};

template <int C, int K>
struct FewSeen {
    static constexpr int SIDE = K + 1;
    float seen[C][SIDE][SIDE];

    // Loads the pixels that the 2 x 2 window `at` reads.
    __device__ __forceinline__ FewSeen(const float* x, Place2d at, int h, int width, int padding) {
#pragma unroll
        for (int channel = 0; channel < C; ++channel)
#pragma unroll
            for (int i = 0; i < SIDE; ++i)
#pragma unroll
                for (int j = 0; j < SIDE; ++j) {
                    const int row = 2 * at.row - padding + i, column = 2 * at.column - padding + j;
                    const bool inside = row >= 0 && row < h && column >= 0 && column < width;
                    seen[channel][i][j] = inside
                        ? x[((static_cast<long long>(at.image) * C + channel) * h + row) * width + column] : 0.0f;
                }
    }

    // Sums of the four pixels of one output.
    __device__ __forceinline__ void sums(float (&sum)[4], const FewWeights<C, K>& of, int output) const {
        constexpr int WEIGHTS = FewWeights<C, K>::WEIGHTS, FOURS = FewWeights<C, K>::PITCH / 4;
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[e] = of.biases[output];
#pragma unroll
        for (int four = 0; four < FOURS; ++four) {
            const float4 some = of.weights4[output * FOURS + four];
            const float each[4] = {some.x, some.y, some.z, some.w};
#pragma unroll
            for (int t = 4 * four; t < 4 * four + 4 && t < WEIGHTS; ++t)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    sum[e] = fmaf(each[t % 4], seen[t / (K * K)][t / K % K + e / 2][t % K + e % 2], sum[e]);
        }
    }
};
