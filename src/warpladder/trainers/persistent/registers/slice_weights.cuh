// A block's slice of the weights of inputs.cuh, and the bias: loaded, used as factors, stepped and stored.
// D: the sizes, `Inputs`. g = lane / 4 and t = lane % 4.
#pragma once
#include "nan.cuh"
#include "tile_products.cuh"

// A group's gradient by a band of outputs as a factor: a lane's samples 2t and 2t + 1, of outputs g in [0] and g + 8 in
// [1], and its inverse scales.
template <class D>
struct GradientFactor {
    unsigned high[2], low[2];
    float down[2];

    __device__ __forceinline__ void load(const float* from) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint2 two = make_uint2(0u, 0u);
            unsigned exponent = 127;
            if (half == 0 || D::OUT > 8) {
                two = reinterpret_cast<const uint2*>(from)[32 * half + lane];
                exponent = reinterpret_cast<const unsigned char*>(from + 128)[8 * half + lane / 4];
            }
            high[half] = two.x, low[half] = two.y, down[half] = power_of_two(254u - exponent);
        }
    }
};

// All bands of COUNT groups, from `first` on.
template <class D, int COUNT>
__device__ __forceinline__ void load_groups(
    GradientFactor<D> (&a)[COUNT][D::BANDS], const float* gradients, int first
) {
#pragma unroll
    for (int one = 0; one < COUNT; ++one)
#pragma unroll
        for (int b = 0; b < D::BANDS; ++b) a[one][b].load(gradients + (first + one) * D::GRADIENT + b * D::BAND);
}

template <class D>
struct SliceWeights {
    static constexpr int ARRAYS = 1 + D::SLOTS;
    float all[ARRAYS][D::HELD][D::BANDS][8] = {};

    static __device__ __forceinline__ int tile(int q) { return threadIdx.x / 32 + q * D::WARPS; }
    static __device__ __forceinline__ int output(int b, int i) {
        return 16 * b + threadIdx.x % 32 / 4 + 8 * (i / 2 % 2);
    }
    static __device__ __forceinline__ int input(int q, int i) {
        return 16 * tile(q) + threadIdx.x % 4 * 4 + 2 * (i % 2) + i / 4;
    }
    static __device__ __forceinline__ bool exists(int q, int b, int i) {
        return tile(q) < D::count() && output(b, i) < D::OUT && 16 * D::first() + input(q, i) < D::IN;
    }

