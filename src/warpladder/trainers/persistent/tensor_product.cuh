// One tile of a matrix product, computed by one block on tensor cores: c[m, n] = sum over k of a[m, k] * b[n, k].
//
// A float is the sum of two numbers in tf32: high, rounded to 11 bits, and low, the rest. A product of two floats is
// three products, high * high + high * low + low * high; what is left out is 2^-22 of it. So the range is that of
// floats, and no factor needs a scale.
//
// The copy engine (TMA) brings pieces of 32 numbers of k, all at once if they fit; each has a barrier. Groups of warps
// divide the pieces among themselves. A factor that is known before a wait of all blocks is requested before it.
// local memory: persistent_epochs: loop variables of a step, spilled around the calls of its phases
#pragma once
#include "async.cuh"
#include "bulk.cuh"
#include "mma.cuh"
#include "panel.cuh"
#include "tensor_panel.cuh"
#include "turn.cuh"
#include "warp.cuh"

#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900  // the copy engine

template <class T, class A, class B, int ARRAYS>
struct EarlyInShared;

constexpr int UNROLLED = 2;  // steps of eight numbers of k in a row: four take more code, and longer

// A tile of ROWS rows, multiples of 16, and COLUMNS columns, of which a warp computes WARP_ROWS by WARP_COLUMNS. CHUNK
// pieces are requested together; there is room for BUFFERS chunks, 1 if the first chunk is all. STREAM: true if the
// chunks of a block's next tiles are requested while it computes one, so that the sums are not where pieces are.
template <int ROWS_, int COLUMNS_, int WARP_ROWS_, int WARP_COLUMNS_, int CHUNK_, int BUFFERS_, bool STREAM_ = false>
struct TensorTile {
    static constexpr bool STREAM = STREAM_;
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, WARP_ROWS = WARP_ROWS_, WARP_COLUMNS = WARP_COLUMNS_;
    static constexpr int CHUNK = CHUNK_, BUFFERS = BUFFERS_, SIZE = ROWS * COLUMNS;
    static constexpr int ACROSS = COLUMNS / WARP_COLUMNS, PLACES = ROWS / WARP_ROWS * ACROSS;  // warps of a group
    static constexpr int GROUPS = THREADS / 32 / PLACES, PARTS = GROUPS;
    static constexpr int PITCH = COLUMNS + 8, QUANTUM = 8, WIDE = 4;
    static constexpr int EACH = (SIZE / WIDE + THREADS - 1) / THREADS;
    template <class A, class B, int ARRAYS>
    using Early = EarlyInShared<TensorTile, A, B, ARRAYS>;
    static_assert(GROUPS * PLACES == THREADS / 32 && WARP_ROWS % 16 == 0 && WARP_COLUMNS % 16 == 0, "whole warps");
    static_assert(CHUNK * BUFFERS <= 32, "a barrier for each piece");
};

// Barriers of the pieces in shared memory, and for each a bit: the parity of its next phase.
struct PieceBarriers {
    Barrier at[32];
    unsigned parity;
};

__device__ __forceinline__ PieceBarriers& piece_barriers() {
    __shared__ PieceBarriers barriers;
    return barriers;
}

// Make the barriers, by all threads at the beginning of a launch. Both factors arrive at each.
__device__ __forceinline__ void make_piece_barriers() {
    if (threadIdx.x < 32) barrier_init(piece_barriers().at + threadIdx.x, 2);
    if (threadIdx.x == 0) piece_barriers().parity = 0;
    barriers_ready();
    __syncthreads();
}

// Sums of a warp: for each 16 x 8 numbers a fragment of high * high, and one of the other products; tensor cores
// truncate, and lose less of small sums. `row`: with ROW_SUMS the lane's part of the sums of a's rows g and g + 8.
template <class T, bool ROW_SUMS>
struct WarpSums {
    static constexpr int DOWN = T::WARP_ROWS / 16, ACROSS = T::WARP_COLUMNS / 16;
    float high[DOWN][2 * ACROSS][4] = {}, low[DOWN][2 * ACROSS][4] = {};
    float row[DOWN][2] = {};

    int at_a[DOWN][2][2], at_b[ACROSS][2][2];

