// Tiles and pieces that the copy engine (TMA) copies to shared memory, and barriers there (mbarrier) for their arrival.
//
// One thread requests a whole tile: a tensor map, made by the host, has address, row length and tile size; numbers
// beyond the matrix are zeros. A tile begins at a multiple of 1,024 bytes and has rows of 128 bytes, eight pieces of
// 16; piece p of row r is at p ^ (r % 8): the 128-byte swizzle, with eight rows in different banks.
//
// A phase of a barrier ends after `count` arrivals and all announced bytes; a wait gives its parity. Needs sm_90.
#pragma once

using Barrier = unsigned long long;

// A matrix or images, and their tiles; a kernel takes it as `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

#ifdef __CUDA_EMU__

__device__ inline void barrier_init(Barrier* barrier, unsigned count, EMU_HERE) {
    emu_phase_init(barrier, count, file, line); }
__device__ inline void barriers_ready() {}
__device__ inline void tiles_written() { emu_proxy_fence(); }
__device__ inline void pieces_written() { emu_proxy_fence(); }
__device__ inline void barrier_arrive(Barrier* barrier, EMU_HERE) { emu_phase_arrive(barrier, 0, -1, file, line); }
__device__ inline void barrier_arrive_at(Barrier* barrier, unsigned rank, EMU_HERE) {
    emu_phase_arrive(barrier, 0, int(rank), file, line); }
__device__ inline void barrier_read_at(Barrier* barrier, unsigned rank, EMU_HERE) {
    emu_phase_read(barrier, int(rank), file, line); }
__device__ inline void barriers_ready_in_cluster(EMU_HERE) { emu_cluster_barrier(file, line); }
__device__ inline void barrier_expect(Barrier* barrier, unsigned bytes, EMU_HERE) {
    emu_phase_arrive(barrier, bytes, -1, file, line); }
__device__ inline void barrier_wait(Barrier* barrier, unsigned parity, EMU_HERE) {
    emu_phase_wait(barrier, parity, file, line); }
__device__ inline bool barrier_ended_in_cluster(Barrier* barrier, unsigned parity, EMU_HERE) {
    emu_phase_wait(barrier, parity, file, line);
    return true;
}
__device__ __forceinline__ void send_four(float* to, const float4& v, Barrier* barrier, unsigned rank, EMU_HERE) {
    emu_send(emu_map_shared(to, rank, file, line), &v, 16,
        static_cast<Barrier*>(emu_map_shared(barrier, rank, file, line)), file, line);
}
__device__ __forceinline__ void copy_tile(void* to, const TensorMap& from, int column, int row, Barrier* barrier,
    EMU_HERE) {
    emu_copy_tile(to, &from, 2, column, row, 0, 0, barrier, 0, file, line);
}
__device__ __forceinline__ void copy_tile_to(unsigned blocks, void* to, const TensorMap& from, int column, int row,
    Barrier* barrier, EMU_HERE) {
    emu_copy_tile(to, &from, 2, column, row, 0, 0, barrier, blocks, file, line);
}
__device__ __forceinline__ void copy_pixels(void* to, const TensorMap& from, int channel, int column, int row,
    int image, Barrier* barrier, EMU_HERE) {
    emu_copy_tile(to, &from, 4, channel, column, row, image, barrier, 0, file, line);
}
__device__ __forceinline__ void copy_piece(void* to, const void* from, unsigned bytes, Barrier* barrier, EMU_HERE) {
    emu_copy_piece(to, from, bytes, barrier, 0, file, line);
}
__device__ __forceinline__ void copy_piece_to(unsigned blocks, void* to, const void* from, unsigned bytes,
    Barrier* barrier, EMU_HERE) {
    emu_copy_piece(to, from, bytes, barrier, blocks, file, line);
}

#elif __CUDA_ARCH__ >= 900

__device__ __forceinline__ unsigned in_shared(const void* address) {
    return static_cast<unsigned>(__cvta_generic_to_shared(address)); }

