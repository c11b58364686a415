// A block's slices of the weights in its shared memory: once a step they are copied there by the block's threads, or
// brought by the copy engine.
#pragma once
#include "bulk.cuh"
#include "layout.cuh"
#include "product.cuh"

// Pitch in floats of a row in shared memory: quads, an odd number of them, so that neighbouring rows begin in other
// banks. Weights have the bias after the last input. Activations and gradients end in zeros up to a quad.
__device__ constexpr int held_line(int features) { return ((features + 3) / 4 | 1) * 4; }

// Features of a layer that one block of a cluster computes, whole quads, and the first of this block.
__device__ constexpr int slice(int features, int blocks) { return ((features + 3) / 4 + blocks - 1) / blocks * 4; }
template <int FEATURES, int BLOCKS>
__device__ __forceinline__ int first_of_slice() {
    return BLOCKS == 1 ? 0 : static_cast<int>(blockIdx.x % BLOCKS) * slice(FEATURES, BLOCKS);
}

// Pitch in floats of a row of weights for the gradient by the inputs; a block alone reads its only copy.
__device__ constexpr int inputs_line(int inputs, int blocks) {
    return blocks == 1 ? held_line(inputs + 1) : slice(inputs, blocks) + 4;
}

// Start the copy of ROWS rows of QUADS quads; zeros take the place of rows from `rows` and quads from `quads` on.
template <int ROWS, int QUADS, int STRIDE, int LINE>
__device__ __forceinline__ void hold(float* to, const float* from, int rows, int quads) {
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * QUADS; i += THREADS) {
        const int row = i / QUADS, quad = i % QUADS;
        const bool present = row < rows && quad < quads;
        copy_sixteen(to + row * STRIDE + 4 * quad, present ? from + row * LINE + 4 * quad : from, present ? 4 : 0);
    }
    commit_copies();
}

// Copy the block's slice by outputs of w (OUT, IN + 1).
template <int IN, int OUT, int BLOCKS>
__device__ __forceinline__ void hold_outputs(float* to, const float* w) {
    const int first = min(first_of_slice<OUT, BLOCKS>(), OUT);
    hold<slice(OUT, BLOCKS), (IN + 4) / 4, held_line(IN + 1), line(IN)>(
        to, w + first * line(IN), OUT - first, (IN + 4) / 4
    );
}

// Copy the block's slice of the weights by inputs: (OUT, slice), OUT in whole quads.
template <int IN, int OUT, int BLOCKS>
__device__ __forceinline__ void hold_inputs(float* to, const float* w) {
    const int first = min(first_of_slice<IN, BLOCKS>(), line(IN));
    hold<(OUT + 3) / 4 * 4, slice(IN, BLOCKS) / 4, inputs_line(IN, BLOCKS), line(IN)>(
        to, w + first, OUT, (line(IN) - first) / 4
    );
}

#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900

// Barriers of COUNT copies of weights by the copy engine, which run once a step.
template <int COUNT>
struct Pieces {
    static_assert(COUNT <= THREADS, "a thread for each barrier");
    Barrier* arrivals;  // (COUNT,) in shared memory
    unsigned parity = 1;

    __device__ explicit Pieces(Barrier* barriers) : arrivals(barriers) {
        if (threadIdx.x < COUNT) {
            barrier_init(arrivals + threadIdx.x, 1);
            barriers_ready();
        }
    }

    // Begin a step's copies; the weights and the memory that they go to were written before.
    __device__ __forceinline__ void begin() {
        parity ^= 1;
        pieces_written();
    }
    __device__ __forceinline__ Barrier* at(int number) const { return arrivals + number; }
    __device__ __forceinline__ void wait(int number) const { barrier_wait(at(number), parity); }
};

// Begin to copy `rows` rows of `quads` quads.
template <int STRIDE, int LINE>
__device__ __forceinline__ void bring(float* to, const float* from, int rows, int quads, Barrier* arrival) {
    if (threadIdx.x == 0) barrier_expect(arrival, rows > 0 ? 16 * rows * quads : 0);
    for (int row = threadIdx.x; row < rows; row += THREADS)
        copy_piece(to + row * STRIDE, from + row * LINE, 16 * quads, arrival);
}

// As hold_outputs, by the copy engine. Rows beyond the last output are zero for a block alone, whose input gradients
// read them; others keep what they had.
template <int IN, int OUT, int BLOCKS>
__device__ __forceinline__ void bring_outputs(float* to, const float* w, Barrier* arrival) {
    constexpr int STRIDE = held_line(IN + 1), BEYOND = BLOCKS == 1 ? slice(OUT, 1) - OUT : 0;
    const int first = min(first_of_slice<OUT, BLOCKS>(), OUT);
    bring<STRIDE, line(IN)>(to, w + first * line(IN), min(slice(OUT, BLOCKS), OUT - first), (IN + 4) / 4, arrival);
    for (int i = threadIdx.x; i < BEYOND * STRIDE; i += THREADS) to[OUT * STRIDE + i] = 0.0f;
}

#endif

// Wait until all but the last PENDING copies of all threads have arrived.
template <int PENDING>
__device__ __forceinline__ void ready() {
    wait_for_copies<PENDING>();
    __syncthreads();
}