    // Find the places of the warp's rows m and n of the factors.
    template <class PanelA, class PanelB, bool TURNED>
    __device__ __forceinline__ void find(int m, int n) {
#pragma unroll
        for (int i = 0; i < DOWN; ++i) PanelA::template find<TURNED>(at_a[i], m + 16 * i);
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) PanelB::template find<TURNED>(at_b[j], n + 16 * j);
    }

    // Add the products of eight numbers of k of a piece, number `step` of four, of which `left` count.
    template <class PanelA, class PanelB, bool TURNED>
    __device__ __forceinline__ void add(const float* a, const float* b, int step, int left) {
        unsigned high_a[DOWN][4], low_a[DOWN][4], high_b[ACROSS][4], low_b[ACROSS][4];
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
            unsigned word[2][2];
            PanelA::template read<TURNED>(word, a, at_a[i], step, left);
#pragma unroll
            for (int e = 0; e < 4; ++e) high_a[i][e] = word[e % 2][e / 2];
        }
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            unsigned word[2][2];
            PanelB::template read<TURNED>(word, b, at_b[j], step, left);
#pragma unroll
            for (int e = 0; e < 4; ++e) high_b[j][e] = word[e / 2][e % 2];
        }
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
            if constexpr (ROW_SUMS) {
#pragma unroll
                for (int e = 0; e < 4; ++e) row[i][e % 2] += __uint_as_float(high_a[i][e]);
            }
            split(high_a[i], low_a[i]);
        }
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) split(high_b[j], low_b[j]);
        multiply(low, low_a, high_b);
        multiply(high, high_a, high_b);
        multiply(low, high_a, low_b);
    }

    // Store the warp's sums in a part of the tile, and the sums of rows as its column COLUMNS.
    __device__ __forceinline__ void store(float* part, int m, int n) const {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
            float* const to = part + (m + 16 * i + lane / 4) * T::PITCH + n + 2 * (lane % 4);
#pragma unroll
            for (int j = 0; j < 2 * ACROSS; ++j) {
                const float(&h)[4] = high[i][j], (&l)[4] = low[i][j];
                *reinterpret_cast<float2*>(to + 8 * j) = make_float2(h[0] + l[0], h[1] + l[1]);
                *reinterpret_cast<float2*>(to + 8 * j + 8 * T::PITCH) = make_float2(h[2] + l[2], h[3] + l[3]);
            }
            if constexpr (ROW_SUMS) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    float sum = row[i][half];
                    sum += __shfl_xor_sync(EVERY_LANE, sum, 1);
                    sum += __shfl_xor_sync(EVERY_LANE, sum, 2);
                    if (n == 0 && lane % 4 == 0) part[(m + 16 * i + 8 * half + lane / 4) * T::PITCH + T::COLUMNS] = sum;
                }
            }
        }
    }

private:
    static __device__ __forceinline__ void multiply(
        float (&d)[DOWN][2 * ACROSS][4], const unsigned (&a)[DOWN][4], const unsigned (&b)[ACROSS][4]
    ) {
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
#pragma unroll
            for (int j = 0; j < 2 * ACROSS; ++j) {
                const unsigned one[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
                mma_tf32(d[i][j], a[i], one);
            }
    }
};

// The tile whose first row is m0 and whose first column is n0, summed over 0 <= k < depth. A, B: factors' order.
template <class T, class A, class B>
struct TensorProduct {
    using PanelA = TensorPanel<T::ROWS, A::K_INSIDE>;
    using PanelB = TensorPanel<T::COLUMNS, B::K_INSIDE>;
    static constexpr bool TURNED = !A::K_INSIDE && !B::K_INSIDE;
    static constexpr int PANELS = 256 + T::CHUNK * T::BUFFERS * (PanelA::SIZE + PanelB::SIZE);  // with their alignment
    Maps maps;
    int m0, n0, depth;
    TileStream stream;  // with T::STREAM

    __device__ __forceinline__ int pieces() const { return (depth + TERMS - 1) / TERMS; }
    __device__ __forceinline__ int chunks() const { return (pieces() + T::CHUNK - 1) / T::CHUNK; }
    static __device__ __forceinline__ float* panel(int place) {
        return reinterpret_cast<float*>(first_stage(tile_memory())) + place * (PanelA::SIZE + PanelB::SIZE);
    }

