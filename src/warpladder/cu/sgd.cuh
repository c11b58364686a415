// One parameter's step of stochastic gradient descent, as torch.optim.SGD defines it.
#pragma once
#include "nan.cuh"

// What a step is made with; limit infinity does not clip.
struct Sgd {
    float rate, momentum;
    int nesterov;
    float decay, limit;
};

// g is clipped to [-limit, limit], decay * w is added, v = momentum * v + g, and w -= rate * v, for Nesterov's rate * (g + momentum * v);
// without momentum w -= rate * g, and v stays as it is.
__device__ __forceinline__ void sgd_update(float& w, float g, float& v, const Sgd& s) {
    float change = clip(g, s.limit) + s.decay * w;
    if (s.momentum != 0.0f) {
        v = s.momentum * v + change;
        change = s.nesterov ? change + s.momentum * v : v;
    }
    w -= s.rate * change;
}
