// What blocks do together, rightly.
#include "sync.cuh"

// The last block adds up what the others left behind: fence, then ticket.
extern "C" __global__ void last_block(const float* x, float* part, unsigned* ticket, float* total) {
    __shared__ float sum[64];
    __shared__ bool last;
    const int t = threadIdx.x;
    sum[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    for (int d = 32; d > 0; d /= 2) {
        if (t < d) sum[t] += sum[t + d];
        __syncthreads();
    }
    if (t == 0) {
        part[blockIdx.x] = sum[0];
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    float all = 0.0f;
    for (int b = t; b < gridDim.x; b += 64) all += part[b];
    sum[t] = all;
    __syncthreads();
    if (t == 0) {
        for (int i = 1; i < 64; ++i) all += sum[i];
        *total = all;
        *ticket = 0;
    }
}

// Every thread fences what it wrote, and one counts for its block.
extern "C" __global__ void last_block_of_all(const float* x, float* part, unsigned* ticket, float* total) {
    __shared__ bool last;
    const int i = blockIdx.x * 32 + threadIdx.x;
    part[i] = 2.0f * x[i];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    float sum = 0.0f;
    for (int j = threadIdx.x; j < gridDim.x * 32; j += 32) sum += part[j];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (threadIdx.x == 0) *total = sum;
}

// A running sum over blocks: each takes a number, waits for the one before it, and hands its own sum on behind a flag.
extern "C" __global__ void chained_scan(const int* x, int* y, unsigned* ticket, int* carried, volatile int* ready) {
    __shared__ int values[64], mine, before;
    const int t = threadIdx.x;
    if (t == 0) mine = int(atomicAdd(ticket, 1u));
    __syncthreads();
    values[t] = x[mine * 64 + t];
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {
        const int left = t >= d ? values[t - d] : 0;
        __syncthreads();
        values[t] += left;
        __syncthreads();
    }
    if (t == 0) {
        before = 0;
        if (mine > 0) {
            while (ready[mine - 1] == 0) {
            }
            __threadfence();
            before = carried[mine - 1];
        }
        carried[mine] = before + values[63];
        __threadfence();
        ready[mine] = 1;
    }
    __syncthreads();
    y[mine * 64 + t] = before + values[t];
}

// The same chain with release and acquire.
extern "C" __global__ void chained_by_acquire(const int* x, int* y, unsigned* ticket, int* carried, unsigned* ready) {
    __shared__ int mine;
    if (threadIdx.x == 0) {
        mine = int(atomicAdd(ticket, 1u));
        int before = 0;
        if (mine > 0) {
            while (load_acquire(&ready[mine - 1]) == 0) {
            }
            before = carried[mine - 1];
        }
        carried[mine] = before + x[mine];
        store_release(&ready[mine], 1);
    }
    __syncthreads();
    if (threadIdx.x == 31) y[mine] = carried[mine];
}

// A lock that blocks take in turn.
extern "C" __global__ void spin_lock(int* lock, int* count) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
    __threadfence();
    *count += int(blockIdx.x);
    __threadfence();
    atomicExch(lock, 0);
}

extern "C" __global__ void histogram(const int* x, int* bins, int n) {
    __shared__ int mine[16];
    const int t = threadIdx.x;
    if (t < 16) mine[t] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[x[i]], 1);
    __syncthreads();
    if (t < 16) atomicAdd(&bins[t], mine[t]);
}

// x / sum(x): two passes over the grid in one launch.
extern "C" __global__ void normalise(float* x, float* part, int n) {
    __shared__ float sum[64];
    const int t = threadIdx.x, first = blockIdx.x * 64 + t;
    float v = 0.0f;
    for (int i = first; i < n; i += gridDim.x * 64) v += x[i];
    sum[t] = v;
    __syncthreads();
    for (int d = 32; d > 0; d /= 2) {
        if (t < d) sum[t] += sum[t + d];
        __syncthreads();
    }
    if (t == 0) part[blockIdx.x] = sum[0];
    grid_sync();
    float total = 0.0f;
    for (int b = 0; b < gridDim.x; ++b) total += part[b];
    grid_sync();
    if (t == 0) part[blockIdx.x] = total;
    for (int i = first; i < n; i += gridDim.x * 64) x[i] /= total;
}

// A barrier of the whole grid, made by hand: a block's first thread counts it and polls, past every cache.
extern "C" __global__ void mirror_by_hand(float* x, volatile int* arrived, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 1; round <= 2; ++round) {
        const float other = x[n - 1 - i];
        for (int half = 0; half < 2; ++half) {
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) {
                const int all = (2 * round - 1 + half) * int(gridDim.x);
                atomicAdd(const_cast<int*>(arrived), 1);
                if (half) while (__ldcv(const_cast<const int*>(arrived)) < all) {
                }
                else while (*arrived < all) {
                }
                __threadfence();
            }
            __syncthreads();
            if (!half) x[i] += other;
        }
    }
}

// Blocks of a cluster read each other's shared memory.
extern "C" __global__ void cluster_sum(const float* x, float* y) {
    __shared__ float mine[32];
    extern __shared__ float more[];
    const int t = threadIdx.x;
    mine[t] = x[blockIdx.x * 32 + t];
    more[t] = 1000.0f * cluster_rank();
    cluster_sync();
    float sum = 0.0f;
    for (unsigned rank = 0; rank < cluster_size(); ++rank) sum += shared_of(mine, rank)[t] + shared_of(more, rank)[t];
    cluster_sync();
    y[blockIdx.x * 32 + t] = sum;
}

// Blocks of a cluster write into each other's shared memory twice; waits of the whole grid order it.
extern "C" __global__ void neighbours_by_grid(const float* x, float* out) {
    __shared__ float mine[32];
    float* const its = shared_of(mine, cluster_rank() ^ 1u);
    const int i = blockIdx.x * 32 + threadIdx.x;
    grid_sync();
    its[threadIdx.x] = x[i];
    grid_sync();
    const float found = mine[threadIdx.x];
    grid_sync();
    its[threadIdx.x] = x[i] + x[i];
    grid_sync();
    out[i] = mine[threadIdx.x] + 0.0f * found;
}