    // Copy all between the flat arrays, weight (OUT, IN) at w_at, and the registers.
    template <bool INTO>
    __device__ __forceinline__ void move(float* params, float* first, float* second, int w_at) {
        float* const flat[3] = {params, first, second};
#pragma unroll
        for (int array = 0; array < ARRAYS; ++array)
#pragma unroll
            for (int q = 0; q < D::HELD; ++q)
#pragma unroll
                for (int b = 0; b < D::BANDS; ++b)
#pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        if (!exists(q, b, i)) continue;
                        float& other = flat[array][w_at + output(b, i) * D::IN + 16 * D::first() + input(q, i)];
                        if (INTO) all[array][q][b][i] = other;
                        else other = all[array][q][b][i];
                    }
    }

    // Store the weights as factors of the outputs: fragments (TILES, BANDS, 2, 32) of 16 bytes, inverse scales
    // (TILES, BANDS, 8, 2).
    __device__ __forceinline__ void publish(uint4* fragments, float2* scales, const Samples<D>& x) const {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int q = 0; q < D::HELD; ++q) {
            if (tile(q) >= D::count()) break;
#pragma unroll
            for (int b = 0; b < D::BANDS; ++b) {
                float w[8];
                unsigned exponent[2] = {0, 0};
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    w[i] = all[0][q][b][i];
                    if constexpr (!D::BYTES) w[i] *= x.down[input(q, i)];
                    exponent[i / 2 % 2] = max(exponent[i / 2 % 2], bits_of_size(w[i]));
                }
#pragma unroll
                for (int half = 0; half < 2; ++half) exponent[half] = shared_exponent<1, 4>(exponent[half]);
                const UnitScales by(exponent);
                unsigned high[4], low[4];
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    Packed<SPLIT>::halves(w[2 * k] * by.up[k % 2], w[2 * k + 1] * by.up[k % 2], high[k], low[k]);
                const int at = tile(q) * D::BANDS + b;
                fragments[(2 * at) * 32 + lane] = make_uint4(high[0], high[1], high[2], high[3]);
                fragments[(2 * at + 1) * 32 + lane] = make_uint4(low[0], low[1], low[2], low[3]);
                if (lane % 4 == 0) scales[at * 8 + lane / 4] = make_float2(by.down[0], by.down[1]);
            }
        }
    }

    // Step all by dw = g^T x times `by`, of the groups' gradients. Numbers beyond the layer stay zero: so do their
    // gradients.
    template <class Rule>
    __device__ __forceinline__ void update(
        const Samples<D>& x, const float* gradients, float by, float limit, const Rule& rule
    ) {
        if (tile(0) >= D::count()) return;
        float d[D::HELD][D::BANDS][8] = {};
        add_gradients(d, x, gradients);
        const bool clips = limit < __uint_as_float(0x7F800000u);
#pragma unroll
        for (int q = 0; q < D::HELD; ++q) {
            if (tile(q) >= D::count()) break;
#pragma unroll
            for (int b = 0; b < D::BANDS; ++b)
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    float change = d[q][b][i] * by, none = 0.0f;
                    if constexpr (!D::BYTES) change *= x.down[input(q, i)];
                    if (clips) change = clip(change, limit);
                    float& w = all[0][q][b][i];
                    if constexpr (D::SLOTS == 0) plain_step(rule, w, change, 0);
                    else if constexpr (D::SLOTS == 1) rule.step(w, change, all[1][q][b][i], none);
                    else rule.step(w, change, all[1][q][b][i], all[2][q][b][i]);
                }
        }
    }

private:
    __device__ __forceinline__ void add_gradients(
        float (&d)[D::HELD][D::BANDS][8], const Samples<D>& x, const float* gradients
    ) const {
        constexpr int TOGETHER = D::BANDS * D::HELD > 2 ? 2 : 4;
        const int groups = (x.n + 7) / 8;
        int first = 0;
#pragma unroll 1  // code that is not in the instruction cache is slower than a loop
        for (; first + TOGETHER <= groups; first += TOGETHER) add_groups<TOGETHER>(d, x, gradients, first);
#pragma unroll 1
        for (; first < groups; ++first) add_groups<1>(d, x, gradients, first);
    }

    // Adds the products of COUNT groups: the low parts of all come first, so that no product waits for the one before.
    template <int COUNT>
    __device__ __forceinline__ void add_groups(
        float (&d)[D::HELD][D::BANDS][8], const Samples<D>& x, const float* gradients, int first
    ) const {
        GradientFactor<D> a[COUNT][D::BANDS];
        load_groups<D, COUNT>(a, gradients, first);
#pragma unroll
        for (int q = 0; q < D::HELD; ++q) {
            if (tile(q) >= D::TILES) break;
            unsigned high[COUNT][2], low[COUNT][2], four[COUNT];
            if constexpr (D::BYTES) x.template load<true, 8 * COUNT>(four, 8 * first, tile(q));
#pragma unroll
            for (int one = 0; one < COUNT; ++one)
                if constexpr (D::BYTES) x.samples(high[one], four[one]);
                else x.samples(high[one], low[one], 8 * (first + one), tile(q));
#pragma unroll
            for (int b = 0; b < D::BANDS; ++b) {
                float sum[COUNT][2][4] = {};
#pragma unroll
                for (int part = D::BYTES ? 1 : 0; part < 3; ++part)
#pragma unroll
                    for (int one = 0; one < COUNT; ++one)
#pragma unroll
                        for (int j = 0; j < 2; ++j)
                            mma_eight(
                                sum[one][j], part == 1 ? a[one][b].low : a[one][b].high,
                                part == 0 ? low[one][j] : high[one][j]
                            );
#pragma unroll
                for (int one = 0; one < COUNT; ++one)
#pragma unroll
                    for (int i = 0; i < 8; ++i)
                        d[q][b][i] += sum[one][i / 4][i % 4] * a[one][b].down[i / 2 % 2];
            }
        }
    }
};

