// First layer of units.cuh: its products on tensor cores, with the weights in registers.
//
// A block has 16 hidden units. A warp has `count` tiles of 16 inputs of all of them: in a weight gradient dw^T (16
// units, 8 inputs) lane (g, t) = (lane / 4, lane % 4) holds the numbers of one fragment, and these are at the same time
// those of a factor of the outputs, w (16 units, 16 inputs). So weights are loaded once a launch. Weights and gradients
// are split into two halves of 16 bits, scaled for each unit by a power of two; bytes are exact in one half, floats are
// scaled for each input and split. d = a_low b + a_high b_low + a_high b.
#pragma once
#include "tensor_packed.cuh"

// Factor of a byte in a half: its bits are those of byte * 2^-24, and its inverse. A float is scaled by input.
constexpr float BYTE_UNIT = 16777216.0f;

// n samples in shared memory, U::LINE bytes apart, as factors of the products; rows beyond them are any. up, down:
// scales of the inputs, powers of two, and their inverses, (16 TILES,) in shared memory; null for bytes.
template <class U>
struct Samples {
    const unsigned char* rows;
    int n;
    const float *up, *down;

    // Bytes 16 tile to 16 tile + 15 of MANY rows from `row` on, eight at a time: of each the four at 4t of row g, or
    // turned, of the rows 2t and 2t + 1, the two at 2g.
    template <bool TURNED, int MANY>
    __device__ __forceinline__ void load(unsigned (&out)[MANY / 8], int row, int tile) const {
        constexpr int AT_ONCE = MANY % 32 == 0 ? 4 : MANY % 16 == 0 ? 2 : 1;
        const int lane = threadIdx.x % 32 % (8 * AT_ONCE);
#pragma unroll
        for (int i = 0; i < MANY / 8; i += AT_ONCE) {
            unsigned (&some)[AT_ONCE] = reinterpret_cast<unsigned (&)[AT_ONCE]>(out[i]);
            const unsigned char* const from = rows + (row + 8 * i + lane) * U::LINE + 16 * tile;
            if constexpr (TURNED) load_matrices_turned(some, from);
            else load_matrices(some, from);
        }
    }

    // Inputs 4t to 4t + 3 of a tile and row as b of `outputs`, 4t and 4t + 2 in [0]: four bytes that were loaded.
    static __device__ __forceinline__ void inputs(unsigned (&high)[2], unsigned four) {
        high[0] = __byte_perm(four, 0u, 0x4240u);
        high[1] = __byte_perm(four, 0u, 0x4341u);
    }
    // Four floats of a row as b of `outputs`, a high and a low part.
    __device__ __forceinline__ void inputs(unsigned (&high)[2], unsigned (&low)[2], int row, int tile) const {
        const int t = threadIdx.x % 4;
        const float4 x = *reinterpret_cast<const float4*>(rows + row * U::LINE + 64 * tile + 16 * t);
        const float4 by = *reinterpret_cast<const float4*>(up + 16 * tile + 4 * t);
        Packed<SPLIT>::halves(x.x * by.x, x.z * by.z, high[0], low[0]);
        Packed<SPLIT>::halves(x.y * by.y, x.w * by.w, high[1], low[1]);
    }

    // Rows 2t and 2t + 1 as b of a weight gradient: input 2g of a tile in [0], 2g + 1 in [1]: bytes loaded turned.
    static __device__ __forceinline__ void samples(unsigned (&high)[2], unsigned four) { inputs(high, four); }
    // Floats of rows row + 2t and the next one as b of a weight gradient, a high and a low part.
    __device__ __forceinline__ void samples(unsigned (&high)[2], unsigned (&low)[2], int row, int tile) const {
        const int e = 16 * tile + threadIdx.x % 32 / 4 * 2, m = row + threadIdx.x % 4 * 2;
        const float2 by = *reinterpret_cast<const float2*>(up + e);
        float2 x[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            x[i] = make_float2(0.0f, 0.0f);  // beyond the batch: zero times infinity would be NaN
            if (m + i < n) x[i] = *reinterpret_cast<const float2*>(rows + (m + i) * U::LINE + 4 * e);
        }
        Packed<SPLIT>::halves(x[0].x * by.x, x[1].x * by.x, high[0], low[0]);
        Packed<SPLIT>::halves(x[0].y * by.y, x[1].y * by.y, high[1], low[1]);
    }
};

