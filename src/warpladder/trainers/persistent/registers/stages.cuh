// Gathering of batches into shared memory for units.cuh, by the copy engine, a step ahead. U: the sizes, `Units`.
#pragma once
#include "bulk.cuh"
#include "epochs.cuh"

// Gathering of batches by the copy engine. With two stages a block requests the samples that it owns, and the engine
// brings them to all blocks; with one, where others may still read, each block requests all for itself. A thread knows
// the place in the training set of one sample of the next batch, or of some.
template <class U>
struct Gatherer {
    static constexpr bool SHARES = U::STAGES > 1;
    static constexpr int COUNT = SHARES ? U::Exchange::ROWS : U::ROWS, EACH = (COUNT + THREADS - 1) / THREADS;
    const unsigned char* samples;
    const int* labels;
    const int* places;      // of the batch that is requested next
    BatchSizes sizes;
    unsigned char* stages;  // (STAGES, ROWS, LINE) bytes
    int* wanted;            // (STAGES, ROWS) labels
    Barrier* arrivals;      // (STAGES,)
    int ahead[EACH], label[EACH] = {};

    __device__ __forceinline__ Gatherer(
        const void* x, const int* y, const Choice& all, float* held_stages, float* held_labels, Barrier* barriers
    ) : samples(static_cast<const unsigned char*>(x)), labels(y), places(all.rows), sizes(all),
        stages(reinterpret_cast<unsigned char*>(held_stages)), wanted(reinterpret_cast<int*>(held_labels)),
        arrivals(barriers) {
        look_up();
    }
    // Sample of the batch that this thread requests, its i-th: neighbours are of different warps, since the copy engine
    // takes a warp's requests one by one.
    static __device__ __forceinline__ int row(int i) {
        const int own = (32 * i + threadIdx.x % 32) * U::WARPS + U::WARPS - 1 - threadIdx.x / 32;
        return own >= COUNT ? U::ROWS : SHARES ? U::Exchange::rank() * COUNT + own : own;
    }
    __device__ __forceinline__ unsigned char* at(int number, int m) const {
        return stages + (number % U::STAGES * U::ROWS + m) * U::LINE;
    }
    // Request the next batch, that of step `number` of the launch, by all threads. Rows beyond its samples keep what an
    // earlier batch left there.
    __device__ __forceinline__ void request(int number, bool last) {
        const int n = sizes.size();
        Barrier* const arrival = arrivals + number % U::STAGES;
        if (threadIdx.x == 0) barrier_expect(arrival, n * U::PITCH);
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const int m = row(i);
            if (m >= n) continue;
            const unsigned char* const from = samples + static_cast<long long>(ahead[i]) * U::PITCH;
            if constexpr (SHARES) copy_piece_to((1u << U::BLOCKS) - 1, at(number, m), from, U::PITCH, arrival);
            else copy_piece(at(number, m), from, U::PITCH, arrival);
            label[i] = labels[ahead[i]];
        }
        sizes.next();
        places += sizes.batch;
        if (!last) look_up();
    }
    // Store the labels of the batch that was requested last; a barrier of the block must follow.
    __device__ __forceinline__ void finish(int number) const {
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (row(i) < U::ROWS) wanted[number % U::STAGES * U::ROWS + row(i)] = label[i];
    }
    // Wait for the samples of step `number`.
    __device__ __forceinline__ void wait(int number) const {
        barrier_wait(arrivals + number % U::STAGES, number / U::STAGES % 2);
    }

private:
    __device__ __forceinline__ void look_up() {
#pragma unroll
        for (int i = 0; i < EACH; ++i) ahead[i] = row(i) < sizes.size() ? places[row(i)] : 0;
    }
};
