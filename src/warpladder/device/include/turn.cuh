// Ring of stages in shared memory that the copy engine (TMA) fills: its first stage, and the position of a user.
#pragma once
#include "bulk.cuh"

// First stage in the dynamic shared memory, at a multiple of 1,024: the ring takes 1,024 bytes more than its stages.
__device__ __forceinline__ char* first_stage(void* shared) {
    // an address still known to be in shared memory
    return static_cast<char*>(shared) + (-reinterpret_cast<unsigned long long>(shared) & 1023);
}

// Position in a ring of a user of one stage after another, and the parity of its rounds.
template <int STAGES>
struct Turn {
    int stage = 0, parity = 0;
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    __device__ __forceinline__ int before() const { return stage == 0 ? STAGES - 1 : stage - 1; }
};
