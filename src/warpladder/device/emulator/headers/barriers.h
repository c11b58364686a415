// Barriers of a block, and fences.
#pragma once
#include <cstdint>

#include "builtins.h"
#include "vectors.h"

inline void __syncthreads(EMU_HERE) { emu_barrier("__syncthreads()", file, line); }
inline int __syncthreads_count(int predicate, EMU_HERE) {
    return emu_barrier_count(predicate != 0, "__syncthreads_count()", file, line); }
inline int __syncthreads_or(int predicate, EMU_HERE) {
    return emu_barrier_count(predicate != 0, "__syncthreads_or()", file, line) != 0; }
inline int __syncthreads_and(int predicate, EMU_HERE) {
    return emu_barrier_count(predicate == 0, "__syncthreads_and()", file, line) == 0; }

#ifdef EMU_CHECK
inline void __threadfence_cluster() { emu_fence(1); }
inline void __threadfence_block() { emu_fence(0); }
inline void __threadfence() { emu_fence(1); }
inline void __threadfence_system() { emu_fence(2); }
#else
inline void __threadfence_cluster() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#endif

// Clusters: sides, the place of the block, the shared memory of another one. A barrier waits where a thread waits for
// it; what stands between arriving and waiting is ordered too.
inline dim3 __clusterDim() { return {emu_cluster_side(0), emu_cluster_side(1), emu_cluster_side(2)}; }
inline dim3 __clusterRelativeBlockIdx() {
    const dim3 side = __clusterDim(), at = blockIdx;
    return {at.x % side.x, at.y % side.y, at.z % side.z};
}
inline dim3 __clusterIdx() {
    const dim3 side = __clusterDim(), at = blockIdx;
    return {at.x / side.x, at.y / side.y, at.z / side.z};
}
inline dim3 __clusterGridDimInClusters() {
    const dim3 side = __clusterDim(), all = gridDim;
    return {all.x / side.x, all.y / side.y, all.z / side.z};
}
inline void __cluster_barrier_arrive() { __threadfence(); }
inline void __cluster_barrier_arrive_relaxed() {}
inline void __cluster_barrier_wait(EMU_HERE) { emu_cluster_barrier(file, line); }
inline unsigned __clusterRelativeBlockRank() { return emu_cluster_rank(); }
inline unsigned __clusterSizeInBlocks() { return emu_cluster_size(); }
inline void* __cluster_map_shared_rank(const void* address, unsigned rank, EMU_HERE) {
    return emu_map_shared(address, rank, file, line); }
