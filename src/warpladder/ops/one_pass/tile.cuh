// First linear layer's products with a tile of samples on tensor cores: outputs, and the weight gradient.
//
// A tile of ROWS samples is in shared memory, as pack.cu laid it out: bytes, or two halves of each float in two planes.
// A byte with eight zero bits is a half: byte 2^-24, exactly. Weights and gradients are two halves each, in columns
// next to each other: of a fragment's eight columns 2 u is the high half of number 4 quad + u, 2 u + 1 the low one, and
// a lane adds both products when they leave the tensor cores.
//
//               forward                                        gradient
//   16 samples  x  16 inputs  .  4 outputs' halves     16 inputs  x  16 samples  .  4 outputs' halves
//   a warp has the inputs of its split, and the samples of its share
// local memory: one_pass: with 512 threads, on sm_100, four words more than its 128 registers; none on sm_90
#pragma once
#include "bulk.cuh"
#include "short_batch.cuh"
#include "tensor_panels.cuh"

// BLOCK threads, of which the first THREADS multiply.
template <class Pixel, int INPUTS_, int OUTPUTS_, int ROWS_, int SPLITS_, int BLOCK_ = THREADS>
struct Tile {
    static constexpr bool BYTES = sizeof(Pixel) == 1;
    static constexpr int INPUTS = INPUTS_, OUTPUTS = OUTPUTS_, ROWS = ROWS_, SPLITS = SPLITS_, BLOCK = BLOCK_;
    static constexpr int STEPS = (INPUTS + 15) / 16;    // of 16 inputs
    static constexpr int QUADS = (OUTPUTS + 3) / 4;     // of outputs
    static constexpr int PLANES = BYTES ? 1 : 2, STEP = BYTES ? 16 : 32;        // bytes of a step's row in a plane
    static constexpr int PITCH = (PLANES * STEPS * STEP / 16 | 1) * 16;         // bytes: eight rows in different banks
    static constexpr int SHARES = WARPS / SPLITS, PIECES = ROWS / 16 / SHARES;  // of 16 samples, of a share
    static constexpr int MOST = (STEPS + SPLITS - 1) / SPLITS;                  // steps of a split
    static constexpr int SETS = BLOCK > THREADS ? 1 : 2;  // of fragments and sums: other warps fill the waits, or these
    static constexpr float BACK = BYTES ? 0x1p24f : 1.0f;
    static_assert(PIECES % 2 == 0 && MOST <= 8, "pairs of pieces; short sums in tensor cores");

    __device__ __forceinline__ static int split() { return threadIdx.x / 32 % SPLITS; }
    __device__ __forceinline__ static int share() { return threadIdx.x / 32 / SPLITS; }
    __device__ __forceinline__ static int first_step() { return split() * STEPS / SPLITS; }
    __device__ __forceinline__ static int end_step() { return (split() + 1) * STEPS / SPLITS; }

    // Input of term k of a forward step: a lane's four neighbours are its terms 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, of
    // bytes because it loads them as a word, of halves because pack.cu puts them so.
    __device__ __forceinline__ static int input_of_term(int k) { return k % 8 / 2 * 4 + k / 8 * 2 + k % 2; }
    // Input of row r of a step of the gradient: a lane has two neighbouring bytes of each of two samples.
    __device__ __forceinline__ static int input_of_row(int r) { return BYTES ? r % 8 * 2 + r / 8 : input_of_term(r); }

    // Where a step of a plane begins in the rows of the share's two pieces from piece p on.
    __device__ __forceinline__ static const unsigned char* rows_of(const unsigned char* tile, int step, int plane,
        int p) {
        return tile + (share() * PIECES + p) * 16 * PITCH + (plane * STEPS + step) * STEP;
    }