// sums[i][j] += a b[i][j] of a split factor a and of `count` times EACH factors b, split if U has floats: the low parts
// of all come first, so that no product waits for the one before.
template <class U, int MOST, int EACH>
__device__ __forceinline__ void split_steps(
    float (*sums)[EACH][4], const unsigned (&a)[2][4], const unsigned (*high)[EACH][2], const unsigned (*low)[EACH][2],
    int count
) {
#pragma unroll
    for (int part = U::BYTES ? 1 : 0; part < 3; ++part)
#pragma unroll
        for (int i = 0; i < MOST; ++i) {
            if (i >= count) break;
#pragma unroll
            for (int j = 0; j < EACH; ++j)
                mma_half(sums[i][j], a[part == 1 ? 1 : 0], part == 0 ? low[i][j] : high[i][j]);
        }
}

// The scales of a thread's two units, powers of two with these exponents, and their inverses.
struct UnitScales {
    float up[2], down[2];
    __device__ __forceinline__ explicit UnitScales(const unsigned (&exponent)[2]) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            up[half] = power_of_two(exponent[half]);
            down[half] = power_of_two(254u - exponent[half]);
        }
    }
};

// Weights of the warp's tiles: w[q][i] is unit g + 8 (i / 2 % 2), input 16 (first + q) + 4t + 2 (i % 2) + i / 4.
template <class U>
struct TileWeights {
    float w[U::HELD][8];
    int first, count;

    __device__ __forceinline__ TileWeights() : w{} {
        const int warp = __shfl_sync(EVERY_LANE, threadIdx.x / 32, 0);  // the same for all lanes, as the compiler sees
        count = U::TILES / U::WARPS + (warp < U::TILES % U::WARPS);
        first = warp * (U::TILES / U::WARPS) + min(warp, U::TILES % U::WARPS);
    }
    static __device__ __forceinline__ int unit(int i) { return threadIdx.x % 32 / 4 + 8 * (i / 2 % 2); }
    __device__ __forceinline__ int input(int q, int i) const {
        return 16 * (first + q) + threadIdx.x % 4 * 4 + 2 * (i % 2) + i / 4;
    }
    // True for numbers of the layer: the last tile and the last units may be partly empty.
    __device__ __forceinline__ bool exists(int q, int i) const {
        return q < count && unit(i) < U::own() && input(q, i) < U::IN;
    }

    // Call f(q, i, place in the flat weights (HIDDEN, IN)) for each of the thread's weights.
    template <class F>
    __device__ __forceinline__ void each(const F& f) const {
#pragma unroll
        for (int q = 0; q < U::HELD; ++q)
#pragma unroll
            for (int i = 0; i < 8; ++i)
                if (exists(q, i)) f(q, i, (U::first() + unit(i)) * U::IN + input(q, i));
    }

    // A weight by the scale of its input.
    __device__ __forceinline__ float by_input(const Samples<U>& x, int q, int i) const {
        if constexpr (U::BYTES) return w[q][i];
        else return w[q][i] * x.down[input(q, i)];
    }

