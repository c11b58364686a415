// Packing of a convolution's weights for `convolve` of product.cu: panels of BN outputs by 32 terms, scaled and split.
// arch: sm_80, sm_90, sm_100
// instance: pack_weights<SPLIT>; pack_weights<BF16>
#include "../folded.cuh"
#include "tensor_pixels.cuh"

constexpr int WARPS = 16;

// Input of one direction of a convolution: `inputs` channels for `outputs`. direction: as in gemm_patches.cuh. few:
// terms are (input, tap), else (input / 32, tap, input % 32). swapped: w is (inputs, outputs, ...), not (outputs,
// inputs, ...). bn: outputs of a panel. panels: of a class and tile of outputs.
struct Direction {
    uint4* packed;
    int outputs, inputs, direction, few, swapped, bn, panels;
};

template <int FORMAT>
__device__ void pack(const Direction& to, int number, const float* w, int k, int fold, int stride, int padding) {
    using Panel = Rows<FORMAT, DEPTH, NEIGHBOURS>;
    using Number = typename Panel::Number;
    const int columns = to.direction == MERGED ? stride * stride * to.outputs : to.outputs,
        tiles = (columns + to.bn - 1) / to.bn;
    const int panel = number % to.panels, tile = number / to.panels % tiles, of_class = number / to.panels / tiles;
    const int unit = Panel::COPIES * to.bn * Panel::CHUNKS + (SCALED<FORMAT> ? to.bn / 4 : 0);
    const Panel target{to.packed + static_cast<long long>(number) * unit, to.bn};
    float* scales = reinterpret_cast<float*>(target.chunks + Panel::COPIES * to.bn * Panel::CHUNKS);
    const int lane = threadIdx.x % 32, size = k - fold + 1;
    const Axis merged = merged_axis(0, k, stride, padding);

    for (int row = threadIdx.x / 32; row < to.bn; row += WARPS) {
        const int column = tile * to.bn + row, phase = to.direction == MERGED ? column / to.outputs : of_class,
            output = column % to.outputs;
        Axis down{k, 1, 0, 0, 1, 0}, along = down;
        if (to.direction != FORWARD)
            down = transposed_axis(0, k, stride, padding, phase / stride),
            along = transposed_axis(0, k, stride, padding, phase % stride);
        const Axis reach_down = to.direction == MERGED ? merged : down, reach_along = to.direction == MERGED ? merged
            : along;
        const int taps = max(1, reach_down.taps * reach_along.taps), term = DEPTH * panel + lane;
        const int input = to.few ? term / taps : panel / taps * DEPTH + lane, tap = to.few ? term % taps : panel % taps;
        int i = tap / max(1, reach_along.taps) + reach_down.first - down.first,
            j = tap % max(1, reach_along.taps) + reach_along.first - along.first;
        float value = 0.0f;
        if (column < columns && input < to.inputs && i >= 0 && i < down.taps && j >= 0 && j < along.taps) {
            if (to.direction != FORWARD)
                i = phase / stride + stride * (down.taps - 1 - i), j = phase % stride + stride * (along.taps - 1 - j);
            const long long pair = to.swapped ? static_cast<long long>(input) * to.outputs + output
                : static_cast<long long>(output) * to.inputs + input;
            value = folded(w + pair * size * size, i, j, k, fold);
        }
        if constexpr (SCALED<FORMAT>) {
            const unsigned exponent = shared_exponent<1, 32>(bits_of_size(value));
            value *= power_of_two(exponent);
            if (lane == 0) scales[row] = power_of_two(254u - exponent) * UP;
        }
        Number* place = reinterpret_cast<Number*>(target.chunks + Panel::place(row, lane / Panel::EACH))
            + lane % Panel::EACH;
        if constexpr (FORMAT == TF32) *place = to_tf32(value);
        else if constexpr (FORMAT == BF16) *place = static_cast<Number>(two_bf16(value, 0.0f));
        else {
            const unsigned high = two_halves(value, 0.0f);
            *place = static_cast<Number>(high);
            if constexpr (FORMAT == SPLIT)
                place[to.bn * DEPTH] = static_cast<Number>(two_halves(value - low_half(high), 0.0f));
        }
    }
}

// Packs weights w (o, c, size, size), size = k - fold + 1, for the forward pass (`half` blocks), and for the input
// gradient unless `backward` is null. A block packs a panel, a warp every WARPS-th output of it, a lane one term.
template <int FORMAT>
__global__ void __launch_bounds__(32 * WARPS) pack_weights(
    const float* __restrict__ w, int o, int c, int k, int fold, int stride, int padding, uint4* __restrict__ forward,
    int forward_direction, int forward_few, int forward_bn, int forward_panels, uint4* __restrict__ backward,
    int backward_direction, int backward_few, int backward_bn, int backward_panels, int half
) {
    if (blockIdx.x < half)
        pack<FORMAT>(Direction{forward, o, c, forward_direction, forward_few, 0, forward_bn, forward_panels},
            blockIdx.x, w, k, fold, stride, padding);
    else
        pack<FORMAT>(Direction{backward, c, o, backward_direction, backward_few, 1, backward_bn, backward_panels},
            blockIdx.x - half, w, k, fold, stride, padding);
}
