// A linear layer that writes what it computes as Number, and a ReLU that reads doubles: one thread for each number that is computed.
// x, dx: (n, inputs); w, dw: (outputs, inputs); b, db: (outputs,); y, dy: (n, outputs). Sums are in double.
#include "index.cuh"

// y = x w' + b.
template <typename Number>
__global__ void linear_to(const float* x, const float* w, const float* b, Number* y, int n, int inputs, int outputs) {
    const long long at = thread_number();
    if (at >= start(n, outputs)) return;
    const int sample = at / outputs, o = at % outputs;
    double sum = b[o];
    for (int i = 0; i < inputs; ++i) sum += static_cast<double>(x[start(sample, inputs) + i]) * w[start(o, inputs) + i];
    y[at] = static_cast<Number>(sum);
}

// dw = dy' x, and db = the sums of dy: a thread for each weight, the first of an output's for its bias too.
template <typename Number>
__global__ void weight_gradient_of(const float* x, const Number* dy, float* dw, float* db, int n, int inputs, int outputs) {
    const long long at = thread_number();
    if (at >= start(outputs, inputs)) return;
    const int o = at / inputs, i = at % inputs;
    double sum = 0, bias = 0;
    for (int sample = 0; sample < n; ++sample) {
        const double d = dy[start(sample, outputs) + o];
        sum += d * x[start(sample, inputs) + i];
        bias += d;
    }
    dw[at] = static_cast<float>(sum);
    if (i == 0) db[o] = static_cast<float>(bias);
}

// dx = dy w.
template <typename Number>
__global__ void input_gradient_of(const Number* dy, const float* w, float* dx, int n, int inputs, int outputs) {
    const long long at = thread_number();
    if (at >= start(n, inputs)) return;
    const int sample = at / inputs, i = at % inputs;
    double sum = 0;
    for (int o = 0; o < outputs; ++o) sum += static_cast<double>(dy[start(sample, outputs) + o]) * w[start(o, inputs) + i];
    dx[at] = static_cast<float>(sum);
}

// y = max(x, 0) for `count` numbers; NaN stays.
extern "C" __global__ void relu_of_doubles(const double* x, float* y, long long count) {
    const long long i = thread_number();
    if (i < count) y[i] = x[i] < 0 ? 0.0f : static_cast<float>(x[i]);
}

// dx = dy where y is above 0, else 0.
extern "C" __global__ void relu_gradient_in_doubles(const float* y, const float* dy, double* dx, long long count) {
    const long long i = thread_number();
    if (i < count) dx[i] = y[i] > 0.0f ? dy[i] : 0.0;
}
