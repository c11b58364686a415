// Layers of a block's few samples, with weights and activations in shared memory. S samples of a width are S rows of
// padded(width) floats, a layer's weights padded(outputs) rows of padded(inputs); what fills up quads is 0. Places in
// shared memory are offsets in floats: as arguments of functions that are not inlined, pointers would be generic.
//
// A warp computes 16 outputs, or inputs in a backward pass, of all S samples: a lane 4 of them, from every eighth quad
// of the numbers that are summed. The eight lanes' parts are added by shuffles, in a fixed order.
#pragma once
#include "bulk.cuh"
#include "functions.cuh"
#include "order.cuh"
#include "pixels.cuh"
#include "short_batch.cuh"
#include "warp.cuh"

__device__ constexpr int quads(int width) { return (width + 3) / 4; }
__device__ constexpr int padded(int width) { return 4 * quads(width); }

// The block's samples: `count` of them from number `begin` of n on; the others of its S are zeros, and nowhere stored.
struct Samples {
    int begin, count;
};

__device__ __forceinline__ float* shared_floats() {
    extern __shared__ float4 memory[];
    return reinterpret_cast<float*>(memory);
}

#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900
constexpr bool COPY_ENGINE = true;

// Initialises the barriers of `count` copies; the threads meet before the first copy.
__device__ __forceinline__ void begin_copies(Barrier* arrivals, int count) {
    if (threadIdx.x == 0) {
        for (int k = 0; k < count; ++k) barrier_init(arrivals + k, 1);
        barriers_ready();
    }
    __syncthreads();
}
// Starts one copy by the copy engine (TMA), to where other threads may have written.
__device__ __forceinline__ void copy_matrix(float* to, const float* from, unsigned bytes, Barrier* arrival) {
    pieces_written();
    if (threadIdx.x > 0) return;
    barrier_expect(arrival, bytes);
    copy_piece(to, from, bytes, arrival);
}
#else
constexpr bool COPY_ENGINE = false;
__device__ __forceinline__ void begin_copies(Barrier*, int) {}
__device__ __forceinline__ void copy_matrix(float*, const float*, unsigned, Barrier*) {}
__device__ __forceinline__ void barrier_wait(Barrier*, unsigned) {}
#endif

// Starts copying w (OUT, IN) to shared memory, as a group of copies: by the copy engine (TMA) in one piece, if there
// is one and rows are whole quads, else by all threads.
template <int IN, int OUT>
__device__ __noinline__ void hold(int to, const float* __restrict__ w, Barrier* arrival) {
    float* const held = shared_floats() + to;
    if constexpr (COPY_ENGINE && IN % 4 == 0) {
        for (int t = OUT * IN + threadIdx.x; t < padded(OUT) * IN; t += THREADS) held[t] = 0.0f;
        copy_matrix(held, w, 4 * OUT * IN, arrival);
    } else {
#pragma unroll 8
        for (int t = threadIdx.x; t < padded(OUT) * quads(IN); t += THREADS) {
            const int o = t / quads(IN), i = t % quads(IN) * 4;
            copy_four<IN % 4 == 0>(held + 4 * t, w + o * IN + i, o < OUT ? IN - i : 0);
        }
    }
    commit_copies();
}

// Waits until the copy of w (OUT, IN) is in shared memory, for all threads; PENDING groups have started after its own.
template <int IN, int PENDING>
__device__ __forceinline__ void ready(Barrier* arrival) {
    if constexpr (COPY_ENGINE && IN % 4 == 0) {
        barrier_wait(arrival, 0);
    } else {
        wait_for_copies<PENDING>();
        __syncthreads();
    }
}

// Row of the data set with this warp's sample, whose block's first one is at position `first` of the order; of the
// batch's array without an order. A sample that is not there has the row of the block's last one.
__device__ __forceinline__ int row_of(const unsigned* __restrict__ order, long long first, Samples mine) {
    const int within = min(static_cast<int>(threadIdx.x / 32), mine.count - 1);
    if (order == nullptr) return mine.begin + within;
    return order_at(order, static_cast<unsigned>(min(first + within, order_length(order) - 1LL)));
}

// Fills this warp's row at `to` with numbers of a row of `source`, times `scale`, after their functions; with `slopes`,
// unless below 0, and x (n, 4 * quads(IN)), unless null.
template <int IN, int S, class Then, class Pixel>
__device__ void gather(int to, int slopes, const Pixel* __restrict__ source, float scale, int row,
    float* __restrict__ x, Masks masks, Samples mine) {
    const int lane = threadIdx.x % 32, s = threadIdx.x / 32;
    if (s >= S) return;
    const bool present = s < mine.count;
    const Pixel* const from = source + static_cast<long long>(row) * IN;
    const long long at = static_cast<long long>(mine.begin + s) * padded(IN);
    float* const here = shared_floats() + s * padded(IN);
#pragma unroll 8
    for (int i = lane; i < padded(IN); i += 32) {
        Traced number = {0.0f, 0.0f};
        if (i < IN && present) {
            Pixels<Pixel, 1> one;
            one.load(from + i);
            number = Then::of(one[0] * scale, masks.at(s, i));
        }
        here[to + i] = number.value;
        if (Then::BACK == MULTIPLIED && slopes >= 0) here[slopes + i] = number.slope;
        if (x != nullptr && present) x[at + i] = number.value;
    }
}

constexpr int GROUP = 16;  // outputs or inputs of a warp

