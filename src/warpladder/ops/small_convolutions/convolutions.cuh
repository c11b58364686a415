// Stages of a small convolutional net on one sample in a block's shared memory. A Stage of the generated source has the
// shapes: input (C, H, W), convolution (O, HIGH, WIDE) by windows of K, output (O, ROWS, COLUMNS) after a pool.
//
// A grid holds planes with a border of zeros; rows begin at multiples of 16 bytes. A thread computes OUTPUTS outputs of
// four neighbouring pixels: it loads a row of the window once for all of them, and lanes of a warp read one filter.
#pragma once
#include "../activation/activation.cuh"
#include "async.cuh"
#include "nan.cuh"
#include "order.cuh"
#include "pixels.cuh"
#include "warp.cuh"

template <int PLANES_, int ROWS_, int PITCH_, int TOP_, int LEFT_>
struct Grid {
    static constexpr int PLANES = PLANES_, ROWS = ROWS_, PITCH = PITCH_, TOP = TOP_, LEFT = LEFT_;
    static constexpr int SIZE = PLANES * ROWS * PITCH;
    static __device__ __forceinline__ int at(int plane, int row, int column) {
        return (plane * ROWS + TOP + row) * PITCH + LEFT + column;
    }
};

__device__ __forceinline__ float* shared_floats() {
    extern __shared__ float4 memory[];
    return reinterpret_cast<float*>(memory);
}

