// Ring of stages in shared memory, filled by asynchronous copies of whole pieces of memory.
//
// From sm_90 on the copy engine copies: one thread requests a piece of any size, and a barrier in shared memory
// (mbarrier) counts the bytes. Before sm_90 and in the emulator all threads copy 16 bytes each (async.cuh), with
// instructions of the unit that also reads fragments from shared memory.
//
// In a step all threads call `wait` and then __syncthreads(), which frees the stage of the previous step; then, for the
// step STAGES - 1 later, `begin`, `bring` for each piece, and `end`, also if there is no such step.
#pragma once
#include "async.cuh"
#include "bulk.cuh"

#if !defined(__CUDA_EMU__) && __CUDA_ARCH__ >= 900
#define COPY_ENGINE 1
#endif

template <int STAGES, int THREADS>
struct Pieces {
#ifdef COPY_ENGINE
    Barrier* barriers;  // in shared memory, one for each stage

    __device__ __forceinline__ explicit Pieces(Barrier* all) : barriers(all) {
        if (threadIdx.x == 0) {
            for (int stage = 0; stage < STAGES; ++stage) barrier_init(&barriers[stage], 1);
            barriers_ready();
        }
        __syncthreads();
    }
    // Begins the pieces of step `step`, of `bytes` bytes in all.
    __device__ __forceinline__ void begin(int step, int bytes) const {
        if (threadIdx.x == 0) barrier_expect(&barriers[step % STAGES], bytes);
    }
    // Copies COUNT words of 4 bytes, a multiple of 4, at addresses that are multiples of 16.
    template <int COUNT, typename T>
    __device__ __forceinline__ void bring(int step, T* to, const T* from) const {
        if (threadIdx.x == 0) copy_piece(to, from, 4 * COUNT, &barriers[step % STAGES]);
    }
    __device__ __forceinline__ void end() const {}
    // Waits until all pieces of step `step` have arrived.
    __device__ __forceinline__ void wait(int step) const { barrier_wait(&barriers[step % STAGES], step / STAGES % 2); }
#else
    __device__ __forceinline__ explicit Pieces(Barrier*) {}
    __device__ __forceinline__ void begin(int, int) const {}
    template <int COUNT, typename T>
    __device__ __forceinline__ void bring(int, T* to, const T* from) const {
#pragma unroll
        for (int i = threadIdx.x * 4; i < COUNT; i += THREADS * 4) copy_sixteen(to + i, from + i, 4);
    }
    __device__ __forceinline__ void end() const { commit_copies(); }  // also where there is nothing: waits count groups
    __device__ __forceinline__ void wait(int) const { wait_for_copies<STAGES - 2>(); }
#endif
};
