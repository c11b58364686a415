// A convolution's weights in the order in which the kernels of gemm.cu read them.
#include "gemm_patches.cuh"

// Number (i, j) of a k x k kernel. With fold 1 it is w's own. Else w is a kernel of k - fold + 1 that meets an image enlarged `fold` times, and
// the k x k one is that of the transposed convolution which does both at once: the sum of those numbers of w that meet the same small pixel.
__device__ inline float folded(const float* w, int i, int j, int k, int fold) {
    if (fold == 1) return w[i * k + j];
    const int size = k - fold + 1;
    float sum = 0.0f;
    for (int e = 0; e < fold; ++e)
        for (int f = 0; f < fold; ++f) {
            const int row = size - 1 - i + e, column = size - 1 - j + f;
            if (row >= 0 && row < size && column >= 0 && column < size) sum += w[row * size + column];
        }
    return sum;
}

// What the kernels of gemm.cu read. way: theirs. block: channels of a step, 0 where rows are ordered for few channels.
struct Packing {
    float* packed;
    int outputs, inputs, way, block, class_size;
};

// One direction of a layer. packed: (classes, rows, pitch) from w (outputs, inputs, size, size), or (inputs, outputs, size, size) if swapped.
// Rows are (input / block, tap, input % block), zeros for inputs that do not exist, or (input, tap) with block 0. TRANSPOSED has
// stride * stride classes, each with its own taps, last tap first; MERGED one, whose columns are (phase, output) and whose taps are those of
// all phases, zeros where a phase does not meet one.
// A thread has all numbers of an input and an output, outputs fastest: so it reads its kernel once, and a warp writes whole lines.
__device__ inline void pack(const float* w, const Packing& to, int k, int fold, bool swapped, int stride, int padding, int index) {
    const int phases = to.way == 0 ? 1 : stride * stride;
    const int columns = to.way == 2 ? phases * to.outputs : to.outputs, pitch = (columns + 3) / 4 * 4;
    const int wide = to.outputs + pitch - columns;  // outputs, and the columns that fill up the pitch
    const int input = index / wide, output = index % wide, size = k - fold + 1;
    if (input >= (to.block ? (to.inputs + to.block - 1) / to.block * to.block : to.inputs)) return;
    const bool there = input < to.inputs && output < to.outputs;
    const float* kernel = w + static_cast<long long>(swapped ? input * to.outputs + output : output * to.inputs + input) * size * size;
    const Axis reach_if_merged = merged_axis(0, k, stride, padding);
    for (int phase = 0; phase < phases; ++phase) {
        Axis down{k, 1, 0, 0, 1, 0}, along = down;
        if (to.way) {
            down = transposed_axis(0, k, stride, padding, phase / stride);
            along = transposed_axis(0, k, stride, padding, phase % stride);
        }
        const Axis reach_down = to.way == 2 ? reach_if_merged : down, reach_along = to.way == 2 ? reach_if_merged : along;
        const int taps = reach_down.taps * reach_along.taps;
        const int column = to.way == 2 ? (output < to.outputs ? phase * to.outputs + output : columns + output - to.outputs) : output;
        float* target = to.packed + (to.way == 1 ? static_cast<long long>(phase) * to.class_size : 0) + column;
        for (int tap = 0; tap < taps; ++tap) {
            int i = tap / reach_along.taps + reach_down.first - down.first, j = tap % reach_along.taps + reach_along.first - along.first;
            float value = 0.0f;
            if (there && i >= 0 && i < down.taps && j >= 0 && j < along.taps) {
                if (to.way) i = phase / stride + stride * (down.taps - 1 - i), j = phase % stride + stride * (along.taps - 1 - j);
                value = folded(kernel, i, j, k, fold);
            }
            const int row = to.block ? (input / to.block * taps + tap) * to.block + input % to.block : input * taps + tap;
            target[static_cast<long long>(row) * pitch] = value;
        }
    }
}

// A layer's weights for its forward pass and, where backward is not null, for its input gradient, whose inputs are outputs. `half` threads each.
extern "C" __global__ void pack_weights(
    const float* __restrict__ w, int outputs, int inputs, int k, int fold, int stride, int padding, float* __restrict__ forward,
    int forward_way, int forward_block, int forward_class_size, float* __restrict__ backward, int backward_way, int backward_block,
    int backward_class_size, int half
) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < half)
        pack(w, Packing{forward, outputs, inputs, forward_way, forward_block, forward_class_size}, k, fold, false, stride, padding, index);
    else if (backward != nullptr)
        pack(w, Packing{backward, inputs, outputs, backward_way, backward_block, backward_class_size}, k, fold, true, stride, padding, index - half);
}