    // Fragments of two pieces, samples by inputs.
    __device__ __forceinline__ static void by_samples(unsigned (&a)[2][4], const unsigned char* rows) {
        const int lane = threadIdx.x % 32;
        if constexpr (BYTES) {
            unsigned four[4];
            load_matrices(four, rows + lane * PITCH);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                a[k / 2][k % 2] = __byte_perm(four[k], 0u, 0x4140u);
                a[k / 2][k % 2 + 2] = __byte_perm(four[k], 0u, 0x4342u);
            }
        } else {
#pragma unroll
            for (int p = 0; p < 2; ++p) load_matrices(a[p], rows + (p * 16 + lane % 16) * PITCH + lane / 16 * 16);
        }
    }

    // Fragments of two pieces, inputs by samples.
    __device__ __forceinline__ static void by_inputs(unsigned (&a)[2][4], const unsigned char* rows) {
        const int lane = threadIdx.x % 32;
        if constexpr (BYTES) {
            unsigned four[4];
            load_matrices_turned(four, rows + lane * PITCH);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                a[k / 2][k % 2 * 2] = __byte_perm(four[k], 0u, 0x4240u);
                a[k / 2][k % 2 * 2 + 1] = __byte_perm(four[k], 0u, 0x4341u);
            }
        } else {
#pragma unroll
            for (int p = 0; p < 2; ++p) {
                const int row = p * 16 + lane / 16 * 8 + lane % 8;
                load_matrices_turned(a[p], rows + row * PITCH + lane / 8 % 2 * 16);
            }
        }
    }

    // Calls use(fragments of two pieces, p, k) for all pieces and planes of step k of the split's `count`;
    // load(a, rows) fills a. Fragments of the next two pieces are requested before these are used, if there are two
    // SETS.
    template <class Load, class Use>
    __device__ __forceinline__ static void for_pieces(unsigned (&a)[SETS][2][4], const unsigned char* tile, int k,
        int count, const Load& load, const Use& use) {
        constexpr int HALF = PIECES / 2, ALL = PLANES * HALF;
#pragma unroll
        for (int i = 0; i < ALL; ++i) {
            const int now = k * ALL + i, next = (i + 1) % ALL;
            const auto rows = [&](int step, int of) {
                return rows_of(tile, first_step() + step, PLANES - 1 - of / HALF, of % HALF * 2); };
            if (SETS == 1 || now == 0) load(a[now % SETS], rows(k, i));
            if (SETS > 1 && now + 1 < MOST * ALL)
                load(a[(now + 1) % SETS], rows(next > 0 ? k : min(k + 1, count - 1), next));
            use(a[now % SETS], i % HALF * 2);
        }
    }
};

constexpr int GROUP_QUADS = 4;  // quads of outputs whose sums or factors a lane has at a time

// Words of two halves of numbers x and y: the high ones and what is left.
__device__ __forceinline__ void split(float x, float y, unsigned& high, unsigned& low) {
    high = two_halves(x, y);
    low = two_halves(x - low_half(high), y - high_half(high));
}

// Exponent of the power of two that a float of input i, whose largest size is sizes[i], is multiplied by.
__device__ __forceinline__ unsigned input_exponent(const unsigned* __restrict__ sizes, int i) {
    return min(scale_exponent(sizes[i]), 227u);
}

// Fragments of w (OUTPUTS, INPUTS) to shared memory, and the exponents of the outputs' scales; by all threads, which
// meet before they end. A thread has one output, and four neighbouring inputs of every so many steps in registers.
template <class T>
__device__ __forceinline__ void split_weights(uint2* fragments, unsigned* exponents, const float* __restrict__ w,
    const unsigned* __restrict__ sizes) {
    constexpr int ACROSS = 16 * T::QUADS, DOWN = T::BLOCK / ACROSS, EACH = (T::STEPS + DOWN - 1) / DOWN;
    const int t = threadIdx.x % 4, o = threadIdx.x % ACROSS / 4, begin = threadIdx.x / ACROSS;
    for (int k = threadIdx.x; k < 4 * T::QUADS; k += T::BLOCK) exponents[k] = 0u;
    float mine[EACH][4];
    unsigned largest = 0;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const int i = (begin + k * DOWN) * 16 + 4 * t;
        const bool there = begin < DOWN && o < T::OUTPUTS;
        const float* const from = w + o * T::INPUTS + i;
        const float4 four = read_four<T::INPUTS % 4 == 0>(from, there ? T::INPUTS - i : 0);
        mine[k][0] = four.x, mine[k][1] = four.y, mine[k][2] = four.z, mine[k][3] = four.w;
    }
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const int i = (begin + k * DOWN) * 16 + 4 * t;
        if constexpr (!T::BYTES) {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (i + e < T::INPUTS) mine[k][e] *= power_of_two(254u - input_exponent(sizes, i + e));
        }
        largest = max(largest, largest_of(mine[k]));
    }
    largest = largest_of_lanes<1, 4>(largest);
    __syncthreads();
    if (t == 0 && begin < DOWN) atomicMax(exponents + o, largest);
    __syncthreads();
    const float by = power_of_two(scale_exponent(exponents[o]));
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const int step = begin + k * DOWN;
        if (begin >= DOWN || step >= T::STEPS) continue;
        unsigned high[2], low[2];
        split(mine[k][0] * by, mine[k][1] * by, high[0], low[0]);
        split(mine[k][2] * by, mine[k][3] * by, high[1], low[1]);
        uint2* const to = fragments + (step * T::QUADS + o / 4) * 32 + o % 4 * 8 + t;  // columns 2 u and 2 u + 1
        to[0] = make_uint2(high[0], high[1]), to[4] = make_uint2(low[0], low[1]);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 4 * T::QUADS; k += T::BLOCK) exponents[k] = scale_exponent(exponents[k]);
}