    // Chunks of this tile that are requested first.
    __device__ __forceinline__ int at_first() const { return min(T::BUFFERS, chunks()); }

    // Memory of the sums.
    static __device__ __forceinline__ float* sums_memory() { return tile_memory() + (T::STREAM ? PANELS : 0); }

    // Place of a chunk of this tile, or of later ones, among those in shared memory.
    __device__ __forceinline__ int buffer_of(int chunk) const {
        return (T::STREAM ? stream.number * chunks() + chunk : chunk) % T::BUFFERS;
    }

    // Request a chunk of a, of b, or of both: a lane of each warp some of its pieces. A stream ends with its last tile.
    __device__ __forceinline__ void request(int chunk, bool left, bool right) const {
        if (threadIdx.x % 32 != 0) return;
        const int buffer = buffer_of(chunk);
        int m = m0, n = n0;
        if constexpr (T::STREAM) {
            const int tile = stream.tile + chunk / chunks() * stream.blocks;
            if (tile >= stream.tiles) return;
            m = tile / stream.across * T::ROWS, n = tile % stream.across * T::COLUMNS, chunk %= chunks();
        }
        const int first = chunk * T::CHUNK, here = min(T::CHUNK, pieces() - first);
        for (int i = threadIdx.x / 32; i < here; i += THREADS / 32) {
            const int place = buffer * T::CHUNK + i, k0 = (first + i) * TERMS;
            Barrier* const barrier = piece_barriers().at + place;
            if (left) PanelA::request(panel(place), maps.left, m, k0, barrier);
            if (right) PanelB::request(panel(place) + PanelA::SIZE, maps.right, n, k0, barrier);
        }
    }

    // Request the first chunks, without the factor `ahead`, which this tile's have.
    __device__ __forceinline__ void request_chunks(int count, Ahead ahead) const {
#pragma unroll 1
        for (int chunk = 0; chunk < count; ++chunk) {
            const bool had = chunk < at_first();
            request(chunk, !had || ahead != LEFT, !had || ahead != RIGHT);
        }
    }

    // The sums, after both factors are requested. Every thread calls it, and passes `end_of_tile` after reading
    // the sums. ROW_SUMS: true for the sums of a's rows as column COLUMNS.
    template <bool ROW_SUMS>
    __device__ __forceinline__ Sums<T> finish() const {
        const int warp = threadIdx.x / 32, group = warp / T::PLACES, place = warp % T::PLACES;
        const int m = place / T::ACROSS * T::WARP_ROWS, n = place % T::ACROSS * T::WARP_COLUMNS;
        unsigned parity = piece_barriers().parity;
        WarpSums<T, ROW_SUMS> sums;
        sums.template find<PanelA, PanelB, TURNED>(m, n);
        // eight numbers of k of a piece of the chunk in `buffer`, of which `left` count
        const auto add = [&](int buffer, int piece, int step, int left) {
            const float* const from = panel(buffer * T::CHUNK + piece);
            sums.template add<PanelA, PanelB, TURNED>(from, from + PanelA::SIZE, step, left);
        };
        const auto wait = [&](int buffer, int piece) {
            const int at = buffer * T::CHUNK + piece;
            barrier_wait(piece_barriers().at + at, parity >> at & 1);
        };
#pragma unroll 1
        for (int chunk = 0; chunk < chunks(); ++chunk) {
            const int buffer = buffer_of(chunk), k0 = chunk * T::CHUNK * TERMS;
            const int here = min(T::CHUNK * TERMS, depth - k0), steps = (here + 7) / 8;
            const int rounds = here / (TERMS * T::GROUPS);
#pragma unroll 1
            for (int round = 0; round < rounds; ++round) {
                const int piece = round * T::GROUPS + group;
                wait(buffer, piece);
#pragma unroll UNROLLED
                for (int step = 0; step < 4; ++step) add(buffer, piece, step, 8);
            }
            // the last pieces are divided by steps
#pragma unroll 1
            for (int step = 4 * T::GROUPS * rounds + group; step < steps; step += T::GROUPS) {
                wait(buffer, step / 4);
                add(buffer, step / 4, step % 4, here - 8 * step);
            }
            const int used = (steps + 3) / 4;
            parity ^= (used == 32 ? ~0u : (1u << used) - 1) << buffer * T::CHUNK;
            if (T::STREAM || (T::BUFFERS > 1 && chunk + T::BUFFERS < chunks())) {
                __syncthreads();  // all have left the buffer
                request(chunk + T::BUFFERS, true, true);
            }
        }
        if (!T::STREAM) __syncthreads();
        if (threadIdx.x == 0) piece_barriers().parity = parity;
        sums.store(sums_memory() + group * Sums<T>::PART, m, n);
        __syncthreads();
        return {sums_memory()};
    }
};