// Adds the values of the eight lanes that differ in the bits from OFFSET down, OFFSET / 2 and OFFSET / 4; then `store`
// gets each sum that is left in the lane, and its number.
template <int N, int OFFSET, class Store>
__device__ __forceinline__ void add_lanes(float* value, const Store& store) {
    Share share = {0, N};
    warp_sums<N, OFFSET / 4, OFFSET>(value, share);
#pragma unroll
    for (int k = 0; k < (N + 7) / 8; ++k)
        if (k < share.count) store(share.first + k, value[k]);
}

// y[s, o] = sum over i of x[s, i] w[o, i], and b[o] unless null, after functions, to the rows at `y` and to `stored`
// (n, 4 * quads(FULL)) unless null; their slopes, if they are multiplied by, to those at `slopes`. OUT outputs are a
// piece of a layer's FULL. A quarter of a warp reads eight quads of a row of w, in different banks.
template <int IN, int OUT, int S, class Then, int FULL>
__device__ __noinline__ void forward(int x, int w, const float* __restrict__ b, int y, int slopes,
    float* __restrict__ stored, Masks masks, Samples mine) {
    float* const shared = shared_floats();
    const int part = threadIdx.x % 8;
    for (int from = threadIdx.x / 32 * GROUP; from < OUT; from += WARPS * GROUP) {
        const int first = from + threadIdx.x % 32 / 8 * 4;
        float bias[4];
#pragma unroll
        for (int p = 0; p < 4; ++p) bias[p] = part == 0 && b != nullptr && first + p < OUT ? b[first + p] : 0.0f;
        float sum[4 * S] = {};
#pragma unroll 2
        for (int q = part; q < quads(IN); q += 8) {
            float4 weight[4];
#pragma unroll
            for (int p = 0; p < 4; ++p)
                weight[p] = *reinterpret_cast<const float4*>(
                    shared + w + (min(first, padded(OUT) - 4) + p) * padded(IN) + 4 * q);
#pragma unroll
            for (int s = 0; s < S; ++s) {
                const float4 value = *reinterpret_cast<const float4*>(shared + x + s * padded(IN) + 4 * q);
#pragma unroll
                for (int p = 0; p < 4; ++p)
                    sum[4 * s + p] = fmaf(value.w, weight[p].w, fmaf(value.z, weight[p].z, fmaf(value.y, weight[p].y,
                        fmaf(value.x, weight[p].x, sum[4 * s + p]))));
            }
        }
#pragma unroll
        for (int k = 0; k < 4 * S; ++k) sum[k] += bias[k % 4];
        add_lanes<4 * S, 4>(sum, [&](int number, float total) {
            const int s = number / 4, o = first + number % 4;
            if (o >= padded(OUT)) return;
            Traced traced = Then::of(total, masks.at(s, o));
            if (OUT % 4 && o >= OUT) traced = {0.0f, 0.0f};
            shared[y + s * padded(FULL) + o] = traced.value;
            if (Then::BACK == MULTIPLIED) shared[slopes + s * padded(FULL) + o] = traced.slope;
            if (stored != nullptr && s < mine.count)
                stored[static_cast<long long>(mine.begin + s) * padded(FULL) + o] = traced.value;
        });
    }
    __syncthreads();
}

// Parts of a sum over a layer's outputs: the piece that begins it, and the one that ends it.
enum { BEGINS = 1, ENDS = 2, WHOLE = BEGINS | ENDS };

// dx[s, i] = sum over o of g[s, o] w[o, i] from the rows at `g`, then back through x's functions. It takes the place
// of the rows at `x` and goes to `stored` (n, PITCH). OUT outputs are a piece of FULL: the sum so far is in rows at
// `sums`. A quarter of a warp reads four quads of two rows of w.
template <int IN, int OUT, int S, int BACK, int PITCH, int FULL, int PART>
__device__ __noinline__ void backward(int g, int w, int x, int slopes, int sums, float* __restrict__ stored,
    Samples mine) {
    float* const shared = shared_floats();
    const int lane = threadIdx.x % 32, part = lane / 4;
    for (int group = threadIdx.x / 32 * GROUP; group < IN; group += WARPS * GROUP) {
        const int column = min(group + lane % 4 * 4, padded(IN) - 4);
        float sum[4 * S] = {};
#pragma unroll 2
        for (int r = part; r < quads(OUT); r += 8) {
            float4 weight[4];
#pragma unroll
            for (int k = 0; k < 4; ++k)
                weight[k] = *reinterpret_cast<const float4*>(shared + w + (4 * r + k) * padded(IN) + column);
#pragma unroll
            for (int s = 0; s < S; ++s) {
                const float4 value = *reinterpret_cast<const float4*>(shared + g + s * padded(FULL) + 4 * r);
                const float each[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
                for (int k = 0; k < 4; ++k) add_product(sum + 4 * s, each[k], weight[k]);
            }
        }
        add_lanes<4 * S, 16>(sum, [&](int number, float total) {
            const int s = number / 4, i = group + lane % 4 * 4 + number % 4;
            if (i >= padded(IN)) return;
            float* const here = shared + x + s * padded(IN) + i;
            float* const sum_so_far = shared + sums + s * padded(IN) + i;
            if constexpr (!(PART & BEGINS)) total += *sum_so_far;
            if constexpr (!(PART & ENDS)) {
                *sum_so_far = total;
                return;
            }
            total = before<BACK>(total, *here, shared + slopes + s * padded(IN) + i);
            *here = total;
            if (s < mine.count && i < PITCH) stored[static_cast<long long>(mine.begin + s) * PITCH + i] = total;
        });
    }
    __syncthreads();
}
