// Copies of a batch's samples and labels from the training set to the batch's own memory. Numbers are loaded at
// one point of a step and stored at a later one, so that no thread waits for them.
#pragma once
#include "order.cuh"

// Four stored numbers in registers.
template <class Pixel>
struct Quad;
template <>
struct Quad<unsigned char> {
    uchar4 v;
    __device__ __forceinline__ float4 times(float s) const { return make_float4(v.x * s, v.y * s, v.z * s, v.w * s); }
};
template <>
struct Quad<float> {
    float4 v;
    __device__ __forceinline__ float4 times(float s) const { return make_float4(v.x * s, v.y * s, v.z * s, v.w * s); }
};

// The samples of all steps of a launch, chosen before the first: rows (last - first, batch).
struct Choice {
    int* rows;
    int first, last, count, batch, steps;  // count: of the training set; steps: of an epoch

    // Samples of a step, and where their numbers in the training set begin.
    __device__ __forceinline__ int size(int step) const { return min(batch, count - step % steps * batch); }
    __device__ __forceinline__ const int* of(int step) const { return rows + (step - first) * batch; }

    // Find the places of all samples in the orders of their epochs; a wait of all blocks follows.
    __device__ __forceinline__ void fill(const unsigned* orders, int thread, int threads) const {
        int epoch = -1;
        Order order;
        for (int i = thread; i < (last - first) * batch; i += threads) {
            const int step = first + i / batch, m = i % batch;
            if (step / steps != epoch) {
                epoch = step / steps;
                order = Order(orders + epoch * ORDER_WORDS);
            }
            if (m < size(step)) rows[i] = order[step % steps * batch + m];
        }
    }
};

// The warps that share a batch's samples: all of the grid, which spreads them over all blocks.
struct ByGrid {
    // First sample of this warp, distance to the warp's next one, and end of the samples that its warps share.
    static __device__ __forceinline__ int first() { return blockIdx.x + threadIdx.x / 32 * gridDim.x; }
    static __device__ __forceinline__ int stride() { return blockDim.x / 32 * gridDim.x; }
    static __device__ __forceinline__ int end(int n) { return n; }
    // True if the warp's block stores a sample in the batch's memory.
    static __device__ __forceinline__ bool keeps(int) { return true; }
};

// The warps of a cluster of BLOCKS blocks, which share its own ROWS samples.
template <int BLOCKS, int ROWS>
struct ByCluster {
    static __device__ __forceinline__ int first() {
        return blockIdx.x / BLOCKS * ROWS + blockIdx.x % BLOCKS + threadIdx.x / 32 * BLOCKS;
    }
    static __device__ __forceinline__ int stride() { return blockDim.x / 32 * BLOCKS; }
    static __device__ __forceinline__ int end(int n) {
        return min(n, static_cast<int>(blockIdx.x / BLOCKS + 1) * ROWS);
    }
    static __device__ __forceinline__ bool keeps(int) { return true; }
};

// The warps of one block, which gathers all ROWS samples of its cluster for itself. Blocks store them in turn.
template <int BLOCKS, int ROWS>
struct ByBlock {
    static __device__ __forceinline__ int first() { return blockIdx.x / BLOCKS * ROWS + threadIdx.x / 32; }
    static __device__ __forceinline__ int stride() { return blockDim.x / 32; }
    static __device__ __forceinline__ int end(int n) { return ByCluster<BLOCKS, ROWS>::end(n); }
    static __device__ __forceinline__ bool keeps(int sample) { return sample % BLOCKS == blockIdx.x % BLOCKS; }
};

// Empty additional destination of a sample's quads.
struct Nowhere {
    __device__ __forceinline__ void operator()(int sample, int e, const float4& v) const {}
};

// Gathering of batches of samples of SIZE numbers into rows that are LINE floats apart. A warp takes a sample: it
// computes its index in the order once. Each lane loads HELD quads of the warp's first sample ahead, and the rest when
// it stores them. Warps: the warps that share the samples.
template <class Pixel, int SIZE, int LINE, int HELD, class Warps = ByGrid>
struct Gather {
    static constexpr int QUADS = (SIZE + 3) / 4;
    const Pixel* samples;
    const int* labels;  // null for a net that learns its input
    float scale;
    Choice choice;
    int n = 0, row = 0, label = 0, ahead = -1;  // ahead: the warp's first sample of the next step
    int at = 0, next = 0;                       // place in the batch of the held sample, and the warp's sample after it
    const int* rows = nullptr;                  // the batch's samples
    Quad<Pixel> held[HELD];

