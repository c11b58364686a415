// A convolution of few inputs as in few.cu, which also writes y channels last in bf16 (warpgroup_pack.cu).
// Launched by `FewConvolution` of few_inputs.py.
// arch: sm_80, sm_90, sm_100
// instance: convolve_few_packed<3, 3, POOL>
#include "few.cuh"
#include "mma.cuh"

constexpr int EACH = 8;  // outputs that a thread writes at once, 16 bytes; `chunk` is a multiple of it

// Arguments as of convolve_few. packed: (n, rows, columns of y, o), bf16. The floats of y are written too: the next
// layer sets its dx to 0 where they are not above 0, and rounding may change a positive number to 0.
template <int C, int K, int AFTER>
__global__ void __launch_bounds__(128) convolve_few_packed(
    const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ y,
    unsigned char* __restrict__ argmax, unsigned short* __restrict__ packed, int n, int h, int width, int o, int oh,
    int ow, int padding, int chunk
) {
    constexpr int PIXELS = AFTER == POOL ? 1 : 4;
    __shared__ FewWeights<C, K> weights;
    const int first = blockIdx.y * chunk, count = min(chunk, o - first);
    weights.bring(w, b, first, count);

    const int high = AFTER == POOL ? oh / 2 : (oh + 1) / 2, wide = AFTER == POOL ? ow / 2 : (ow + 1) / 2;
    const int number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= n * high * wide) return;
    const Place2d at = place2d<false>(number, high, wide);
    const FewSeen<C, K> seen(x, at, h, width, padding);

    const int rows = AFTER == POOL ? high : oh, columns = AFTER == POOL ? wide : ow, step = AFTER == POOL ? 1 : 2;
    const auto inside = [&](int e) { return PIXELS == 1 || (2 * at.row + e / 2 < oh && 2 * at.column + e % 2 < ow); };
    const auto pixel = [&](int e) { return (step * at.row + e / 2) * columns + step * at.column + e % 2; };
    for (int output = 0; output < count; output += EACH) {
        float value[PIXELS][EACH];
#pragma unroll
        for (int each = 0; each < EACH; ++each) {
            const long long target = (static_cast<long long>(at.image) * o + first + output + each) * rows * columns;
            float sum[4];
            seen.sums(sum, weights, output + each);
            if constexpr (AFTER == POOL) {
                const Best best = best_of(sum);
                store_best(best, y, argmax, target + pixel(0));
                value[0][each] = relu(best.value);
            } else {
#pragma unroll
                for (int e = 0; e < PIXELS; ++e) {
                    value[e][each] = AFTER == RELU ? relu(sum[e]) : sum[e];
                    if (inside(e)) y[target + pixel(e)] = value[e][each];
                }
            }
        }
#pragma unroll
        for (int e = 0; e < PIXELS; ++e) {
            const uint4 eight = make_uint4(
                two_bf16(value[e][0], value[e][1]), two_bf16(value[e][2], value[e][3]),
                two_bf16(value[e][4], value[e][5]), two_bf16(value[e][6], value[e][7])
            );
            const long long to = (static_cast<long long>(at.image) * rows * columns + pixel(e)) * o + first + output;
            if (inside(e)) *reinterpret_cast<uint4*>(packed + to) = eight;
        }
    }
}
