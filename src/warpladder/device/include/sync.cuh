// Barriers of a cluster (sm_90 and newer) and of the whole grid; shared memory of the other blocks of a cluster.
//
// grid_sync() needs a cooperative launch, in which all blocks run at once; cluster_sync() one with a cluster.
#pragma once

#ifdef __CUDA_EMU__

__device__ inline void grid_sync(EMU_HERE) { emu_grid_barrier(file, line); }
__device__ inline void cluster_sync(EMU_HERE) { emu_cluster_barrier(file, line); }
__device__ inline unsigned cluster_rank() { return emu_cluster_rank(); }
__device__ inline unsigned cluster_size() { return emu_cluster_size(); }
template <typename T>
__device__ inline T* shared_of(T* mine, unsigned rank, EMU_HERE) {
    return static_cast<T*>(emu_map_shared(mine, rank, file, line));
}
__device__ __forceinline__ unsigned load_acquire(const unsigned* address) {
    const unsigned value = emu::load(address);
    __threadfence();
    return value;
}
__device__ __forceinline__ void store_release(unsigned* address, unsigned value) {
    __threadfence();
    emu::store(address, value);
}

#else

// Load after which all that another thread wrote before its store_release of the value is visible.
__device__ inline unsigned load_acquire(const unsigned* address) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}
__device__ inline void store_release(unsigned* address, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// Arrived blocks, in 31 bits; after all the highest bit flips. One cooperative launch of a module at a time.
__device__ unsigned grid_arrived;

__device__ inline void grid_sync() {
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        const bool first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
        const unsigned turn = 0x80000000u, others = gridDim.x * gridDim.y * gridDim.z - 1u;
        __threadfence();
        const unsigned before = atomicAdd(&grid_arrived, first ? turn - others : 1u);
        while (((load_acquire(&grid_arrived) ^ before) & turn) == 0) {
        }
        __threadfence();
    }
    __syncthreads();
}

#if __CUDA_ARCH__ >= 900

__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Number of the block in its cluster, and number of blocks in the cluster.
__device__ inline unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ inline unsigned cluster_size() {
    unsigned size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}
// Address of `mine` in the block of this rank, which must not leave while others use it.
template <typename T>
__device__ inline T* shared_of(T* mine, unsigned rank) {
    T* its;
    asm("mapa.u64 %0, %1, %2;" : "=l"(its) : "l"(mine), "r"(rank));
    return its;
}

#endif
#endif
