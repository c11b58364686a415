// Softmax of one sample's logits, shifted by the largest one so that no exponential overflows.
#pragma once

// Softmax of a sample: numbers that its loss needs.
struct Softmax {
    float largest, total;  // the largest logit, and the sum of exp(logit - largest)
    int best;              // where the largest stands, the first among equals
};

// x: (classes,). A NaN among the logits makes total NaN.
__device__ __forceinline__ Softmax softmax(const float* x, int classes) {
    Softmax s = {x[0], 0.0f, 0};
    for (int c = 1; c < classes; ++c) {
        if (x[c] > s.largest) {
            s.largest = x[c];
            s.best = c;
        }
    }
    for (int c = 0; c < classes; ++c) s.total += expf(x[c] - s.largest);
    return s;
}

// Softmax of a sample's logits in registers: with a constant number of classes the loops are unrolled.
template <int CLASSES>
__device__ __forceinline__ Softmax softmax(const float (&x)[CLASSES]) { return softmax(&x[0], CLASSES); }

// Softmax of logits in the first LANES lanes of a warp, 16 or 32, minus infinity in lanes without one; they get it. A
// lane has N logits, 32 classes apart.
template <int LANES = 16, int N>
__device__ __forceinline__ Softmax softmax_of_lanes(const float (&logit)[N]) {
    const unsigned every_lane = 0xffffffffu, lanes = every_lane >> (32 - LANES);
    float largest = logit[0], total = 0.0f;
#pragma unroll
    for (int k = 1; k < N; ++k) largest = fmaxf(largest, logit[k]);
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(every_lane, largest, offset));
#pragma unroll
    for (int k = 0; k < N; ++k) total += expf(logit[k] - largest);
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) total += __shfl_xor_sync(every_lane, total, offset);
    int best = -1;
#pragma unroll
    for (int k = N - 1; k >= 0; --k) {
        const unsigned where = __ballot_sync(every_lane, logit[k] == largest) & lanes;
        if (where != 0) best = 32 * k + __ffs(where) - 1;
    }
    return {largest, total, best};
}
template <int LANES = 16>
__device__ __forceinline__ Softmax softmax_of_lanes(float logit) {
    const float one[1] = {logit};
    return softmax_of_lanes<LANES>(one);
}

// Loss -log of the probability of a class whose logit is x.
__device__ inline float surprise(const Softmax& s, float x) { return logf(s.total) - (x - s.largest); }
