// Blocks that meet in global memory.

// Every block adds to the same sum, and no addition is atomic.
extern "C" __global__ void sum_without_atomics(const float* x, float* total) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x == 0) *total += v;  // <-
}

// The block that comes last adds up what the others wrote, but they did not make sure that it can be seen.
extern "C" __global__ void last_block_without_fence(const float* x, float* part, unsigned* ticket, float* total) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];  // <-
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0.0f;
        for (int b = 0; b < gridDim.x; ++b) sum += part[b];  // <-
        *total = sum;
    }
}

// A fence that counts within the block, for a reader in another one.
extern "C" __global__ void fence_too_narrow(const float* x, float* part, unsigned* ticket, float* total) {
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];  // <-
        __threadfence_block();
        if (atomicAdd(ticket, 1u) == gridDim.x - 1) {
            float sum = 0.0f;
            for (int b = 0; b < gridDim.x; ++b) sum += part[b];  // <-
            *total = sum;
        }
    }
}

// Atomic within each block, and shared by all of them.
extern "C" __global__ void atomic_too_narrow(const int* x, int* total) {
    atomicAdd_block(total, x[blockIdx.x * 32 + threadIdx.x]);  // <-
}

// A barrier of the whole grid, made by hand, after which x is read that another block still writes.
extern "C" __global__ void polled_too_early(float* x, volatile int* arrived) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x == 0) {
        atomicAdd(const_cast<int*>(arrived), 1);
        while (*arrived < int(gridDim.x)) {
        }
        __threadfence();
    }
    __syncthreads();
    x[i] += x[(i + 32) % (32 * gridDim.x)];  // <-
}

// A block reads what its neighbour writes in the same launch.
extern "C" __global__ void neighbours_border(float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float next = i + 1 < gridDim.x * blockDim.x ? x[i + 1] : 0.0f;  // <-
    __syncthreads();
    x[i] = 0.5f * (x[i] + next);  // <-
}

// Only the first thread of each block fences; the others' numbers may be read before they are there.
extern "C" __global__ void fence_of_one(const float* x, float* part, unsigned* ticket, float* total) {
    __shared__ bool last;
    int i = blockIdx.x * 32 + threadIdx.x;
    part[i] = x[i];  // <-
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        float sum = 0.0f;
        for (int j = threadIdx.x; j < gridDim.x * 32; j += 32) sum += part[j];  // <-
        total[threadIdx.x] = sum;
    }
}
