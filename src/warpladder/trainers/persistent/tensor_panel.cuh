// Factor of a product on tensor cores: its pieces, which the copy engine brings, and their numbers as two in tf32.
#pragma once
#include "bulk.cuh"
#include "mma.cuh"

constexpr int TERMS = 32;  // numbers of k in a piece: rows of 128 bytes

#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900  // the copy engine

// Factor's part of a piece in shared memory: LINES rows of the product by TERMS numbers of k, in tiles of the copy
// engine (bulk.cuh): rows of 128 bytes along k with K_INSIDE, else along 32 lines, one tile after the other.
template <int LINES, bool K_INSIDE>
struct TensorPanel {
    static constexpr int TILES = K_INSIDE ? 1 : (LINES + 31) / 32, SIZE = K_INSIDE ? LINES * TERMS : TILES * 32 * TERMS;

    // Request the piece from k0 on of the lines from line0 on. Numbers beyond the matrix are zeros.
    static __device__ __forceinline__ void request(
        float* panel, const TensorMap* map, int line0, int k0, Barrier* barrier
    ) {
        barrier_expect(barrier, SIZE * sizeof(float));
        if constexpr (K_INSIDE) copy_tile(panel, *map, k0, line0, barrier);
        else
            for (int i = 0; i < TILES; ++i) copy_tile(panel + i * 32 * TERMS, *map, line0 + 32 * i, k0, barrier);
    }

    // Places in a panel of a lane's first four numbers of 16 rows from `line` on, a multiple of 16: of row lane / 4 or
    // eight rows further, and of k = lane % 4 or four further. With K_INSIDE the first is an address for load_matrices.
    // TURNED: k in another order, in which no two lanes read one bank.
    template <bool TURNED>
    static __device__ __forceinline__ void find(int (&at)[2][2], int line) {
        const int lane = threadIdx.x % 32;
        if constexpr (K_INSIDE) {
            at[0][0] = (line + lane % 16) * TERMS, at[0][1] = lane / 16 ^ lane % 8;
        } else {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int k = TURNED ? lane % 4 * 2 + half : lane % 4 + 4 * half;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int row = line % 32 + lane / 4 + 8 * i;
                    at[i][half] = line / 32 * 32 * TERMS + k * 32 + (row / 4 ^ k) * 4 + row % 4;
                }
            }
        }
    }

    // Eight numbers of k of a piece, number `step` of four, of which `left` count: word (row / 8, k / 4) of a lane.
    template <bool TURNED>
    static __device__ __forceinline__ void read(
        unsigned (&word)[2][2], const float* panel, const int (&at)[2][2], int step, int left
    ) {
        if constexpr (K_INSIDE) {
            unsigned four[4];
            load_matrices(four, panel + at[0][0] + (at[0][1] ^ 2 * step) * 4);
            word[0][0] = four[0], word[1][0] = four[1], word[0][1] = four[2], word[1][1] = four[3];
        } else {
            const int lane = threadIdx.x % 32;
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int k = TURNED ? lane % 4 * 2 + half : lane % 4 + 4 * half;
                    const unsigned found = __float_as_uint(panel[at[i][half] + step * 8 * 32]);
                    word[i][half] = left >= 8 || k < left ? found : 0u;
                }
        }
    }
};

// A float as two numbers in tf32: its words become high, the rests low. Bits that tensor cores drop are zeros in high.
template <int COUNT>
__device__ __forceinline__ void split(unsigned (&word)[COUNT], unsigned (&low)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const float x = __uint_as_float(word[i]);
        word[i] = (word[i] + 0x1000u) & 0xFFFFE000u;
        low[i] = __float_as_uint(x - __uint_as_float(word[i]));
    }
}

#endif
