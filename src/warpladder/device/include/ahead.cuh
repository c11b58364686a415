// Prefetches: memory is requested long before its use, and no thread waits.
#pragma once

// Begins to copy the 32 bytes at an address in global memory to the second-level cache.
__device__ __forceinline__ void fetch_ahead(const void* address) {
#ifndef __CUDA_EMU__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}
