// Blocks that train together, and their waits for each other.
#pragma once
#include "bulk.cuh"
#include "sync.cuh"

// Cycles after which a wait for other blocks gives up: about two seconds, a thousand times the longest step.
constexpr long long PATIENCE = 4000000000;

// Blocks that divide the tiles of a phase: number `block` of `blocks`.
struct Blocks {
    int block, blocks;

    // Renumber the blocks after a phase with `tiles` tiles: the next phase before the same wait begins with a block
    // that has had fewer tiles.
    __device__ __forceinline__ void passed(int tiles) { block = (block + blocks - tiles % blocks) % blocks; }
};

#if !defined(__CUDA_EMU__) || defined(POLLED_WAITS)

// Add an arrival, after all that the block has written.
__device__ __forceinline__ void add_release(unsigned* count) {
#ifdef __CUDA_EMU__
    __threadfence();
    atomicAdd(count, 1u);
#else
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
#endif
}

#endif

// The blocks of one cluster, SIZE of them. A block alone waits for its own threads. An arrival cannot be lost: the
// hardware counts threads, and a thread that has ended is counted as arrived.
template <int SIZE>
struct ClusterTeam : Blocks {
    __device__ ClusterTeam() : Blocks{static_cast<int>(blockIdx.x % SIZE), SIZE} {}

    __device__ __forceinline__ void arrive() {
#if !defined(__CUDA_EMU__) && __CUDA_ARCH__ >= 900
        if constexpr (SIZE > 1) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
    }

    // number : the wait's number in a step; a grid's wait reports it.
    __device__ __forceinline__ void wait(int number) {
#ifdef __CUDA_EMU__
        if constexpr (SIZE > 1) cluster_sync();
        else __syncthreads();
#elif __CUDA_ARCH__ >= 900
        if constexpr (SIZE > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        else __syncthreads();
#else
        __syncthreads();
#endif
    }

    __device__ __forceinline__ void meet(int number) {
        arrive();
        wait(number);
    }
};

// Reports a wait that timed out, if it is the first: stores its number in a step plus one, the step, and the block in
// arrived[1] to [3]. It is static, so that a team stays in registers.
static __device__ __noinline__ void report_lost(unsigned* arrived, int number, int step) {
    if (atomicCAS(arrived + 1, 0u, number + 1u) == 0u) {
        arrived[2] = step;
        arrived[3] = blockIdx.x;
    }
}

// All blocks of the grid. They count their arrivals in arrived[0], zero before the launch. A wait is two calls,
// arrive() after a block's results are written, and wait() before it needs the others' results: work in between costs
// nothing while others are late. A wait that others do not end within PATIENCE is reported in arrived[1] to [3]: its
// number in a step plus one, the step, and the block. No block waits again after that, so that the launch ends.
struct GridTeam : Blocks {
    unsigned* arrived;
    unsigned target = 0;
    int step = 0;
    bool lost = false;

    __device__ explicit GridTeam(unsigned* count)
        : Blocks{static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x)}, arrived(count) {}

    __device__ __forceinline__ void arrive() {
#if !defined(__CUDA_EMU__) || defined(POLLED_WAITS)
        __syncthreads();
        if (threadIdx.x == 0) add_release(arrived);
        target += gridDim.x;
#endif
    }

    __device__ __forceinline__ void wait(int number) {
#if defined(__CUDA_EMU__) && !defined(POLLED_WAITS)
        grid_sync();
#else
        if (threadIdx.x == 0 && !lost) {
            const long long began = clock64();
            // as a difference, for the count may pass 2^32
            while (static_cast<int>(load_acquire(arrived) - target) < 0)
                if (clock64() - began > PATIENCE) {
                    lost = true;
                    report_lost(arrived, number, step);
                    break;
                }
        }
        __syncthreads();
#endif
    }

    __device__ __forceinline__ void meet(int number) {
        arrive();
        wait(number);
    }
};

#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900

// The blocks of one cluster that wait for the bytes they send each other, at one barrier for each of the WAITS waits of
// a step. Sends use no fence: an arrival at the cluster's own barrier would wait until all of the block's writes are
// visible to the whole GPU. Each block announces at the beginning of a step how many bytes it gets. A block that sends
// nothing before a wait arrives at all barriers instead, so that no block sends to a buffer whose earlier numbers may
// still be in flight. Blocks pass another wait before they send at the same barriers again. A team of one warp, that of
// thread LEAD, has barriers of its own: the block's other warps do not wait for them.
template <int SIZE, int WAITS, int LEAD = 0>
struct CountedTeam : Blocks {
    static_assert(SIZE > 1 && WAITS <= 32, "a thread of the first warp for each wait");
    Barrier* arrivals;  // (WAITS,) in shared memory
    unsigned* arrived;
    unsigned parity = 1;
    int step = 0;
    bool lost = false;

    // absent(i): blocks that have nothing to send before wait number i + 1.
    template <class F>
    __device__ CountedTeam(Barrier* barriers, unsigned* count, const F& absent)
        : Blocks{static_cast<int>(blockIdx.x % SIZE), SIZE}, arrivals(barriers), arrived(count) {
        if (leads()) {
            barrier_init(arrivals + threadIdx.x - LEAD, 1 + absent(static_cast<int>(threadIdx.x - LEAD)));
            barriers_ready();
        }
    }

    // True for a thread that announces the bytes of one wait.
    static __device__ __forceinline__ bool leads() { return threadIdx.x - LEAD < WAITS; }

    // A wait of the hardware's: all blocks have come, and all that they have written is there.
    __device__ __forceinline__ void meet(int) { cluster_sync(); }

    // Begin a step: bytes(i) is what the block gets before wait number i + 1.
    template <class F>
    __device__ __forceinline__ void begin(int now, const F& bytes) {
        step = now, parity ^= 1;
        if (leads()) barrier_expect(arrivals + threadIdx.x - LEAD, bytes(static_cast<int>(threadIdx.x - LEAD)));
    }

    // The barrier of a wait, at which what is sent before it arrives.
    __device__ __forceinline__ Barrier* at(int number) const { return arrivals + number - 1; }

    __device__ __forceinline__ void arrive() {}
    __device__ __forceinline__ void wait(int number) {
        if (lost) return;
        const long long began = clock64();
        while (!barrier_ended_in_cluster(at(number), parity))
            if (clock64() - began > PATIENCE) {
                lost = true;
                report_lost(arrived, number, step);
                break;
            }
    }
};

#endif
