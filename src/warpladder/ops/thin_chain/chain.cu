// A net of one or two thin linear layers and cross-entropy, in two kernels that read the samples as they are stored.
//
//   x = scale * source[row]     z = W1 x + b1     one layer: logits = z     two layers: h = max(z, 0), logits = W2 h + b2
//
// source: (samples, inputs), bytes or floats. w1: (WIDTH, inputs), b1: (WIDTH,), w2: (OUT, HIDDEN), b2: (OUT,).
// WIDTH, the first layer's outputs, is HIDDEN where there are two layers (HIDDEN > 0) and OUT where there is one.
// What leaves a chip is small: of each sample its row's number and the gradient g (n, WIDTH) by z; of each block the sums of the rest.
// The same kernels are the last layer of a larger net, with its loss: then source (n, inputs) is what enters that layer, in its order
// (order and rows are null), and dx is wanted.
#include "log.cuh"
#include "nan.cuh"
#include "order.cuh"
#include "softmax.cuh"
#include "warp.cuh"

// Four neighbouring numbers as floats, or one.
template <int WIDE>
__device__ __forceinline__ void load_pixels(float (&x)[WIDE], const unsigned char* from) {
    if constexpr (WIDE == 4) {
        const uchar4 some = *reinterpret_cast<const uchar4*>(from);
        x[0] = some.x, x[1] = some.y, x[2] = some.z, x[3] = some.w;
    } else {
        x[0] = *from;
    }
}
template <int WIDE>
__device__ __forceinline__ void load_pixels(float (&x)[WIDE], const float* from) {
    if constexpr (WIDE == 4) {
        const float4 some = *reinterpret_cast<const float4*>(from);
        x[0] = some.x, x[1] = some.y, x[2] = some.z, x[3] = some.w;
    } else {
        x[0] = *from;
    }
}

// How many sums a block leaves of its samples besides the first layer's weights: db1; with two layers db2 and dw2 as well.
template <int HIDDEN, int OUT>
struct Small {
    static constexpr int WIDTH = HIDDEN > 0 ? HIDDEN : OUT;
    static constexpr int COUNT = HIDDEN > 0 ? HIDDEN + OUT + HIDDEN * OUT : OUT;
};

// Forward, the loss, and back to g. Eight warps; WARPS of them share ROWS samples, and divide the inputs; at most 32 samples a block.
// order: null for samples as they stand; rows is not written then. lost, hits: (blocks,). small: (blocks, COUNT): sums over the block's samples of g1, and with two layers of g2 and of g2[o] h[i].
template <int HIDDEN, int OUT, int ROWS, int WARPS, int WIDE, class Pixel>
__global__ void __launch_bounds__(256, 2) chain_forward(
    const Pixel* __restrict__ source, float scale, const int* __restrict__ label, const unsigned* __restrict__ order, const int* __restrict__ step,
    const float* __restrict__ w1, const float* __restrict__ b1, const float* __restrict__ w2, const float* __restrict__ b2, int* __restrict__ rows,
    float* __restrict__ g, float* __restrict__ small, double* __restrict__ lost, int* __restrict__ hits, int n, int inputs, int whole, int offset,
    int batch
) {
    constexpr int WIDTH = Small<HIDDEN, OUT>::WIDTH, COUNT = Small<HIDDEN, OUT>::COUNT;
    constexpr int SAMPLES = 8 / WARPS * ROWS, SUMS = ROWS * WIDTH;
    static_assert(SAMPLES <= 32, "one warp finishes them, a lane for each");
    __shared__ int row_of[SAMPLES];
    __shared__ float part[8][SUMS];
    __shared__ float z[SAMPLES][WIDTH + 1], out[SAMPLES][OUT + 1], g1[SAMPLES][WIDTH + 1];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int begin = blockIdx.x * SAMPLES, count = min(SAMPLES, n - begin);

    int wanted = 0;  // asked for now, needed at the end: its way from memory costs nothing
    if (threadIdx.x < SAMPLES) {
        int row = min(begin + static_cast<int>(threadIdx.x), n - 1);
        if (order != nullptr) {
            const long long position = *step * static_cast<long long>(whole) + offset + row;
            row = order_at(order, static_cast<unsigned>(position % order_length(order)));
            if (threadIdx.x < count) rows[begin + threadIdx.x] = row;
        }
        row_of[threadIdx.x] = row;
        wanted = label[row];
    }
    __syncthreads();

    // z: each warp for its share of the inputs
    float sum[SUMS] = {};
    const Pixel* from[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) from[r] = source + static_cast<long long>(row_of[warp / WARPS * ROWS + r]) * inputs;
    for (int i = (warp % WARPS * 32 + lane) * WIDE; i < inputs; i += WARPS * 32 * WIDE) {
        float x[ROWS][WIDE];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) load_pixels<WIDE>(x[r], from[r] + i);
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
#pragma unroll
            for (int e = 0; e < WIDE; ++e) x[r][e] *= scale;
#pragma unroll
        for (int o = 0; o < WIDTH; ++o) {
            float w[WIDE];
            load_pixels<WIDE>(w, w1 + o * inputs + i);
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
#pragma unroll
                for (int e = 0; e < WIDE; ++e) sum[r * WIDTH + o] = fmaf(x[r][e], w[e], sum[r * WIDTH + o]);
        }
    }
    Share share = {0, SUMS};
    warp_sums<SUMS>(sum, share);