    // Scales of the two units of this lane, over the warp's inputs.
    __device__ __forceinline__ UnitScales scales(const Samples<U>& x) const {
        float largest[2] = {0.0f, 0.0f};
#pragma unroll
        for (int q = 0; q < U::HELD; ++q) {
            if (q >= count) break;
#pragma unroll
            for (int i = 0; i < 8; ++i) largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], fabsf(by_input(x, q, i)));
        }
        unsigned exponent[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) exponent[half] = shared_exponent<1, 4>(bits_of_size(largest[half]));
        return UnitScales(exponent);
    }

    // sum[n] += w x of the warp's inputs and of eight samples from row + 8 n on, scaled by unit.
    __device__ __forceinline__ void outputs(
        float (&sum)[U::PASS / 8][4], const Samples<U>& x, const UnitScales& scales, int row
    ) const {
        constexpr int COUNT = U::PASS / 8;
        const int g = threadIdx.x % 32 / 4;
        unsigned four[COUNT] = {}, next[COUNT] = {};
        if (U::BYTES && count > 0) x.template load<false, U::PASS>(four, row, first);
#pragma unroll
        for (int q = 0; q < U::HELD; ++q) {
            if (q >= count) break;
            if (U::BYTES && q + 1 < count) x.template load<false, U::PASS>(next, row, first + q + 1);
            unsigned a[2][4], high[COUNT][2], low[COUNT][2];
#pragma unroll
            for (int k = 0; k < 4; ++k)
                Packed<SPLIT>::halves(
                    by_input(x, q, 2 * k) * scales.up[k % 2], by_input(x, q, 2 * k + 1) * scales.up[k % 2], a[0][k],
                    a[1][k]
                );
#pragma unroll
            for (int n = 0; n < COUNT; ++n) {
                if constexpr (U::BYTES) x.inputs(high[n], four[n]);
                else x.inputs(high[n], low[n], row + 8 * n + g, first + q);
                four[n] = next[n];
            }
            split_steps<U, 1, COUNT>(&sum, a, &high, &low, 1);
        }
    }

    // d[q][j] += dz^T x over all samples; dz: (16, DZ_LINE), scaled here by unit.
    __device__ __forceinline__ void gradients(
        float (&d)[U::HELD][2][4], const Samples<U>& x, const float* dz, const UnitScales& scales
    ) const {
        constexpr int COUNT = U::PASS / 16, PAIR = COUNT % 2 == 0 ? 2 : 1;
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll 1  // code that is not in the instruction cache is slower than a loop
        for (int row = 0; row < U::ROWS; row += U::PASS) {
            unsigned a[COUNT][2][4];
#pragma unroll
            for (int deep = 0; deep < COUNT; ++deep)
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    const int at = (g + k % 2 * 8) * U::DZ_LINE + row + 16 * deep + 2 * t + k / 2 * 8;
                    const float2 two = *reinterpret_cast<const float2*>(dz + at);
                    const float by = scales.up[k % 2];
                    Packed<SPLIT>::halves(two.x * by, two.y * by, a[deep][0][k], a[deep][1][k]);
                }
#pragma unroll
            for (int deep = 0; deep < COUNT; deep += PAIR) {
                unsigned four[U::HELD][2 * PAIR];
                if constexpr (U::BYTES)
#pragma unroll
                    for (int q = 0; q < U::HELD; ++q)
                        if (q < count) x.template load<true, 16 * PAIR>(four[q], row + 16 * deep, first + q);
#pragma unroll
                for (int one = 0; one < PAIR; ++one) {
                    unsigned high[U::HELD][2][2], low[U::HELD][2][2];
#pragma unroll
                    for (int q = 0; q < U::HELD; ++q) {
                        if (q >= count) break;
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            unsigned both[2], rest[2];
                            if constexpr (U::BYTES) x.samples(both, four[q][2 * one + half]);
                            else x.samples(both, rest, row + 16 * (deep + one) + 8 * half, first + q);
#pragma unroll
                            for (int j = 0; j < 2; ++j) {
                                high[q][j][half] = both[j];
                                if constexpr (!U::BYTES) low[q][j][half] = rest[j];
                            }
                        }
                    }
                    split_steps<U, U::HELD, 2>(d, a[deep + one], high, low, count);
                }
            }
        }
    }
};

// A step without slots: rules whose step depends on them may have a shorter one for it.
template <class Rule>
__device__ __forceinline__ auto plain_step(const Rule& rule, float& w, float g, int) -> decltype(rule.step(w, g)) {
    rule.step(w, g);
}
template <class Rule>
__device__ __forceinline__ void plain_step(const Rule& rule, float& w, float g, long) {
    float a = 0.0f, b = 0.0f;
    rule.step(w, g, a, b);
}

// Sum over the warps of one number of `parts` (WARPS, 8, SUMS_LINE): of a unit's column c, or of b2 if the unit is 16.
template <class U>
__device__ __forceinline__ float sum_of_parts(const float* parts, int unit, int c) {
    const int at = unit % 8 * U::SUMS_LINE + unit / 8 * (U::OUT + 1) + c;
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < U::WARPS; ++warp) sum += parts[warp * 8 * U::SUMS_LINE + at];
    return sum;
}

