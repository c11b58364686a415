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

// packed (classes, rows, pitch) from w (outputs, inputs, size, size), or (inputs, outputs, size, size) where swapped is 1.
// Rows are (input / block, tap, input % block), zeros for inputs that do not exist; with block 0, (input, tap).
// way: as gemm.cu's. TRANSPOSED has stride * stride classes, each with its own taps, last tap first; MERGED one, whose columns are
// (phase, output) and whose taps are those of all phases, zeros where a phase does not meet one.
// One thread for each number of packed.
extern "C" __global__ void pack_weights(
    const float* __restrict__ w, float* __restrict__ packed, int outputs, int inputs, int k, int fold, int swapped, int way, int stride,
    int padding, int block, int class_size, int size
) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= size) return;
    const int columns = way == 2 ? stride * stride * outputs : outputs, pitch = (columns + 3) / 4 * 4;
    const int row = index % class_size / pitch, column = index % pitch, output = column % outputs;
    const int phase = way == 2 ? column / outputs : index / class_size;
    Axis down{k, 1, 0, 0, 1, 0}, along = down, reach_down = down, reach_along = down;
    if (way) {
        reach_down = down = transposed_axis(0, k, stride, padding, phase / stride % stride);
        reach_along = along = transposed_axis(0, k, stride, padding, phase % stride);
    }
    if (way == 2) reach_down = reach_along = merged_axis(0, k, stride, padding);
    const int taps = reach_down.taps * reach_along.taps;
    float value = 0.0f;
    if (taps > 0) {
        const int input = block ? row / (taps * block) * block + row % block : row / taps;
        const int tap = block ? row / block % taps : row % taps;
        int i = tap / reach_along.taps + reach_down.first - down.first, j = tap % reach_along.taps + reach_along.first - along.first;
        if (input < inputs && column < columns && i >= 0 && i < down.taps && j >= 0 && j < along.taps) {
            if (way) i = phase / stride + stride * (down.taps - 1 - i), j = phase % stride + stride * (along.taps - 1 - j);
            const int size_before = k - fold + 1;
            const int pair = swapped ? input * outputs + output : output * inputs + input;
            value = folded(w + static_cast<long long>(pair) * size_before * size_before, i, j, k, fold);
        }
    }
    packed[index] = value;
}