#pragma unroll
    for (int k = 0; k < left_of(SUMS); ++k)
        if (k < share.count) part[warp][share.first + k] = sum[k];
    __syncthreads();

    // the rest of the net, one lane for each sample
    double loss = 0.0;
    int hit = 0;
    if (threadIdx.x < SAMPLES) {
        const int s = threadIdx.x, group = s / ROWS * WARPS, at = s % ROWS * WIDTH;
        const bool there = s < count;
#pragma unroll
        for (int o = 0; o < WIDTH; ++o) {
            float total = part[group][at + o];
#pragma unroll
            for (int v = 1; v < WARPS; ++v) total += part[group + v][at + o];
            total += b1[o];
            if constexpr (HIDDEN > 0) z[s][o] = relu(total);
            else out[s][o] = total;
        }
        if constexpr (HIDDEN > 0) {
#pragma unroll 1  // all of w2 at once would take more registers than there are
            for (int o = 0; o < OUT; ++o) {
                float total = 0.0f;
#pragma unroll
                for (int i = 0; i < HIDDEN; ++i) total = fmaf(w2[o * HIDDEN + i], z[s][i], total);
                out[s][o] = total + b2[o];
            }
        }
        const Softmax soft = softmax(out[s], OUT);
        loss = there ? surprise(soft, out[s][wanted]) : 0.0f;
        hit = there && soft.best == wanted;
#pragma unroll
        for (int o = 0; o < OUT; ++o) {
            const float gradient = (expf(out[s][o] - soft.largest) / soft.total - (o == wanted ? 1.0f : 0.0f)) / batch;
            out[s][o] = there ? gradient : 0.0f;
        }
#pragma unroll 1
        for (int i = 0; i < WIDTH; ++i) {
            float back = out[s][i % OUT];
            if constexpr (HIDDEN > 0) {
                back = 0.0f;
#pragma unroll
                for (int o = 0; o < OUT; ++o) back = fmaf(w2[o * HIDDEN + i], out[s][o], back);
                back = z[s][i] > 0.0f ? back : 0.0f;
            }
            g1[s][i] = back;
            if (there) g[static_cast<long long>(begin + s) * WIDTH + i] = back;
        }
    }
    __syncthreads();

    // the block's sums: one thread for each number, samples in their order
    for (int k = threadIdx.x; k < COUNT; k += blockDim.x) {
        float total = 0.0f;
        for (int s = 0; s < count; ++s) {
            if (k < WIDTH) total += g1[s][k];
            else if (k < WIDTH + OUT) total += out[s][k - WIDTH];
            else total = fmaf(out[s][(k - WIDTH - OUT) / WIDTH], z[s][(k - WIDTH - OUT) % WIDTH], total);
        }
        small[static_cast<long long>(blockIdx.x) * COUNT + k] = total;
    }
    if (warp == 0) {
        loss = warp_sum(loss);
        hit = warp_sum(hit);
        if (lane == 0) {
            lost[blockIdx.x] = loss;
            hits[blockIdx.x] = hit;
        }
    }
}

constexpr int CHUNK = 64;  // samples whose g stands in shared memory
constexpr int AHEAD = 8;   // samples whose numbers a warp asks for before it uses them

