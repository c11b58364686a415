// Step of stochastic gradient descent for one parameter, as torch.optim.SGD defines it.
#pragma once

// Settings of one step of SGD.
struct Sgd {
    float rate, momentum;
    int nesterov;
    float decay;
};

// g += decay * w; v = momentum * v + g; w -= rate * v, with Nesterov rate * (g + momentum * v). Without: w -= rate * g.
__device__ __forceinline__ void sgd_update(float& w, float g, float& v, const Sgd& s) {
    float change = g + s.decay * w;
    if (s.momentum != 0.0f) {
        v = s.momentum * v + change;
        change = s.nesterov ? change + s.momentum * v : v;
    }
    w -= s.rate * change;
}
