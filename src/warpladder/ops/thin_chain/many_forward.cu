// Many samples through a thin chain: forward, the loss, and back to g. Shapes: thin_chain.cuh.
//
// A block has 256 samples and fills half a multiprocessor; 60,000 samples are one wave of blocks on 132 of them. Stages
// of 64 bytes of every sample's row, with their weights, are copied to shared memory while the stage before is
// multiplied. A lane has four samples and all outputs: a weight, which all lanes read at once, serves four
// multiply-adds, and a pixel is converted once for all outputs.
// instance: chain_forward_many<10, 10, unsigned char>; chain_forward_many<0, 10, unsigned char>
// instance: chain_forward_many<16, 16, unsigned char>; chain_forward_many<0, 16, unsigned char>
// instance: chain_forward_many<0, 10, float>
#include "async.cuh"
#include "order.cuh"
#include "pixels.cuh"
#include "thin_sample.cuh"
#include "warp.cuh"

constexpr int SAMPLES = 256, THREADS = 256;
constexpr int GROUPS = 4;                         // of warps, which divide a stage's inputs
constexpr int EACH = SAMPLES * GROUPS / THREADS;  // samples of a lane
// bytes of a stage's row: an odd number of 16, so that lanes' rows lie in different banks
constexpr int ROW = 64 + 16;
// floats from one number of all samples to the next, for the same reason
constexpr int COLUMN = SAMPLES + 4;

// order: null for the order of storage, from `offset` on; rows is not written then. lost, hits, small: a row for each
// block; lost, hits: null without losses. Dynamic shared memory: two stages, and then sums (many.py).
template <int HIDDEN, int OUT, class Pixel>
__global__ void __launch_bounds__(THREADS, Chain<HIDDEN, OUT>::WIDTH > 10 || HIDDEN + OUT > 24 ? 1 : 2)
    chain_forward_many(
    const Pixel* __restrict__ source, float scale, const int* __restrict__ label, const unsigned* __restrict__ order,
    const int* __restrict__ step, const float* __restrict__ w1, const float* __restrict__ b1,
    const float* __restrict__ w2, const float* __restrict__ b2, int* __restrict__ rows, float* __restrict__ g,
    float* __restrict__ small, double* __restrict__ lost, int* __restrict__ hits, int n, int inputs, int whole,
    int offset, int batch
) {
    using C = Chain<HIDDEN, OUT>;
    // inputs of a stage
    constexpr int WIDTH = C::WIDTH, PER_16 = 16 / static_cast<int>(sizeof(Pixel)), DEPTH = GROUPS * PER_16;
    constexpr int STAGE = SAMPLES * ROW + WIDTH * DEPTH * 4;
    extern __shared__ float4 shared4[];
    __shared__ int row_of[SAMPLES];
    __shared__ float second[OUT][WIDTH], bias1[WIDTH], bias2[OUT];
    __shared__ double warp_loss[THREADS / 32];
    __shared__ int warp_hits[THREADS / 32];
    char* const shared = reinterpret_cast<char*>(shared4);
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, group = warp % GROUPS;
    const int begin = blockIdx.x * SAMPLES, count = min(SAMPLES, n - begin);

    int row = begin + min(t, count - 1);
    if (order != nullptr) {
        row = order_at(order, static_cast<unsigned>(*step) * whole + offset + row);
        if (t < count) rows[begin + t] = row;
    } else {
        row += offset;
    }
    row_of[t] = row;
    const int wanted = label[row];  // loaded early, needed at the end
    __syncthreads();

    const bool wide = inputs % PER_16 == 0, wide_weights = inputs % 4 == 0;  // all rows begin on a boundary of 16 bytes
    const auto bring = [&](int number) {                                    // stage `number`, zeros beyond the inputs
        char* const to = shared + number % 2 * STAGE;
        const int first = number * DEPTH;
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            const int s = t / GROUPS + j * (THREADS / GROUPS), i = first + t % GROUPS * PER_16;
            Pixel* const there = reinterpret_cast<Pixel*>(to + s * ROW) + t % GROUPS * PER_16;
            const Pixel* const from = source + static_cast<long long>(row_of[s]) * inputs + i;
            if (wide) {
                copy_sixteen(there, i < inputs ? from : source, i < inputs ? PER_16 : 0);
            } else {
#pragma unroll 1
                for (int e = 0; e < PER_16; ++e) there[e] = i + e < inputs ? from[e] : Pixel(0);
            }
        }
        float* const weights = reinterpret_cast<float*>(to + SAMPLES * ROW);
        for (int k = 4 * t; k < WIDTH * DEPTH; k += 4 * THREADS) {
            const int i = first + k % DEPTH;
            const float* const from = w1 + k / DEPTH * inputs + i;
            if (wide_weights) {
                copy_sixteen(weights + k, i < inputs ? from : w1, i < inputs ? 4 : 0);
            } else {
#pragma unroll 1
                for (int e = 0; e < 4; ++e) copy_float(weights + k + e, i + e < inputs ? from + e : w1, i + e < inputs);
            }
        }
    };

    // z: lanes of warp (half, group) have samples half * 128 + lane + 32 j and 16 bytes of each row of a stage
    const int mine = warp / GROUPS * (SAMPLES / 2) + lane;
    float sum[EACH][WIDTH] = {};
    const int stages = (inputs + DEPTH - 1) / DEPTH;
    bring(0);
    commit_copies();
    if (t < WIDTH) bias1[t] = b1[t];
    if constexpr (HIDDEN > 0) load_second<HIDDEN, OUT, THREADS>(w2, b2, second, bias2);
    for (int number = 0; number < stages; ++number) {
        if (number + 1 < stages) bring(number + 1);
        commit_copies();
        wait_for_copies<1>();
        __syncthreads();
        if (number * DEPTH + group * PER_16 < inputs) {
            const char* const stage = shared + number % 2 * STAGE;
            const float* const weights = reinterpret_cast<const float*>(stage + SAMPLES * ROW) + group * PER_16;
            Pixels<Pixel, PER_16> pixels[EACH];
#pragma unroll
            for (int j = 0; j < EACH; ++j)
                pixels[j].load(reinterpret_cast<const Pixel*>(stage + (mine + 32 * j) * ROW) + group * PER_16);
#pragma unroll
            for (int i = 0; i < PER_16; i += 4) {
                float x[EACH][4];
#pragma unroll
                for (int j = 0; j < EACH; ++j)
#pragma unroll
                    for (int e = 0; e < 4; ++e) x[j][e] = pixels[j][i + e];
#pragma unroll
                for (int o = 0; o < WIDTH; ++o) {
                    const float4 w = *reinterpret_cast<const float4*>(weights + o * DEPTH + i);
#pragma unroll
                    for (int j = 0; j < EACH; ++j) {
                        float& to = sum[j][o];
                        to = fmaf(x[j][3], w.w, fmaf(x[j][2], w.z, fmaf(x[j][1], w.y, fmaf(x[j][0], w.x, to))));
                    }
                }
            }
        }
        __syncthreads();
    }

    // the groups' sums: 2 and 3 to 0 and 1, then to the samples' threads
    float* const part = reinterpret_cast<float*>(shared) + group % 2 * WIDTH * SAMPLES + mine;