// dw1[o, i] = sum over the samples of g[n, o] x[n, i]; with BACK dx[n, i] = sum over o of g[n, o] w1[o, i] as well;
// and what chain_forward left of `blocks` blocks, added up, with the log.
// Block (x, y) has 32 WIDE inputs and the samples of slab y, which its WARPS warps take in turns; the blocks beyond the inputs' (x >= tiles) finish
// the small sums, a warp for each, and the last of them the log. With one slab dw1 is written, with more part (slabs, WIDTH * inputs).
template <int HIDDEN, int OUT, int WARPS, int WIDE, int BACK, class Pixel>
__global__ void __launch_bounds__(32 * WARPS, WARPS > 8 || BACK ? 1 : 2) chain_gradient(
    const Pixel* __restrict__ source, float scale, const int* __restrict__ rows, const float* __restrict__ g, float* __restrict__ part,
    float* __restrict__ dw1, int n, int inputs, int slab, int tiles, const float* __restrict__ small, const double* __restrict__ lost,
    const int* __restrict__ hits, int blocks, float* __restrict__ db1, float* __restrict__ dw2, float* __restrict__ db2, int* step, double* log_loss,
    long long* log_correct, int batch, int first, int last, const float* __restrict__ w1, float* __restrict__ dx
) {
    constexpr int WIDTH = Small<HIDDEN, OUT>::WIDTH, COUNT = Small<HIDDEN, OUT>::COUNT, PITCH = (WIDTH + 3) / 4 * 4;
    __shared__ __align__(16) float held[CHUNK][PITCH];
    __shared__ int row_of[CHUNK];
    __shared__ float added[WARPS][32 * WIDE + 1];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    if (blockIdx.x >= tiles) {
        if (blockIdx.y > 0) return;
        const int k = (blockIdx.x - tiles) * WARPS + warp;
        if (k < COUNT) {
            float total = 0.0f;
#pragma unroll 4
            for (int b = lane; b < blocks; b += 32) total += small[static_cast<long long>(b) * COUNT + k];
            total = warp_sum(total);
            float* to = db1 + k;
            if (k >= WIDTH + OUT) to = dw2 + (k - WIDTH - OUT);
            else if (k >= WIDTH) to = db2 + (k - WIDTH);
            if (lane == 0) *to = total;
        } else if (k == COUNT) {
            double loss = 0.0;
            long long correct = 0;
#pragma unroll 4
            for (int b = lane; b < blocks; b += 32) {
                loss += lost[b];
                correct += hits[b];
            }
            loss = warp_sum(loss);
            correct = warp_sum(correct);
            if (lane == 0) write_log(step, log_loss, log_correct, loss / batch, correct, first, last);
        }
        return;
    }

    const int i = (blockIdx.x * 32 + lane) * WIDE;
    const bool inside = i < inputs;
    const Pixel* column = source + (inside ? i : 0);
    float sum[WIDTH][WIDE] = {}, weight[BACK ? WIDTH : 1][WIDE];
    if constexpr (BACK) {
#pragma unroll
        for (int o = 0; o < WIDTH; ++o) load_pixels<WIDE>(weight[o], w1 + o * inputs + (inside ? i : 0));
    }
    const int from = blockIdx.y * slab, to = min(n, from + slab);
    for (int chunk = from; chunk < to; chunk += CHUNK) {
        const int count = min(CHUNK, to - chunk);
        __syncthreads();
        for (int t = threadIdx.x; t < count * WIDTH; t += 32 * WARPS) held[t / WIDTH][t % WIDTH] = g[static_cast<long long>(chunk) * WIDTH + t];
        for (int t = threadIdx.x; t < count; t += 32 * WARPS) row_of[t] = rows != nullptr ? rows[chunk + t] : chunk + t;
        __syncthreads();
        for (int s = warp; s < count; s += WARPS * AHEAD) {
            float x[AHEAD][WIDE];
#pragma unroll
            for (int a = 0; a < AHEAD; ++a) load_pixels<WIDE>(x[a], column + static_cast<long long>(row_of[min(s + a * WARPS, count - 1)]) * inputs);
#pragma unroll
            for (int a = 0; a < AHEAD; ++a) {
                if (s + a * WARPS >= count) break;
#pragma unroll
                for (int e = 0; e < WIDE; ++e) x[a][e] *= scale;
                float back[WIDE] = {};
#pragma unroll
                for (int o = 0; o < WIDTH; ++o) {
                    const float factor = held[s + a * WARPS][o];
#pragma unroll
                    for (int e = 0; e < WIDE; ++e) {
                        sum[o][e] = fmaf(factor, x[a][e], sum[o][e]);
                        if constexpr (BACK) back[e] = fmaf(factor, weight[o][e], back[e]);
                    }
                }
                if constexpr (BACK) {
#pragma unroll
                    for (int e = 0; e < WIDE; ++e)
                        if (inside) dx[static_cast<long long>(chunk + s + a * WARPS) * inputs + i + e] = back[e];
                }
            }
        }
    }
    // the warps' sums, one output at a time, in the warps' order
    float* to_w = part == nullptr ? dw1 : part + static_cast<long long>(blockIdx.y) * WIDTH * inputs;
#pragma unroll
    for (int o = 0; o < WIDTH; ++o) {
        __syncthreads();
#pragma unroll
        for (int e = 0; e < WIDE; ++e) added[warp][lane * WIDE + e] = sum[o][e];
        __syncthreads();
        for (int t = threadIdx.x; t < 32 * WIDE; t += 32 * WARPS) {
            float total = added[0][t];
#pragma unroll
            for (int v = 1; v < WARPS; ++v) total += added[v][t];
            const int input = blockIdx.x * 32 * WIDE + t;
            if (input < inputs) to_w[static_cast<long long>(o) * inputs + input] = total;
        }
    }
}

// dw1[k] = the sum over the slabs of part (slabs, size), in their order, four columns of slabs at a time.
extern "C" __global__ void chain_add_slabs(const float* __restrict__ part, float* __restrict__ dw1, int slabs, int size) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= size) return;
    float total[4] = {};
    int s = 0;
    for (; s + 8 <= slabs; s += 8) {
        float some[8];
#pragma unroll
        for (int a = 0; a < 8; ++a) some[a] = part[static_cast<long long>(s + a) * size + k];
#pragma unroll
        for (int a = 0; a < 8; ++a) total[a % 4] += some[a];
    }
    for (; s < slabs; ++s) total[0] += part[static_cast<long long>(s) * size + k];
    dw1[k] = (total[0] + total[1]) + (total[2] + total[3]);
}
