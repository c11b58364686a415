// Copies from global to shared memory that run while the thread computes.
//
// cp.async exists since sm_80; before sm_80 a copy is synchronous, and commit and wait do nothing. In the emulator a
// copy is complete when its thread waits for it, the latest moment on a GPU.
#pragma once

#if !defined(__CUDA_EMU__) && __CUDA_ARCH__ >= 800
#define ASYNC_COPIES 1
#endif

// Copies one float; if `wanted` is false, stores 0 and reads nothing.
__device__ __forceinline__ void copy_float(float* shared, const float* global, bool wanted) {
#ifdef __CUDA_EMU__
    emu::copy<4>(shared, global, wanted ? 4 : 0);
#elif defined(ASYNC_COPIES)
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(global), "r"(wanted ? 4 : 0)
        : "memory");
#else
    *shared = wanted ? *global : 0.0f;
#endif
}

// Copies 16 bytes at addresses that are multiples of 16: the first `count` numbers are read, the others become 0.
template <typename T>
__device__ __forceinline__ void copy_sixteen(T* shared, const T* global, int count) {
#ifdef __CUDA_EMU__
    emu::copy<16>(shared, global, count * static_cast<int>(sizeof(T)));
#elif defined(ASYNC_COPIES)
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const int bytes = count * static_cast<int>(sizeof(T));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(global), "r"(bytes) : "memory");
#else
    for (int i = 0; i < 16 / static_cast<int>(sizeof(T)); ++i) shared[i] = i < count ? global[i] : T(0);
#endif
}

// Ends a group of copies.
__device__ __forceinline__ void commit_copies() {
#ifdef __CUDA_EMU__
    emu::commit_copies();
#elif defined(ASYNC_COPIES)
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most PENDING of this thread's groups are incomplete; for other threads' copies a barrier must follow.
template <int PENDING>
__device__ __forceinline__ void wait_for_copies() {
#ifdef __CUDA_EMU__
    emu::wait_for_copies(PENDING);
#elif defined(ASYNC_COPIES)
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}