// Zeros in the first `count` floats, a multiple of 4.
__device__ __forceinline__ void clear(float* shared, int count) {
    float4* const to = reinterpret_cast<float4*>(shared);
    for (int t = threadIdx.x; t < count / 4; t += THREADS) to[t] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

template <int N>
__device__ __forceinline__ void load_row(float (&to)[4 * N], const float* from) {
#pragma unroll
    for (int q = 0; q < N; ++q) {
        const float4 four = reinterpret_cast<const float4*>(from)[q];
        to[4 * q] = four.x, to[4 * q + 1] = four.y, to[4 * q + 2] = four.z, to[4 * q + 3] = four.w;
    }
}

// N weights in one or two loads, from a multiple of their size.
template <int N>
__device__ __forceinline__ void load_weights(float (&to)[N], const float* from) {
    if constexpr (N % 4 == 0) {
        load_row<N / 4>(to, from);
    } else {
        static_assert(N == 2, "half a quad");
        const float2 two = *reinterpret_cast<const float2*>(from);
        to[0] = two.x, to[1] = two.y;
    }
}

// Starts copying filters w (O, C, K, K) to shared memory as [c][row][column][o], forward.
template <class Stage>
__device__ __forceinline__ void load_filters(float* to, const float* __restrict__ w) {
    constexpr int O = Stage::O, C = Stage::C, K = Stage::K, WIDTH = (O + Stage::FORWARD - 1) / Stage::FORWARD *
        Stage::FORWARD;
    for (int t = threadIdx.x; t < C * K * K * WIDTH; t += THREADS) {
        const int o = t % WIDTH, tap = t / WIDTH;
        copy_float(to + t, w + o * C * K * K + tap, o < O);
    }
}

// Starts copying filters as [o][row][column][c], with rows and columns in reverse: the input gradient is a convolution
// by these.
template <class Stage>
__device__ __forceinline__ void load_reversed(float* to, const float* __restrict__ w) {
    constexpr int O = Stage::O, C = Stage::C, K = Stage::K, WIDTH = (C + Stage::BACKWARD - 1) / Stage::BACKWARD *
        Stage::BACKWARD;
    for (int t = threadIdx.x; t < O * K * K * WIDTH; t += THREADS) {
        const int c = t % WIDTH, tap = t / WIDTH % (K * K), o = t / (WIDTH * K * K);
        copy_float(to + t, w + (o * C + c) * K * K + K * K - 1 - tap, c < C);
    }
}

// Convolution of PLANES planes of a grid; `store` gets each of the COUNT outputs of (HIGH, WIDE) pixels. OFFSET: column
// of the grid at which the first window begins. filter: [plane][row][column][output].
template <int PLANES, int ROWS, int PITCH, int OFFSET, int K, int STRIDE, int COUNT, int HIGH, int WIDE, int OUTPUTS,
    class Store>
__device__ __forceinline__ void convolve(const float* grid, const float* filter, const Store& store) {
    constexpr int TILES = (WIDE + 3) / 4, GROUPS = (COUNT + OUTPUTS - 1) / OUTPUTS, WIDTH = GROUPS * OUTPUTS;
    constexpr int QUADS = (OFFSET + 3 * STRIDE + K + 3) / 4;
    for (int item = threadIdx.x; item < GROUPS * HIGH * TILES; item += THREADS) {
        const int column = item % TILES * 4, row = item / TILES % HIGH, first = item / (TILES * HIGH) * OUTPUTS;
        const float *from = grid + row * STRIDE * PITCH + column * STRIDE, *weights = filter + first;
        float sum[OUTPUTS][4] = {};
#pragma unroll 1
        for (int plane = 0; plane < PLANES; ++plane, from += ROWS * PITCH) {
#pragma unroll
            for (int y = 0; y < K; ++y) {
                float pixel[4 * QUADS];
                load_row<QUADS>(pixel, from + y * PITCH);
#pragma unroll
                for (int x = 0; x < K; ++x, weights += WIDTH) {
                    float weight[OUTPUTS];
                    load_weights<OUTPUTS>(weight, weights);
#pragma unroll
                    for (int o = 0; o < OUTPUTS; ++o)
#pragma unroll
                        for (int p = 0; p < 4; ++p)
                            sum[o][p] = fmaf(weight[o], pixel[OFFSET + p * STRIDE + x], sum[o][p]);
                }
            }
        }
        // outputs beyond the last one, and pixels beyond the row, are nowhere stored
#pragma unroll
        for (int o = 0; o < OUTPUTS; ++o)
#pragma unroll
            for (int p = 0; p < 4; ++p)
                if (first + o < COUNT && column + p < WIDE) store(first + o, row, column + p, sum[o][p]);
    }
}

// Stage forward, from its input grid: z (O, ROWS, COLUMNS) of one sample and argmax indices of a pool go to global
// memory, and z to the next stage's grid unless it is null. unpooled: (O, HIGH, WIDE) floats of shared memory.
template <class Stage, class Next>
__device__ __forceinline__ void stage_forward(const float* grid, const float* filter, const float* __restrict__ b,
    float* unpooled, float* next, float* __restrict__ z, unsigned char* __restrict__ argmax) {
    using In = typename Stage::Input;
    constexpr int O = Stage::O, HIGH = Stage::HIGH, WIDE = Stage::WIDE, POOL = Stage::POOL, FUNCTION = Stage::FUNCTION;
    convolve<Stage::C, In::ROWS, In::PITCH, 0, Stage::K, Stage::STRIDE, O, HIGH, WIDE, Stage::FORWARD>(grid, filter,
        [&](int o, int row, int column, float sum) {
            if (b != nullptr) sum += b[o];
            if constexpr (!Stage::IS_LATE || POOL == 1) sum = value<FUNCTION>(sum, Stage::slope());
            if constexpr (POOL > 1) {
                unpooled[(o * HIGH + row) * WIDE + column] = sum;
            } else {
                z[(o * HIGH + row) * WIDE + column] = sum;
                if (next != nullptr) next[Next::at(o, row, column)] = sum;
            }
        });
    __syncthreads();
    if constexpr (POOL > 1) {
        constexpr int ROWS = Stage::ROWS, COLUMNS = Stage::COLUMNS;
        for (int t = threadIdx.x; t < O * ROWS * COLUMNS; t += THREADS) {
            const int column = t % COLUMNS, row = t / COLUMNS % ROWS, o = t / (COLUMNS * ROWS);
            const float* const window = unpooled + (o * HIGH + row * POOL) * WIDE + column * POOL;
            float best = window[0];
            int place = 0;
#pragma unroll
            for (int k = 1; k < POOL * POOL; ++k) {
                const float x = window[k / POOL * WIDE + k % POOL];
                if (beats(x, best)) best = x, place = k;
            }
            if constexpr (Stage::IS_LATE) best = value<FUNCTION>(best, Stage::slope());
            z[t] = best;
            argmax[t] = static_cast<unsigned char>(place);
            if (next != nullptr) next[Next::at(o, row, column)] = best;
        }
        __syncthreads();
    }
}

// Gradient by a stage's activation and pool: g, by its output z at (o, row, column), goes to the gradient's grid.
template <class Stage>
__device__ __forceinline__ void spread(float* grid, float g, float z, const unsigned char* __restrict__ argmax, int o,
    int row, int column) {
    using Out = typename Stage::Gradient;
    constexpr int POOL = Stage::POOL, STEP = Stage::STEP, FUNCTION = Stage::FUNCTION;
    if constexpr (FUNCTION == RELU) g = z > 0.0f ? g : 0.0f;
    else if constexpr (FUNCTION != IDENTITY) g *= derivative<FUNCTION>(z, Stage::slope());  // of its output
    if constexpr (POOL == 1) {
        grid[Out::at(o, row * STEP, column * STEP)] = g;
    } else {
        const int place = argmax[(o * Stage::ROWS + row) * Stage::COLUMNS + column];
#pragma unroll
        for (int k = 0; k < POOL * POOL; ++k)
            grid[Out::at(o, (row * POOL + k / POOL) * STEP, (column * POOL + k % POOL) * STEP)] = k == place ? g : 0.0f;
    }
}

// Sums over the pixels of TILE columns from `column` on of g times the input: for OUTPUTS outputs and a window's row.
template <class Stage, int TILE>
__device__ __forceinline__ void add_tile(float (&sum)[Stage::WEIGHTS][Stage::K], const float* g, const float* x,
    int count) {
    constexpr int K = Stage::K, STRIDE = Stage::STRIDE, STEP = Stage::STEP, PLANE = Stage::Gradient::ROWS *
        Stage::Gradient::PITCH;
    constexpr int QUADS = ((TILE - 1) * STRIDE + K + 3) / 4;
    float pixel[4 * QUADS];
    load_row<QUADS>(pixel, x);
#pragma unroll
    for (int o = 0; o < Stage::WEIGHTS; ++o) {
        const float* const from = g + min(o, count - 1) * PLANE;
        float gradient[4];
        if constexpr (TILE == 4 && STEP == 1) {
            load_row<1>(gradient, from);
        } else {
#pragma unroll
            for (int p = 0; p < TILE; ++p) gradient[p] = from[p * STEP];
        }
#pragma unroll
        for (int p = 0; p < TILE; ++p)
#pragma unroll
            for (int k = 0; k < K; ++k) sum[o][k] = fmaf(gradient[p], pixel[p * STRIDE + k], sum[o][k]);
    }
}

// Adds one sample's weight gradient to dw (O, C, K, K) and its bias gradient to db (O,), in shared memory. parts: sums
// of the SPLITS threads of each weight, which have every SPLITS-th row of pixels. Ends with the block's wait.
template <class Stage>
__device__ __forceinline__ void add_weights(const float* input, const float* gradient, float* parts, float* dw,
    float* db) {
    using In = typename Stage::Input;
    using Out = typename Stage::Gradient;
    constexpr int O = Stage::O, C = Stage::C, K = Stage::K, SPLITS = Stage::SPLITS, OUTPUTS = Stage::WEIGHTS;
    constexpr int GROUPS = (O + OUTPUTS - 1) / OUTPUTS, WHOLE = Stage::WIDE / 4 * 4, REST = Stage::WIDE % 4;
    for (int item = threadIdx.x; item < GROUPS * SPLITS * C * K; item += THREADS) {
        const int y = item % K, c = item / K % C, split = item / (K * C) % SPLITS,
            first = item / (K * C * SPLITS) * OUTPUTS, count = min(OUTPUTS, O - first);
        float sum[OUTPUTS][K] = {};
#pragma unroll 1
        for (int row = split; row < Stage::HIGH; row += SPLITS) {
            const float* const g = gradient + Out::at(first, row * Stage::STEP, 0);
            const float* const x = input + (c * In::ROWS + row * Stage::STRIDE + y) * In::PITCH;
#pragma unroll 1
            for (int column = 0; column < WHOLE; column += 4)
                add_tile<Stage, 4>(sum, g + column * Stage::STEP, x + column * Stage::STRIDE, count);
            if constexpr (REST > 0)
                add_tile<Stage, REST>(sum, g + WHOLE * Stage::STEP, x + WHOLE * Stage::STRIDE, count);
        }
#pragma unroll
        for (int o = 0; o < OUTPUTS; ++o)
#pragma unroll
            for (int k = 0; k < K; ++k) {
                const int at = (((first + o) * C + c) * K + y) * K + k;
                if (o >= count) continue;
                if constexpr (SPLITS == 1) dw[at] += sum[o][k];
                else parts[split * O * C * K * K + at] = sum[o][k];
            }
    }
    for (int o = threadIdx.x / 32; o < O; o += THREADS / 32) {
        float sum = 0.0f;
        for (int t = threadIdx.x % 32; t < Stage::HIGH * Stage::WIDE; t += 32)
            sum += gradient[Out::at(o, t / Stage::WIDE * Stage::STEP, t % Stage::WIDE * Stage::STEP)];
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) db[o] += sum;
    }
    __syncthreads();
    if constexpr (SPLITS > 1) {
        for (int t = threadIdx.x; t < O * C * K * K; t += THREADS) {
            float sum = parts[t];
#pragma unroll 4
            for (int split = 1; split < SPLITS; ++split) sum += parts[split * O * C * K * K + t];
            dw[t] += sum;
        }
        __syncthreads();
    }
}

