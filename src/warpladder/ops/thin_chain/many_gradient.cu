// Gradient of the first layer of a thin chain from many samples: dw1[o, i] = sum over the samples of g[n, o] x[n, i].
//
// A thread has WIDE neighbouring inputs and all outputs. A block has all inputs, or a tile of them, as many times as
// its threads suffice: 512 threads have 784 inputs, 8 each, five times, and each of these *phases* takes every fifth
// sample of the partial. There is no barrier between samples: g is in shared memory, and threads load AHEAD samples.
// instance: chain_gradient_many<10, 8, 0, unsigned char>; chain_gradient_many<10, 1, 0, unsigned char>
// instance: chain_gradient_many<16, 4, 0, unsigned char>; chain_gradient_many<10, 4, 0, float>
// instance: chain_gradient_many<10, 4, 1, float>
#include "pixels.cuh"

constexpr int CHUNK = 512;  // samples whose g stands in shared memory

// Threads of a block; with BACK the weights take as many registers as the sums.
__device__ constexpr int threads(int back) { return back ? 256 : 512; }

// Block (x, y) has `across` times WIDE inputs from x * across * WIDE on, and the samples of partial y. rows: null for
// the order of storage, from `offset` on. part: (partials, WIDTH, inputs). With BACK dx = g w1 is written too.
template <int WIDTH, int WIDE, int BACK, class Pixel>
__global__ void __launch_bounds__(threads(BACK), 1) chain_gradient_many(
    const Pixel* __restrict__ source, float scale, const int* __restrict__ rows, const float* __restrict__ g,
    float* __restrict__ part, int n, int inputs, int offset, int partial, int across, const float* __restrict__ w1,
    float* __restrict__ dx
) {
    constexpr int THREADS = threads(BACK), QUADS = (WIDTH + 3) / 4, AHEAD = sizeof(Pixel) * WIDE > 8 ? 3 : 6;
    constexpr float UP = Faint<Pixel>::UP;
    static_assert(!BACK || UP == 1.0f, "dx needs g unscaled");
    constexpr int MEMORY = CHUNK * QUADS > THREADS * WIDE / 2 ? CHUNK * QUADS : THREADS * WIDE / 2;
    __shared__ float4 memory[MEMORY];  // g of a chunk, and in the end two outputs' sums of all threads
    __shared__ int row_of[CHUNK];
    const int t = threadIdx.x, phases = THREADS / across, phase = t / across;
    const int tile = blockIdx.x * across * WIDE, i = tile + t % across * WIDE;
    const bool working = phase < phases && i < inputs;
    const Pixel* const column = source + (working ? i : 0);

    float sum[WIDTH][WIDE] = {};
    Pixels<float, BACK ? WIDE : 1> weight[BACK ? WIDTH : 1];
    if constexpr (BACK) {
#pragma unroll
        for (int o = 0; o < WIDTH; ++o) weight[o].load(w1 + o * inputs + (working ? i : 0));
    }
    const int from = blockIdx.y * partial, to = min(n, from + partial);
    for (int chunk = from; chunk < to; chunk += CHUNK) {
        const int count = min(CHUNK, to - chunk);
        if (chunk > from) __syncthreads();
        if (rows != nullptr) {
            for (int k = t; k < count; k += THREADS) row_of[k] = rows[chunk + k];
            __syncthreads();
        }
        Pixels<Pixel, WIDE> next[AHEAD];
        const Pixel* const stored = column + static_cast<long long>(offset + chunk) * inputs;
        const auto fetch = [&](Pixels<Pixel, WIDE>& into, int s) {
            s = min(s, count - 1);
            const auto looked_up = [&] { return column
                + static_cast<unsigned long long>(static_cast<unsigned>(row_of[s])) * static_cast<unsigned>(inputs); };
            into.load(rows != nullptr ? looked_up() : stored + static_cast<unsigned>(s * inputs));
        };
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) fetch(next[a], phase + a * phases);
        for (int k = t; k < count * QUADS; k += THREADS) {
            const float4 four = reinterpret_cast<const float4*>(g)[static_cast<long long>(chunk) * QUADS + k];
            memory[k] = make_float4(UP * four.x, UP * four.y, UP * four.z, UP * four.w);
        }
        __syncthreads();
        if (!working) continue;
        for (int first = phase; first < count; first += AHEAD * phases) {
#pragma unroll
            for (int a = 0; a < AHEAD; ++a) {
                const int s = first + a * phases;
                if (s >= count) break;
                float x[WIDE], factor[4 * QUADS];
#pragma unroll
                for (int e = 0; e < WIDE; ++e) x[e] = next[a].faint(e);
#pragma unroll
                for (int q = 0; q < QUADS; ++q) {
                    const float4 four = memory[s * QUADS + q];
                    factor[4 * q] = four.x, factor[4 * q + 1] = four.y, factor[4 * q + 2] = four.z,
                        factor[4 * q + 3] = four.w;
                }
#pragma unroll
                for (int o = 0; o < WIDTH; ++o)
#pragma unroll
                    for (int e = 0; e < WIDE; ++e) sum[o][e] = fmaf(factor[o], x[e], sum[o][e]);
                if constexpr (BACK) {
                    Pixels<float, WIDE> back;
#pragma unroll
                    for (int e = 0; e < WIDE; ++e) {
                        float total = 0.0f;
#pragma unroll
                        for (int o = 0; o < WIDTH; ++o) total = fmaf(factor[o], weight[o][e], total);
                        back.set(e, total);
                    }
                    back.store(dx + static_cast<long long>(chunk + s) * inputs + i);
                }
                // last: otherwise the compiler needs more registers
                fetch(next[a], s + AHEAD * phases);
            }
        }
    }

    // the phases' sums in order, one output at a time; two halves of the memory alternate, for one barrier each
    float* const held = reinterpret_cast<float*>(memory);
    const int size = across * WIDE;
    __syncthreads();
#pragma unroll
    for (int o = 0; o < WIDTH; ++o) {
        float* const half = held + o % 2 * THREADS * WIDE;
#pragma unroll
        for (int e = 0; e < WIDE; ++e) half[t * WIDE + e] = sum[o][e];
        __syncthreads();
        for (int k = t; k < size && tile + k < inputs; k += THREADS) {
            float total = half[k];
            for (int p = 1; p < phases; ++p) total += half[p * size + k];
            part[(static_cast<long long>(blockIdx.y) * WIDTH + o) * inputs + tile + k] = total
                * (scale * Faint<Pixel>::BACK);
        }
    }
}