// Fragment of a factor with two halves.
__device__ __forceinline__ void take(unsigned (&b)[2], const uint2* fragments) {
    const uint2 both = fragments[threadIdx.x % 32];
    b[0] = both.x, b[1] = both.y;
}

// The splits' parts of the outputs: of rows 8 r to 8 r + 7 lane 4 g + t has row 8 r + g and outputs 4 quad + t.
template <class T>
__device__ __forceinline__ float* part_of(float* parts, int split, int eight, int quad) {
    return parts + ((split * (T::ROWS / 8) + eight) * T::QUADS + quad) * 32 + threadIdx.x % 32;
}

// This warp's part of the outputs of the tile's samples.
template <class T>
__device__ __forceinline__ void multiply(const unsigned char* tile, const uint2* weights, float* parts) {
#pragma unroll
    for (int first = 0; first < T::QUADS; first += GROUP_QUADS) {
        float sum[T::PIECES][GROUP_QUADS][4] = {};
        const int begin = T::first_step(), count = T::end_step() - begin;
        unsigned a[T::SETS][2][4];
#pragma unroll
        for (int k = 0; k < T::MOST; ++k) {
            if (k >= count) continue;
            unsigned b[GROUP_QUADS][2];
#pragma unroll
            for (int q = 0; q < GROUP_QUADS; ++q)
                if (first + q < T::QUADS) take(b[q], weights + ((begin + k) * T::QUADS + first + q) * 32);
            const auto use = [&](const unsigned (&two)[2][4], int piece) {
#pragma unroll
                for (int p = 0; p < 2; ++p)
#pragma unroll
                    for (int q = 0; q < GROUP_QUADS; ++q)
                        if (first + q < T::QUADS) mma_half(sum[piece + p][q], two[p], b[q]);
            };
            T::for_pieces(a, tile, k, count, T::by_samples, use);
        }
#pragma unroll
        for (int p = 0; p < T::PIECES; ++p)
#pragma unroll
            for (int q = 0; q < GROUP_QUADS; ++q)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    if (first + q < T::QUADS)
                        *part_of<T>(parts, T::split(), (T::share() * T::PIECES + p) * 2 + half, first + q) =
                            sum[p][q][2 * half] + sum[p][q][2 * half + 1];
    }
}

// Fragments of the gradient by the outputs, from its columns (OUTPUTS, COLUMN), with a scale for each output by its
// `largest` number in the tile; by THREADS threads.
template <class T, int COLUMN>
__device__ __forceinline__ void split_gradient(uint2* fragments, const float* columns, const unsigned* largest,
    int thread) {
    for (int k = thread; k < T::ROWS / 16 * T::QUADS * 16; k += THREADS) {
        const int t = k % 4, u = k / 4 % 4, o = k / 16 % T::QUADS * 4 + u, piece = k / 16 / T::QUADS;
        unsigned high[2] = {}, low[2] = {};
        if (o < T::OUTPUTS) {
            const float by = power_of_two(scale_exponent(largest[o]));
            const float* const from = columns + o * COLUMN + piece * 16 + 2 * t;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const float2 two = *reinterpret_cast<const float2*>(from + 8 * r);
                split(two.x * by, two.y * by, high[r], low[r]);
            }
        }
        uint2* const to = fragments + k / 16 * 32 + u * 8 + t;
        to[0] = make_uint2(high[0], high[1]), to[4] = make_uint2(low[0], low[1]);
    }
}

