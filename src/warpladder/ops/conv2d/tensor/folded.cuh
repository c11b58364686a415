// Weights of a convolution after an upsampling: a folded kernel for the small image, whose numbers are sums of weights.
#pragma once

// Number (i, j) of a k x k kernel. With fold 1 it is w's. Else w is a kernel of k - fold + 1 for an image upsampled
// `fold` times, and the k x k one is that of the transposed convolution for both.
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
