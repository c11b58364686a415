// A ring of stages in shared memory, each filled by copies of whole pieces of memory that run while the block computes.
//
// From sm_90 on the copy engine brings them: one thread asks for a piece, whatever its size, and a barrier in shared memory (mbarrier) counts the bytes that
// have arrived. Copies of 16 bytes by all threads (async.cuh), as before sm_90 and in the emulator, take an instruction each of the same unit that reads
// fragments from shared memory.
//
// In a step all threads call `wait` and then __syncthreads(), which frees the stage of the step before; then `begin`, `bring` for each piece of the step
// that comes STAGES - 1 later, and `end`, also where there is no such step any more.
#pragma once
#include "async.cuh"

#if !defined(__CUDA_EMU__) && __CUDA_ARCH__ >= 900
#define COPY_ENGINE 1
#endif

template <int STAGES, int THREADS>
struct Pieces {
#ifdef COPY_ENGINE
    unsigned barriers;  // the address in shared memory of the first stage's, 8 bytes each

    __device__ __forceinline__ explicit Pieces(unsigned long long* all) : barriers(static_cast<unsigned>(__cvta_generic_to_shared(all))) {
        if (threadIdx.x == 0) {
            for (int stage = 0; stage < STAGES; ++stage) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * stage) : "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the copy engine sees them
        }
        __syncthreads();
    }
    // The pieces of step `step` have `bytes` in all.
    __device__ __forceinline__ void begin(int step, int bytes) const {
        if (threadIdx.x == 0)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barriers + step % STAGES * 8), "r"(bytes) : "memory");
    }
    // COUNT words of 4 bytes, a multiple of 4, at addresses that 16 divides.
    template <int COUNT, typename T>
    __device__ __forceinline__ void bring(int step, T* to, const T* from) const {
        if (threadIdx.x == 0)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                             static_cast<unsigned>(__cvta_generic_to_shared(to))),
                         "l"(from), "r"(4 * COUNT), "r"(barriers + step % STAGES * 8)
                         : "memory");
    }
    __device__ __forceinline__ void end() const {}
    // Until all pieces of step `step` have arrived.
    __device__ __forceinline__ void wait(int step) const {
        const unsigned barrier = barriers + step % STAGES * 8, turn = step / STAGES % 2;
        unsigned done;
        do {
            asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(barrier), "r"(turn) : "memory");
        } while (!done);
    }
#else
    __device__ __forceinline__ explicit Pieces(unsigned long long*) {}
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
