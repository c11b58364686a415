// Layout of a net's arrays during training: every row begins at a multiple of 16 bytes, and biases are columns.
#pragma once

// Pitch in floats of a row of `features` features: the features, one number for the bias, zeros up to 16 bytes.
// Activations have a one in place of the bias, gradients by outputs a zero.
__device__ constexpr int line(int features) { return (features + 4) / 4 * 4; }

// Copies the parameters or one of the slots of a Linear layer: weight (OUT, IN) and bias (OUT,) between the flat array,
// at w_at and b_at, and `rows` (OUT, line(IN)). INTO_ROWS: true before training, false after it.
template <int IN, int OUT, bool INTO_ROWS>
__device__ __forceinline__ void move_rows(float* flat, float* rows, int w_at, int b_at, int thread, int threads) {
    for (int i = thread; i < OUT * (IN + 1); i += threads) {
        const int o = i / (IN + 1), e = i % (IN + 1);
        float* const one = flat + (e < IN ? w_at + o * IN + e : b_at + o);
        float* const other = rows + o * line(IN) + e;
        if (INTO_ROWS) *other = *one;
        else *one = *other;
    }
}