    // Load the batch of a step, counted from the beginning of the first epoch; returns its number of samples.
    __device__ __forceinline__ int start(int step) {
        rows = choice.of(step);
        n = choice.size(step);
        at = Warps::first();
        if (at < Warps::end(n)) hold(ahead >= 0 ? ahead : rows[at]);
        const bool more = step + 1 < choice.last && Warps::first() < Warps::end(choice.size(step + 1));
        ahead = more ? rows[choice.batch + Warps::first()] : -1;
        return n;
    }

    // Store the held sample as `finish` does, and request the warp's next one.
    template <class Also>
    __device__ __forceinline__ void more(float* x, int* target, const Also& also) {
        if (at >= Warps::end(n)) return;
        store_held(x, target, also);
        at += Warps::stride();
        if (at < Warps::end(n)) hold(next);
    }

    // Store all that is left: x (n, LINE), target (n,), and each quad where `also` stores it.
    template <class Also = Nowhere>
    __device__ __forceinline__ void finish(float* x, int* target, const Also& also = Also()) const {
        const int end = Warps::end(n);
        if (at >= end) return;
        store_held(x, target, also);
        for (int sample = at + Warps::stride(); sample < end; sample += Warps::stride()) {
            const int other = rows[sample];
            copy(x, sample, other, lane(), also);
            if (labels != nullptr && lane() == 0 && Warps::keeps(sample)) target[sample] = labels[other];
        }
    }

private:
    // Request a sample of the training set, and the number of the warp's next one.
    __device__ __forceinline__ void hold(int sample) {
        row = sample;
#pragma unroll
        for (int i = 0; i < HELD; ++i)
            if (lane() + i * 32 < QUADS) held[i] = request(row, lane() + i * 32);
        if (labels != nullptr) label = labels[row];
        if (at + Warps::stride() < Warps::end(n)) next = rows[at + Warps::stride()];
    }

    template <class Also>
    __device__ __forceinline__ void store_held(float* x, int* target, const Also& also) const {
#pragma unroll
        for (int i = 0; i < HELD; ++i)
            if (lane() + i * 32 < QUADS) store(x, at, lane() + i * 32, held[i], also);
        copy(x, at, row, lane() + HELD * 32, also);
        if (labels != nullptr && lane() == 0 && Warps::keeps(at)) target[at] = label;
    }

    static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }

    // Copy a sample's quads from number `first` on, those of this lane.
    template <class Also>
    __device__ __forceinline__ void copy(float* x, int sample, int stored, int first, const Also& also) const {
#pragma unroll 4
        for (int quad = first; quad < QUADS; quad += 32) store(x, sample, quad, request(stored, quad), also);
    }

    __device__ __forceinline__ Quad<Pixel> request(int stored, int quad) const {
        const int e = 4 * quad;
        const Pixel* at = samples + static_cast<long long>(stored) * SIZE + e;
        Quad<Pixel> found;
        if constexpr (SIZE % 4 == 0) {
            found.v = *reinterpret_cast<const decltype(found.v)*>(at);
        } else {
            found.v.x = at[0];
            found.v.y = e + 1 < SIZE ? at[1] : Pixel(0);
            found.v.z = e + 2 < SIZE ? at[2] : Pixel(0);
            found.v.w = e + 3 < SIZE ? at[3] : Pixel(0);
        }
        return found;
    }

    // Scale each number by one float32 product, as every gathering kernel. The number after the last one stays.
    template <class Also>
    __device__ __forceinline__ void store(
        float* x, int sample, int quad, const Quad<Pixel>& found, const Also& also
    ) const {
        const int e = 4 * quad;
        float* const to = x + sample * LINE + e;
        const float4 v = found.times(scale);
        also(sample, e, v);
        if (!Warps::keeps(sample)) return;
        if (SIZE % 4 == 0) {
            *reinterpret_cast<float4*>(to) = v;
            return;
        }
        to[0] = v.x;
        if (e + 1 < SIZE) to[1] = v.y;
        if (e + 2 < SIZE) to[2] = v.z;
        if (e + 3 < SIZE) to[3] = v.w;
    }
};