// Gradient by a stage's input, through the activation and pool of the stage before: to that stage's gradient grid. z,
// argmax: of the stage before, z in this stage's input grid. Ends with the block's wait.
template <class Stage, class Before>
__device__ __forceinline__ void stage_backward(const float* gradient, const float* filter, const float* input,
    float* before, const unsigned char* __restrict__ argmax) {
    using Out = typename Stage::Gradient;
    constexpr int OFFSET = Out::LEFT - Out::TOP;
    convolve<Stage::O, Out::ROWS, Out::PITCH, OFFSET, Stage::K, 1, Stage::C, Stage::H, Stage::W, Stage::BACKWARD>(
        gradient, filter, [&](int c, int row, int column, float sum) {
            spread<Before>(before, sum, input[Stage::Input::at(c, row, column)], argmax, c, row, column);
        });
    __syncthreads();
}

// Starts copying a stage's input of one sample from global memory to its grid.
template <class Stage>
__device__ __forceinline__ void load_input(float* grid, const float* __restrict__ from) {
    constexpr int H = Stage::H, W = Stage::W;
    for (int t = threadIdx.x; t < Stage::C * H * W; t += THREADS)
        copy_float(grid + Stage::Input::at(t / (H * W), t / W % H, t % W), from + t, true);
}