// Adds the tile's part of the weight gradient to sum[step of the split][quad][0: row lane / 4, 1: 8 rows further].
template <class T>
__device__ __forceinline__ void add_gradient(const unsigned char* tile, const uint2* gradient, const unsigned* largest,
    float (&sum)[T::MOST][T::QUADS][2]) {
    const int count = T::end_step() - T::first_step();
#pragma unroll
    for (int first = 0; first < T::QUADS; first += GROUP_QUADS) {
        unsigned b[T::PIECES][GROUP_QUADS][2];
        float inverse[GROUP_QUADS];
#pragma unroll
        for (int q = 0; q < GROUP_QUADS; ++q) {
            if (first + q >= T::QUADS) continue;
            inverse[q] = power_of_two(254u - scale_exponent(largest[4 * (first + q) + threadIdx.x % 4]));
#pragma unroll
            for (int p = 0; p < T::PIECES; ++p)
                take(b[p][q], gradient + ((T::share() * T::PIECES + p) * T::QUADS + first + q) * 32);
        }
        unsigned a[T::SETS][2][4];
#pragma unroll
        for (int k = 0; k < T::MOST; ++k) {
            if (k >= count) continue;
            float part[T::SETS][GROUP_QUADS][4] = {};  // of even pieces and of odd ones, which do not wait for them
            const auto use = [&](const unsigned (&two)[2][4], int piece) {
#pragma unroll
                for (int p = 0; p < 2; ++p)
#pragma unroll
                    for (int q = 0; q < GROUP_QUADS; ++q)
                        if (first + q < T::QUADS) mma_half(part[p % T::SETS][q], two[p], b[piece + p][q]);
            };
            T::for_pieces(a, tile, k, count, T::by_inputs, use);
#pragma unroll
            for (int q = 0; q < GROUP_QUADS; ++q) {
                if (first + q >= T::QUADS) continue;
                float(&to)[2] = sum[k][first + q];
                const auto both = [&](int e) {
                    const float even = part[0][q][e] + part[0][q][e + 1];
                    return T::SETS == 1 ? even : even + (part[T::SETS - 1][q][e] + part[T::SETS - 1][q][e + 1]);
                };
                to[0] = fmaf(both(0), inverse[q], to[0]), to[1] = fmaf(both(2), inverse[q], to[1]);
            }
        }
    }
}

// The block's weight gradient (OUTPUTS, INPUTS) to global memory, through shared memory of as many floats; the shares
// are added in their order. By all threads.
template <class T>
__device__ __forceinline__ void store_weight_gradient(const float (&sum)[T::MOST][T::QUADS][2], float* held, float* to,
    float scale, const unsigned* __restrict__ sizes) {
    const int lane = threadIdx.x % 32, begin = T::first_step(), count = T::end_step() - begin;
    for (int share = 0; share < T::SHARES; ++share) {
        __syncthreads();
        if (share != T::share() || threadIdx.x >= THREADS) continue;
#pragma unroll
        for (int k = 0; k < T::MOST; ++k)
#pragma unroll
            for (int q = 0; q < T::QUADS; ++q)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int i = (begin + k) * 16 + T::input_of_row(lane / 4 + 8 * half), o = 4 * q + lane % 4;
                    if (k >= count || i >= T::INPUTS || o >= T::OUTPUTS) continue;
                    float& there = held[o * T::INPUTS + i];
                    there = share > 0 ? there + sum[k][q][half] : sum[k][q][half];
                }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < T::OUTPUTS * T::INPUTS; k += T::BLOCK)
        to[k] = held[k] * (scale * T::BACK)
            * (T::BYTES ? 1.0f : power_of_two(254u - input_exponent(sizes, k % T::INPUTS)));
}

// Begins to copy tile number `tile` of the n samples from position `first` of the order on, without an order from row
// `first` on; by a warp. Samples beyond the last one are what follows, or the last one again.
template <class T>
__device__ __forceinline__ void fetch(int tile, unsigned char* to, const unsigned char* __restrict__ packed,
    const unsigned* __restrict__ order, long long first, int n, Barrier* arrival) {
    const int lane = threadIdx.x % 32;
    if (lane == 0) {
        barrier_expect(arrival, T::ROWS * T::PITCH);
        if (order == nullptr)
            copy_piece(to, packed + (first + tile * T::ROWS) * T::PITCH, T::ROWS * T::PITCH, arrival);
    }
    if (order == nullptr) return;
    __syncwarp();
    for (int r = lane; r < T::ROWS; r += 32) {
        const unsigned at = static_cast<unsigned>(first + min(tile * T::ROWS + r, n - 1));
        copy_piece(to + r * T::PITCH, packed + static_cast<long long>(order_at(order, at)) * T::PITCH, T::PITCH,
            arrival);
    }
}