// Initialises a barrier, by one thread; barriers_ready() and a barrier of the block must follow before others use it.
__device__ __forceinline__ void barrier_init(Barrier* barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(in_shared(barrier)), "r"(count) : "memory");
}
// Makes the barriers visible to the copy engine and to other blocks of the cluster, after barrier_init.
__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Makes tiles that this thread has written visible to the tensor cores (wgmma); before the barrier that they follow.
__device__ __forceinline__ void tiles_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// By each thread that has written global memory which pieces are copied from, or shared memory which they are copied
// to, before the wait after which they are requested, and by those that request them after it.
__device__ __forceinline__ void pieces_written() {
    asm volatile("fence.proxy.async.global;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(in_shared(barrier)) : "memory");
}
// Arrives at the barrier of another block of the cluster.
__device__ __forceinline__ void barrier_arrive_at(Barrier* barrier, unsigned rank) {
    asm volatile("{.reg .b32 its; mapa.shared::cluster.u32 its, %0, %1; "
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [its];}"
                 ::"r"(in_shared(barrier)), "r"(rank) : "memory");
}
// Arrives at the barrier of another block of the cluster, for a thread that has only read there: unlike
// barrier_arrive_at it does not wait until its writes are visible to the whole GPU.
__device__ __forceinline__ void barrier_read_at(Barrier* barrier, unsigned rank) {
    asm volatile("{.reg .b32 its; mapa.shared::cluster.u32 its, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [its];}"
                 ::"r"(in_shared(barrier)), "r"(rank) : "memory");
}
// Waits until the barriers of all blocks of a cluster exist; by all its threads, after barriers_ready.
__device__ __forceinline__ void barriers_ready_in_cluster() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Arrives, and announces bytes for which the phase waits.
__device__ __forceinline__ void barrier_expect(Barrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(in_shared(barrier)), "r"(bytes)
        : "memory");
}
// Waits until the phase of this parity has ended.
__device__ __forceinline__ void barrier_wait(Barrier* barrier, unsigned parity) {
    asm volatile("{.reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;}" ::"r"(in_shared(barrier)), "r"(parity) : "memory");
}

// True if the phase of this parity has ended, after a while that the hardware takes to find out. Then all that other
// blocks of the cluster have sent in that phase is there.
__device__ __forceinline__ bool barrier_ended_in_cluster(Barrier* barrier, unsigned parity) {
    unsigned ended;
    asm volatile("{.reg .pred done;\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, done;}" : "=r"(ended) : "r"(in_shared(barrier)), "r"(parity) : "memory");
    return ended;
}
// Sends four numbers to the place `to` of the block of this rank, 16 bytes that arrive at its barrier: no fence of the
// sender is needed, and other writes of the sender are not ordered by it.
__device__ __forceinline__ void send_four(float* to, const float4& v, Barrier* barrier, unsigned rank) {
    asm volatile("{.reg .b32 its, arrival; mapa.shared::cluster.u32 its, %0, %6; "
                 "mapa.shared::cluster.u32 arrival, %5, %6; "
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [its], {%1, %2, %3, %4}, "
                 "[arrival];}"
                 ::"r"(in_shared(to)), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(in_shared(barrier)), "r"(rank)
                 : "memory");
}

// Begins to copy the tile whose first number is in this column and row; its bytes arrive at the barrier. The column is
// a multiple of 16 bytes: at others Hopper stops with an illegal instruction.
__device__ __forceinline__ void copy_tile(void* to, const TensorMap& from, int column, int row, Barrier* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
                 "{%2, %3}], [%4];"
                 ::"r"(in_shared(to)), "l"(&from), "r"(column), "r"(row), "r"(in_shared(barrier)) : "memory");
}
// Begins to copy a tile of images (images, rows, columns, channels), whose rows are pixels, by row, then down, then
// image by image. A place may be negative, in the padding of a convolution: its pixels arrive as zeros.
__device__ __forceinline__ void copy_pixels(void* to, const TensorMap& from, int channel, int column, int row,
    int image, Barrier* barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
                 "{%2, %3, %4, %5}], [%6];"
                 ::"r"(in_shared(to)), "l"(&from), "r"(channel), "r"(column), "r"(row), "r"(image),
                     "r"(in_shared(barrier)) : "memory");
}
// Begins to copy a tile to several blocks of the cluster, a bit for each: to one place, with its own barrier.
__device__ __forceinline__ void copy_tile_to(unsigned blocks, void* to, const TensorMap& from, int column, int row,
    Barrier* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(in_shared(to)), "l"(&from), "r"(column), "r"(row), "r"(in_shared(barrier)),
                     "h"(static_cast<unsigned short>(blocks)) : "memory");
}

// Begins to copy a contiguous piece of memory; addresses and bytes are multiples of 16.
__device__ __forceinline__ void copy_piece(void* to, const void* from, unsigned bytes, Barrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(in_shared(to)), "l"(from), "r"(bytes), "r"(in_shared(barrier)) : "memory");
}
// As copy_piece, to several blocks of the cluster, as in copy_tile_to.
__device__ __forceinline__ void copy_piece_to(unsigned blocks, void* to, const void* from, unsigned bytes,
    Barrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1], %2, [%3], %4;"
                 ::"r"(in_shared(to)), "l"(from), "r"(bytes), "r"(in_shared(barrier)),
                     "h"(static_cast<unsigned short>(blocks)) : "memory");
}

#endif