// The bias and its slots in the registers of one warp: lane (g, t) has outputs 16 b + g and 8 further.
template <class D>
struct SliceBias {
    static constexpr int ARRAYS = 1 + D::SLOTS, WARP = THREADS / 32 - 2;
    float all[ARRAYS][D::BANDS][2] = {};

    static __device__ __forceinline__ bool here() { return threadIdx.x / 32 == WARP; }
    static __device__ __forceinline__ int output(int b, int half) { return 16 * b + threadIdx.x % 32 / 4 + 8 * half; }
    // Copy between the flat arrays, bias (OUT,) at b_at, and the registers; the first block stores it.
    template <bool INTO>
    __device__ __forceinline__ void move(float* params, float* first, float* second, int b_at) {
        float* const flat[3] = {params, first, second};
        if (!INTO && (D::rank() != 0 || threadIdx.x % 4 != 0)) return;
#pragma unroll
        for (int array = 0; array < ARRAYS; ++array)
#pragma unroll
            for (int b = 0; b < D::BANDS; ++b)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    if (output(b, half) >= D::OUT) continue;
                    if (INTO) all[array][b][half] = flat[array][b_at + output(b, half)];
                    else flat[array][b_at + output(b, half)] = all[array][b][half];
                }
    }

    // Store the bias in shared memory, (BANDS, 16).
    __device__ __forceinline__ void publish(float* bias) const {
#pragma unroll
        for (int b = 0; b < D::BANDS; ++b)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                if (threadIdx.x % 4 == 0) bias[output(b, half)] = all[0][b][half];
    }

    // Step by the sum of the gradients of n samples.
    template <class Rule>
    __device__ __forceinline__ void update(const float* gradients, int n, float limit, const Rule& rule) {
        constexpr int TOGETHER = D::BANDS > 1 ? 2 : 4;
        const int groups = (n + 7) / 8;
        float sum[D::BANDS][2] = {};
        int first = 0;
#pragma unroll 1
        for (; first + TOGETHER <= groups; first += TOGETHER) add_groups<TOGETHER>(sum, gradients, first);
#pragma unroll 1
        for (; first < groups; ++first) add_groups<1>(sum, gradients, first);
#pragma unroll
        for (int b = 0; b < D::BANDS; ++b)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float change = sum[b][half], none[2] = {};
                change += __shfl_xor_sync(EVERY_LANE, change, 1);
                change += __shfl_xor_sync(EVERY_LANE, change, 2);
                float& first = D::SLOTS > 0 ? all[D::SLOTS > 0][b][half] : none[0];
                float& second = D::SLOTS > 1 ? all[D::SLOTS > 1 ? 2 : 0][b][half] : none[1];
                rule.step(all[0][b][half], clip(change, limit), first, second);
            }
    }

private:
    template <int COUNT>
    static __device__ __forceinline__ void add_groups(float (&sum)[D::BANDS][2], const float* gradients, int first) {
        GradientFactor<D> a[COUNT][D::BANDS];
        load_groups<D, COUNT>(a, gradients, first);
#pragma unroll
        for (int one = 0; one < COUNT; ++one)
#pragma unroll
            for (int b = 0; b < D::BANDS; ++b)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const unsigned high = a[one][b].high[half], low = a[one][b].low[half];
                    sum[b][half] += a[one][b].down[half] * (low_half(high) + high_half(high) +
                                                            (low_half(low) + high_half(low)));
                }
    }
};
