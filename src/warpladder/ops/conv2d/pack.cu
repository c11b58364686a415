// Packing of a convolution's weights in the order in which the kernels of gemm.cu read them.
#include "tensor/folded.cuh"
#include "gemm_patches.cuh"

constexpr int INPUTS = 8, OUTPUTS = 32;  // of a block: a warp has an input, a lane an output

// Destination of packed weights. direction: as in gemm.cu. block: channels of a step, 0 for rows without padding.
struct Packing {
    float* packed;
    int outputs, inputs, direction, block, class_size;
};

// Tap of one phase: its offset for the first input of the block, and the distance to the next input; first column of
// its phase; number (i, j) of the kernel, i < 0 for a zero. place < 0: a tap that a smaller phase lacks.
struct Entry {
    long long place;
    int spacing, column, i, j;
};

// Tap number `tap` of a phase in the order of the panel's rows.
__device__ inline Entry entry_of(const Packing& to, int phase, int tap, int pitch, int input0, int k, int stride,
    int padding) {
    Axis down{k, 1, 0, 0, 1, 0}, along = down;
    if (to.direction != FORWARD) {
        down = transposed_axis(0, k, stride, padding, phase / stride);
        along = transposed_axis(0, k, stride, padding, phase % stride);
    }
    const Axis merged = merged_axis(0, k, stride, padding);
    const Axis reach_down = to.direction == MERGED ? merged : down, reach_along = to.direction == MERGED ? merged
        : along;
    const int taps = reach_down.taps * reach_along.taps;
    if (tap >= taps) return {-1, 0, 0, -1, -1};
    int i = tap / reach_along.taps + reach_down.first - down.first,
        j = tap % reach_along.taps + reach_along.first - along.first;
    if (i < 0 || i >= down.taps || j < 0 || j >= along.taps) i = j = -1;
    else if (to.direction != FORWARD)
        i = phase / stride + stride * (down.taps - 1 - i), j = phase % stride + stride * (along.taps - 1 - j);
    const long long row = to.block ? static_cast<long long>(input0 / to.block * taps + tap) * to.block
        + input0 % to.block : static_cast<long long>(input0) * taps + tap;
    const long long begin = to.direction == TRANSPOSED ? static_cast<long long>(phase) * to.class_size : 0;
    return {begin + row * pitch, to.block ? pitch : taps * pitch, to.direction == MERGED ? phase * to.outputs : 0, i,
        j};
}

// A layer's weights w (o, c, size, size), size = k - fold + 1, for its forward pass (`half` blocks) and, where backward
// is not null, for its input gradient, whose inputs are w's outputs.
//
// packed: (classes, rows, pitch). Rows are (input / block, tap, input % block), with zeros beyond the last input, or
// (input, tap) with block 0. TRANSPOSED has stride * stride classes, each with its taps, last tap first; MERGED one,
// with columns (phase, output) and the taps of all phases, zeros where a phase lacks one.
//
// A block copies kernels to shared memory if they fit (staged 1), computes the offset of each tap, and writes rows.
extern "C" __global__ void __launch_bounds__(32 * INPUTS) pack_weights(
    const float* __restrict__ w, int o, int c, int k, int fold, int stride, int padding, float* __restrict__ forward,
    int forward_direction, int forward_block, int forward_class_size, float* __restrict__ backward,
    int backward_direction, int backward_block, int backward_class_size, int half, int staged
) {
    constexpr int THREADS = 32 * INPUTS;
    // of a row of w, which is one output's forward and one input's backward, after each other
    extern __shared__ float kernels[];
    __shared__ Entry entries[THREADS];
    const bool swapped = blockIdx.x >= half;
    const Packing to = swapped ? Packing{backward, c, o, backward_direction, backward_block, backward_class_size}
                               : Packing{forward, o, c, forward_direction, forward_block, forward_class_size};
    const int phases = to.direction == FORWARD ? 1 : stride * stride;
    const int columns = to.direction == MERGED ? phases * to.outputs : to.outputs, pitch = (columns + 3) / 4 * 4;
    // with the columns that fill up the pitch
    const int wide = to.outputs + pitch - columns, tiles = (wide + OUTPUTS - 1) / OUTPUTS;
    const int number = swapped ? blockIdx.x - half : blockIdx.x;
    const int input0 = number / tiles * INPUTS, output0 = number % tiles * OUTPUTS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, input = input0 + warp, output = output0 + lane;

    const int size = k - fold + 1, square = size * size;
    int by_input = swapped ? to.outputs * square : square, by_output = swapped ? square : to.inputs * square;
    const float* from = w + static_cast<long long>(input0) * by_input + static_cast<long long>(output0) * by_output;
    if (staged) {
        const int inputs = min(INPUTS, to.inputs - input0), outputs = min(OUTPUTS, to.outputs - output0);
        const int rows = swapped ? inputs : outputs, length = (swapped ? outputs : inputs) * square, row = swapped
            ? by_input : by_output;
        const int span = swapped ? OUTPUTS * square : INPUTS * square + 1;  // odd: 32 outputs are in 32 banks
        for (int r = warp; r < rows; r += INPUTS)
            for (int x = lane; x < length; x += 32) copy_float(kernels + r * span + x, from + r * row + x, true);
        commit_copies();
        from = kernels, by_input = swapped ? span : square, by_output = swapped ? square : span;
    }
    from += warp * by_input + lane * by_output;

    const int longest = (k + stride - 1) / stride, reach = to.direction == MERGED
        ? merged_axis(0, k, stride, padding).taps : longest;
    const int most = to.direction == FORWARD ? k * k : reach * reach;  // taps of a phase
    const bool there = input < to.inputs && output < to.outputs;
    const bool written = input < (to.block ? (to.inputs + to.block - 1) / to.block * to.block : to.inputs)
        && output < wide;
    for (int first = 0; first < phases * most; first += THREADS) {
        const int e = first + threadIdx.x, count = min(THREADS, phases * most - first);
        __syncthreads();
        if (e < phases * most)
            entries[threadIdx.x] = entry_of(to, e / most, e % most, pitch, input0, k, stride, padding);
        wait_for_copies<0>();
        __syncthreads();
        for (int t = 0; written && t < count; ++t) {
            const Entry entry = entries[t];
            // the first phase fills up the pitch
            if (entry.place < 0 || (output >= to.outputs && entry.column > 0)) continue;
            const int column = output < to.outputs ? entry.column + output : columns + output - to.outputs;
            const float value = there && entry.i >= 0 ? folded(from, entry.i, entry.j, k, fold) : 0.0f;
            to.packed[entry.place + warp * entry.spacing + column] = value;
        }
    }
}