// Numbers that a thread requests together.
constexpr int AHEAD = 8;

// Gradient of one sample by the last stage's output, through its activation and pool, to the gradient's grid.
template <class Stage>
__device__ __forceinline__ void load_gradient(float* grid, const float* __restrict__ dy, const float* __restrict__ z,
    const unsigned char* __restrict__ argmax) {
    constexpr int ROWS = Stage::ROWS, COLUMNS = Stage::COLUMNS, SIZE = Stage::O * ROWS * COLUMNS;
    for (int first = threadIdx.x; first < SIZE; first += AHEAD * THREADS) {
        float gradient[AHEAD], output[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            const int t = min(first + k * THREADS, SIZE - 1);
            gradient[k] = dy[t], output[k] = z[t];
        }
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            const int t = first + k * THREADS;
            if (t >= SIZE) continue;
            spread<Stage>(grid, gradient[k], output[k], argmax, t / (ROWS * COLUMNS), t / COLUMNS % ROWS, t % COLUMNS);
        }
    }
}

// One sample of the data set, scaled, to the first stage's grid and to x (n, C, H, W) at sample i; its label to target.
// first: position of sample 0 in the epoch's order.
template <class Stage, class Pixel>
__device__ __forceinline__ void gather(float* grid, const Pixel* __restrict__ source, float scale,
    const unsigned* __restrict__ order, long long first, int i, float* __restrict__ x, const int* __restrict__ labels,
    int* __restrict__ target) {
    constexpr int H = Stage::H, W = Stage::W, SIZE = Stage::C * H * W;
    const int row = order != nullptr ? order_at(order, static_cast<unsigned>(first + i)) : i;
    const Pixel* const from = source + static_cast<long long>(row) * SIZE;
    float* const to = x + static_cast<long long>(i) * SIZE;
    for (int start = threadIdx.x; start < SIZE; start += AHEAD * THREADS) {
        Pixel pixel[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) pixel[k] = from[min(start + k * THREADS, SIZE - 1)];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            const int t = start + k * THREADS;
            if (t >= SIZE) continue;
            const float number = static_cast<float>(pixel[k]) * scale;
            to[t] = number;
            grid[Stage::Input::at(t / (H * W), t / W % H, t % W)] = number;
        }
    }
    if (labels != nullptr && threadIdx.x == 0) target[i] = labels[row];
}
