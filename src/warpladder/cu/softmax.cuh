// Softmax of one sample's logits, shifted by the largest one so that no exponential overflows.
#pragma once

// What the loss of a sample needs.
struct Softmax {
    float largest, total;  // the largest logit, and the sum of exp(logit - largest)
    int best;              // where the largest stands, the first among equals
};

// x: (classes,). A NaN among the logits makes total NaN.
__device__ inline Softmax softmax(const float* x, int classes) {
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

// -log of the probability of a class whose logit is x.
__device__ inline float surprise(const Softmax& s, float x) { return logf(s.total) - (x - s.largest); }
