// Forward, the loss, and back to g for a thin chain whose batch is the whole data set: samples packed once (pack.cu).
//
// A block has 256 samples. When packed, the same four inputs of neighbouring samples are contiguous: a warp reads whole
// lines of memory directly to registers, and no thread waits at a barrier until all is multiplied. The weights of the
// first layer are in shared memory; the warps divide the inputs. A lane has eight samples and all outputs: a weight,
// which all lanes read at once, serves eight multiply-adds.
// instance: chain_forward_packed<10, 10>; chain_forward_packed<0, 10>; chain_forward_packed<0, 16>
#include "pixels.cuh"
#include "thin_sample.cuh"
#include "warp.cuh"

constexpr int SAMPLES = 256, THREADS = 128, WARPS = THREADS / 32;
constexpr int EACH = SAMPLES / 32;  // samples of a lane: 4 lane to 4 lane + 3, and those 128 further on
constexpr int AHEAD = 3;            // words of its samples that a lane has requested
// floats from one number of all samples to the next, so that neighbours lie in different banks
constexpr int COLUMN = SAMPLES + 4;
constexpr int SHARES = 8;            // of the block's samples, whose sums different threads compute
static_assert(EACH == 8, "two loads of four samples");

// packed: (blocks, words, SAMPLES), words of four inputs, zeros beyond them. lost, hits, small: a row for each block;
// lost, hits: null without losses. Dynamic shared memory: (WIDTH, words) times four weights, and then the sums.
template <int HIDDEN, int OUT>
__global__ void __launch_bounds__(THREADS, 2) chain_forward_packed(
    const unsigned* __restrict__ packed, float scale, const int* __restrict__ label, const float* __restrict__ w1,
    const float* __restrict__ b1, const float* __restrict__ w2, const float* __restrict__ b2, float* __restrict__ g,
    float* __restrict__ small, double* __restrict__ lost, int* __restrict__ hits, int n, int inputs, int words,
    int batch
) {
    using C = Chain<HIDDEN, OUT>;
    using Bytes = Pixels<unsigned char, 4>;
    constexpr int WIDTH = C::WIDTH;
    extern __shared__ float4 weights[];
    __shared__ int label_of[SAMPLES], warp_hits[WARPS];
    __shared__ double warp_loss[WARPS];
    __shared__ float second[OUT][WIDTH], bias1[WIDTH], bias2[OUT];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int begin = blockIdx.x * SAMPLES, count = min(SAMPLES, n - begin);

    const uint4* const samples = reinterpret_cast<const uint4*>(packed + static_cast<long long>(blockIdx.x) * words
        * SAMPLES) + lane;
    Bytes next[AHEAD][EACH];
    const auto fetch = [&](Bytes(&into)[EACH], int word) {
        const uint4* const from = samples + min(word, words - 1) * (SAMPLES / 4);
        const uint4 near = from[0], far = from[32];
        into[0].word[0] = near.x, into[1].word[0] = near.y, into[2].word[0] = near.z, into[3].word[0] = near.w;
        into[4].word[0] = far.x, into[5].word[0] = far.y, into[6].word[0] = far.z, into[7].word[0] = far.w;
    };
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) fetch(next[a], warp + a * WARPS);

    const float up = Faint<unsigned char>::UP;
    if (inputs % 4 == 0) {
        const float4* const from = reinterpret_cast<const float4*>(w1);
#pragma unroll 8
        for (int k = t; k < WIDTH * words; k += THREADS)
            weights[k] = make_float4(up * from[k].x, up * from[k].y, up * from[k].z, up * from[k].w);
    } else {
        for (int k = t; k < WIDTH * words; k += THREADS) {
            const int i = k % words * 4;
            const auto one = [&](int e) { return i + e < inputs ? up * w1[k / words * inputs + i + e] : 0.0f; };
            weights[k] = make_float4(one(0), one(1), one(2), one(3));
        }
    }
    for (int s = t; s < SAMPLES; s += THREADS) label_of[s] = label[begin + min(s, count - 1)];
    if (t < WIDTH) bias1[t] = b1[t];
    if constexpr (HIDDEN > 0) load_second<HIDDEN, OUT, THREADS>(w2, b2, second, bias2);
    __syncthreads();

    float sum[EACH][WIDTH] = {};
    for (int first = warp; first < words; first += AHEAD * WARPS) {
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const int word = first + a * WARPS;
            if (word >= words) break;
            float x[EACH][4];
#pragma unroll
            for (int j = 0; j < EACH; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) x[j][e] = next[a][j].faint(e);
            fetch(next[a], word + AHEAD * WARPS);
#pragma unroll
            for (int o = 0; o < WIDTH; ++o) {
                const float4 w = weights[o * words + word];
#pragma unroll
                for (int j = 0; j < EACH; ++j) {
                    float& to = sum[j][o];
                    to = fmaf(x[j][3], w.w, fmaf(x[j][2], w.z, fmaf(x[j][1], w.y, fmaf(x[j][0], w.x, to))));
                }
            }
        }
    }
    __syncthreads();

    // the warps' sums: 2 and 3 to 0 and 1, then to the samples' threads
    float4* const half = weights + warp % 2 * WIDTH * (SAMPLES / 4) + lane;
