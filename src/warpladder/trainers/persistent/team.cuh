// The blocks that train together, and how they wait for each other.
#pragma once
#include "sync.cuh"

// GRID: all blocks of the grid, which count their arrivals in `arrived` (1,), zero before the launch; otherwise the
// blocks of one cluster. A wait is two calls, arrive() after a block's results are written, and wait() before it needs
// those of others: what lies between costs nothing while others are late.
template <bool GRID>
struct Team {
    int block, blocks;
    unsigned* arrived;
    unsigned target = 0;

    __device__ explicit Team(unsigned* count) : block(blockIdx.x), blocks(gridDim.x), arrived(count) {}

    __device__ __forceinline__ void arrive() {
#ifndef __CUDA_EMU__
        if constexpr (GRID) {
            __syncthreads();
            if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
            target += blocks;
        } else {
#if __CUDA_ARCH__ >= 900
            asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
        }
#endif
    }

    __device__ __forceinline__ void wait() {
#ifdef __CUDA_EMU__
        if constexpr (GRID) grid_sync();
        else cluster_sync();
#else
        if constexpr (GRID) {
            // as a difference, for the count may pass 2^32
            if (threadIdx.x == 0)
                while (static_cast<int>(load_acquire(arrived) - target) < 0) {
                }
            __syncthreads();
        } else {
#if __CUDA_ARCH__ >= 900
            asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
        }
#endif
    }

    __device__ __forceinline__ void meet() {
        arrive();
        wait();
    }

    // Number the blocks anew after a phase of this many tiles: the next phase before the same wait begins with a block
    // that has fewer of them.
    __device__ __forceinline__ void passed(int tiles) { block = (block + blocks - tiles % blocks) % blocks; }
};