#pragma unroll
    for (int to = 2; to >= 0; to -= 2) {
        if (group / 2 * 2 == to) {
#pragma unroll
            for (int o = 0; o < WIDTH; ++o)
#pragma unroll
                for (int j = 0; j < EACH; ++j) {
                    float& there = part[o * SAMPLES + 32 * j];
                    there = to == 2 ? sum[j][o] : sum[j][o] + there;
                }
        }
        __syncthreads();
    }

    // the rest of the net, one thread for each sample
    const bool there = t < count;
    const float* const parts = reinterpret_cast<const float*>(shared) + t;
    float z[WIDTH], out[OUT], back[WIDTH];
#pragma unroll
    for (int o = 0; o < WIDTH; ++o) z[o] = fmaf(parts[o * SAMPLES] + parts[(WIDTH + o) * SAMPLES], scale, bias1[o]);
    __syncthreads();  // the sums over the block's samples take the place of the groups'
    const float mean = 1.0f / static_cast<float>(batch);
    const Verdict verdict = judge<HIDDEN, OUT>(z, second, bias2, wanted, there, mean, lost != nullptr, out);
    if (lost != nullptr) {
        const double loss = warp_sum(static_cast<double>(verdict.loss));
        const int hit = warp_sum(verdict.right ? 1 : 0);
        if (lane == 0) warp_loss[warp] = loss, warp_hits[warp] = hit;
    }
    through_second<HIDDEN, OUT>(z, second, out, back);
    if (there) store_g<HIDDEN, OUT>(g, begin + t, back);

    // sums over the block's samples: rows of g, of the gradient by the logits and of h; two threads for each
    float* const columns = reinterpret_cast<float*>(shared);
    store_columns<HIDDEN, OUT, COLUMN>(columns + t, z, out, back, there);
    __syncthreads();
    for (int first = 0; first < C::COUNT; first += THREADS / 2) {
        const int k = first + t / 2, product = k - WIDTH - OUT;
        float total = 0.0f;
        if (k < C::COUNT) {
            const int one = product < 0 ? k : WIDTH + product / WIDTH, other = product < 0 ? k
                : WIDTH + OUT + product % WIDTH;
            const float4* const a = reinterpret_cast<const float4*>(columns + one * COLUMN);
            const float4* const b = reinterpret_cast<const float4*>(columns + other * COLUMN);
#pragma unroll 8
            for (int s = t % 2; s < SAMPLES / 4; s += 2) {
                const float4 f = product < 0 ? make_float4(1.0f, 1.0f, 1.0f, 1.0f) : b[s], e = a[s];
                total = fmaf(e.w, f.w, fmaf(e.z, f.z, fmaf(e.y, f.y, fmaf(e.x, f.x, total))));
            }
        }
        total += __shfl_xor_sync(EVERY_LANE, total, 1);
        if (k < C::COUNT && t % 2 == 0) small[static_cast<long long>(blockIdx.x) * C::COUNT + k] = total;
    }
    if (t == 0 && lost != nullptr) store_block_log(warp_loss, warp_hits, lost, hits);
}
