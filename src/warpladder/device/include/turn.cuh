// A ring of stages in shared memory that the copy engine (TMA) fills: where it begins, and where in it somebody is.
#pragma once
#include "bulk.cuh"

// Where stages begin in the block's dynamic shared memory, of which they take 1,024 bytes more than they have: they
// begin at a multiple of that.
__device__ __forceinline__ char* first_stage(void* shared) {
    // an address still known to be in shared memory
    return static_cast<char*>(shared) + (-reinterpret_cast<unsigned long long>(shared) & 1023);
}

// Where in a ring somebody is who uses one stage after the other, and the parity of how often around.
template <int STAGES>
struct Turn {
    int stage = 0, parity = 0;
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    __device__ __forceinline__ int before() const { return stage == 0 ? STAGES - 1 : stage - 1; }
};