#pragma unroll
    for (int to = 2; to >= 0; to -= 2) {
        if (warp / 2 * 2 == to) {
#pragma unroll
            for (int o = 0; o < WIDTH; ++o)
#pragma unroll
                for (int j = 0; j < EACH; j += 4) {
                    float4& there = half[o * (SAMPLES / 4) + j * 8];
                    const float4 other = to == 2 ? float4{} : there;
                    there = make_float4(sum[j][o] + other.x, sum[j + 1][o] + other.y, sum[j + 2][o] + other.z,
                        sum[j + 3][o] + other.w);
                }
        }
        __syncthreads();
    }
    float *const parts = reinterpret_cast<float*>(weights), *const columns = parts + 2 * WIDTH * SAMPLES;
    // a thread for each sample; a loop, because its instructions are not in the cache, once for each launch
    const float factor = scale * Faint<unsigned char>::BACK, mean = 1.0f / static_cast<float>(batch);
    double loss = 0.0;
    int hit = 0;
#pragma unroll 1
    for (int turn = 0; turn < SAMPLES / THREADS; ++turn) {
        const int s = t + turn * THREADS;
        const bool there = s < count;
        float z[WIDTH];
#pragma unroll
        for (int o = 0; o < WIDTH; ++o)
            z[o] = fmaf(parts[o * SAMPLES + s] + parts[(WIDTH + o) * SAMPLES + s], factor, bias1[o]);
        float out[OUT], back[WIDTH];
        const Verdict verdict = judge<HIDDEN, OUT>(z, second, bias2, label_of[s], there, mean, lost != nullptr, out);
        loss += static_cast<double>(verdict.loss);
        hit += verdict.right ? 1 : 0;
        through_second<HIDDEN, OUT>(z, second, out, back);
        if (there) store_g<HIDDEN, OUT>(g, begin + s, back);
        store_columns<HIDDEN, OUT, COLUMN>(columns + s, z, out, back, there);
    }
    if (lost != nullptr) {
        loss = warp_sum(loss);
        hit = warp_sum(hit);
        if (lane == 0) warp_loss[warp] = loss, warp_hits[warp] = hit;
    }
    __syncthreads();

    // sums over the block's samples: a thread has number r of back and of out, and products of out with h, for a share
    constexpr int NUMBERS = OUT > WIDTH ? OUT : WIDTH;
    static_assert(NUMBERS * SHARES <= THREADS, "a thread for each");
    const int r = t % NUMBERS, mine = t / NUMBERS;
    float of_back = 0.0f, of_out = 0.0f, of_products[HIDDEN > 0 ? HIDDEN : 1] = {};
    if (mine < SHARES) {
        const auto four = [&](int number, int s) {
            return *reinterpret_cast<const float4*>(columns + number * COLUMN + s); };
#pragma unroll 2
        for (int s = mine * (SAMPLES / SHARES); s < (mine + 1) * (SAMPLES / SHARES); s += 4) {
            if (r < WIDTH) {
                const float4 a = four(r, s);
                of_back += (a.x + a.y) + (a.z + a.w);
            }
            if constexpr (HIDDEN > 0) {
                const float4 a = four(WIDTH + (r < OUT ? r : 0), s);
                of_out += (a.x + a.y) + (a.z + a.w);
#pragma unroll
                for (int i = 0; i < HIDDEN; ++i) {
                    const float4 b = four(WIDTH + OUT + i, s);
                    of_products[i] = fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, of_products[i]))));
                }
            }
        }
    }
    __syncthreads();  // the shares' sums take the place of the samples' numbers
    float* const sums = columns + mine * C::COUNT;
    if (mine < SHARES) {
        if (r < WIDTH) sums[r] = of_back;
        if constexpr (HIDDEN > 0) {
            if (r < OUT) {
                sums[WIDTH + r] = of_out;
#pragma unroll
                for (int i = 0; i < HIDDEN; ++i) sums[WIDTH + OUT + r * HIDDEN + i] = of_products[i];
            }
        }
    }
    __syncthreads();
    for (int k = t; k < C::COUNT; k += THREADS) {
        float total = columns[k];
#pragma unroll
        for (int share = 1; share < SHARES; ++share) total += columns[share * C::COUNT + k];
        small[static_cast<long long>(blockIdx.x) * C::COUNT + k] = total;
    }
    if (t == 0 && lost != nullptr) store_block_log(warp_loss, warp_hits, lost, hits);
}