// A tile's product, left in the tile's memory: one function for all layers with such tiles, since code that runs once a
// step is as slow as it is long.
template <class T, class A, class B, bool ROW_SUMS>
__device__ __noinline__ void tensor_product(Maps maps, int m0, int n0, int depth, Ahead ahead, TileStream stream) {
    const TensorProduct<T, A, B> product = {maps, m0, n0, depth, stream};
    if (!T::STREAM || stream.number == 0) product.request_chunks(T::STREAM ? T::BUFFERS : product.at_first(), ahead);
    product.template finish<ROW_SUMS>();
}

// Order of a factor's numbers in memory.
template <bool K_INSIDE_>
struct Along {
    static constexpr bool K_INSIDE = K_INSIDE_;
};

// A tile's product. ahead: the factor that was requested before the call. stream: the block's tiles, with T::STREAM.
template <bool ROW_SUMS = false, int R, int C, int WR, int WC, int K, int S, bool STREAM, class A, class B>
__device__ __forceinline__ Sums<TensorTile<R, C, WR, WC, K, S, STREAM>> multiply(
    TensorTile<R, C, WR, WC, K, S, STREAM>, const A&, const B&, Maps maps, int m0, int n0, int depth,
    Ahead ahead = NOTHING, TileStream stream = {}
) {
    using T = TensorTile<R, C, WR, WC, K, S, STREAM>;
    using InA = Along<A::K_INSIDE>;
    using InB = Along<B::K_INSIDE>;
    tensor_product<T, InA, InB, ROW_SUMS>(maps, m0, n0, depth, ahead, stream);
    return {TensorProduct<T, InA, InB>::sums_memory()};
}

// Request one factor of a tile's product before its phase. stream: as of `multiply`.
template <Ahead AHEAD, class A, class B, class T>
__device__ __forceinline__ void request_product(T, Maps maps, int m0, int n0, int depth, TileStream stream = {}) {
    const TensorProduct<T, A, B> product = {maps, m0, n0, depth, stream};
    product.request_chunks(product.at_first(), AHEAD == LEFT ? RIGHT : LEFT);
}

// Numbers that a thread needs after a product, requested before it: ARRAYS times its numbers of the tile. They are
// copied to shared memory, where nothing waits for them and no register holds them.
template <class T, class A, class B, int ARRAYS>
struct EarlyInShared {
    static constexpr int PANELS = TensorProduct<T, A, B>::PANELS, SUMS = T::PARTS * Sums<T>::PART + T::SIZE;
    static constexpr int BEGIN = T::STREAM ? PANELS + SUMS : PANELS > SUMS ? PANELS : SUMS;

    static __device__ __forceinline__ float* place(int array, int i) {
        return tile_memory() + BEGIN + array * T::SIZE + i;
    }

    // Request the numbers from i on of the tile; zeros if they are not `wanted`.
    __device__ __forceinline__ void request(int array, int, int i, const float* from, bool wanted) {
        copy_sixteen(place(array, i), from, wanted ? 4 : 0);
    }

    // Request `count` numbers of the tile from i on, which are `pitch` floats apart; zeros beyond them.
    __device__ __forceinline__ void request_apart(int array, int, int i, const float* from, int pitch, int count) {
#pragma unroll
        for (int j = 0; j < 4; ++j) copy_float(place(array, i) + j, j < count ? from + j * pitch : from, j < count);
    }

    // Wait for all numbers of this thread.
    __device__ __forceinline__ void arrive() const {
        commit_copies();
        wait_for_copies<0>();
    }

    __device__ __forceinline__ void read(float (&out)[4], int array, int, int i) const {
        load_four(out, place(array, i));
    }
};

#endif