// The layer's weights, biases and slots during a launch: weights in registers, their slots in shared memory, slots
// (SLOTS, 8 HELD, THREADS). All threads of a unit have its bias and the bias's slots.
template <class U>
struct FirstLayer {
    TileWeights<U> tiles;
    float bias[2] = {0.0f, 0.0f}, bias_slots[2][2] = {};

    static __device__ __forceinline__ float* slot(float* slots, int number, int q, int i) {
        return slots + ((number * U::HELD + q) * 8 + i) * THREADS + threadIdx.x;
    }

    // Copy all between the flat arrays, weight (HIDDEN, IN) at w_at and bias (HIDDEN,) at b_at, and the block's.
    template <bool INTO>
    __device__ __forceinline__ void move(float* params, float* first, float* second, float* slots, int w_at, int b_at) {
        float* const flat[3] = {params, first, second};
        tiles.each([&](int q, int i, int at) {
#pragma unroll
            for (int array = 0; array <= U::SLOTS; ++array) {
                float& own = array == 0 ? tiles.w[q][i] : *slot(slots, array - 1, q, i);
                if (INTO) own = flat[array][w_at + at];
                else flat[array][w_at + at] = own;
            }
        });
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int unit = tiles.unit(2 * half);
            if (unit >= U::own() || (!INTO && (threadIdx.x / 32 != 0 || threadIdx.x % 4 != 0))) continue;
#pragma unroll
            for (int array = 0; array <= U::SLOTS; ++array) {
                float& own = array == 0 ? bias[half] : bias_slots[array - 1][half];
                float& other = flat[array][b_at + U::first() + unit];
                if (INTO) own = other;
                else other = own;
            }
        }
    }

    // Step all by dw = dz^T x, of the scaled dz, and by db, the sums in column OUT of `parts` (units.cuh). Numbers
    // beyond the layer stay zero. Eight weights are stepped at a time, without branches: none waits for another.
    template <class Rule>
    __device__ __forceinline__ void update(
        const Samples<U>& x, const float* dz, const UnitScales& scales, const float* parts, float* slots, float limit,
        const Rule& rule
    ) {
        const bool clips = limit < __uint_as_float(0x7F800000u);
        const bool present[2] = {tiles.unit(0) < U::own(), tiles.unit(2) < U::own()};
        float d[U::HELD][2][4] = {};
        tiles.gradients(d, x, dz, scales);
#pragma unroll
        for (int q = 0; q < U::HELD; ++q) {
            if (q >= tiles.count) break;
            float a[8] = {}, b[8] = {};
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                d[q][i / 4][i % 4] *= scales.down[i / 2 % 2];
                if constexpr (!U::BYTES) d[q][i / 4][i % 4] *= x.down[tiles.input(q, i)];
                if constexpr (U::SLOTS > 0) a[i] = *slot(slots, 0, q, i);
                if constexpr (U::SLOTS > 1) b[i] = *slot(slots, 1, q, i);
            }
            if (clips)
#pragma unroll
                for (int i = 0; i < 8; ++i) d[q][i / 4][i % 4] = clip(d[q][i / 4][i % 4], limit);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if constexpr (U::SLOTS == 0) plain_step(rule, tiles.w[q][i], d[q][i / 4][i % 4], 0);
                else rule.step(tiles.w[q][i], d[q][i / 4][i % 4], a[i], b[i]);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if (!(present[i / 2 % 2] && (U::IN % 16 == 0 || tiles.input(q, i) < U::IN))) tiles.w[q][i] = 0.0f;
                if constexpr (U::SLOTS > 0) *slot(slots, 0, q, i) = a[i];
                if constexpr (U::SLOTS > 1) *slot(slots, 1, q, i) = b[i];
            }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float gradient = sum_of_parts<U>(parts, tiles.unit(2 * half), U::OUT);
            rule.step(bias[half], clip(gradient, limit), bias_slots[0][half], bias_slots[1][half]);
            if (!present[half]) bias[half] = 0.0f;
        }
    }
};
