"""Files to start from: for each operation a correct, simple kernel, which `climb --op` accepts unchanged."""

from __future__ import annotations

from ...errors import KernelError
from .roles import PASSES, named

_LINEAR_FORWARD = """\
// y[n, o] = b[o] + sum over i of x[n, i] w[o, i]; x (n, inputs), w (outputs, inputs), y (n, outputs), row by row.
// launch: linear_forward<<<(n * outputs + 255) / 256, 256>>>
__global__ void linear_forward(const float* x, const float* w, const float* b, float* y, int n, int inputs,
                               int outputs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * outputs) return;
    int row = i / outputs, o = i % outputs;
    float sum = b ? b[o] : 0.0f;  // a layer may have no bias
    for (int k = 0; k < inputs; ++k) sum += x[row * inputs + k] * w[o * inputs + k];
    y[i] = sum;
}
"""

_LINEAR_BACKWARD = """\
// dx[n, i] = sum over o of dy[n, o] w[o, i]; dy (n, outputs), w (outputs, inputs), dx (n, inputs), row by row.
// launch: input_gradient<<<(n * inputs + 255) / 256, 256>>>
__global__ void input_gradient(const float* dy, const float* w, float* dx, int n, int inputs, int outputs) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, row = at / inputs, i = at % inputs;
    if (row >= n) return;
    float sum = 0.0f;
    for (int o = 0; o < outputs; ++o) sum += dy[row * outputs + o] * w[o * inputs + i];
    dx[at] = sum;
}

// dw[o, i] = sum over n of dy[n, o] x[n, i], and db[o] = sum over n of dy[n, o].
// launch: weight_gradient<<<(outputs * inputs + 255) / 256, 256>>>
__global__ void weight_gradient(const float* dy, const float* x, float* dw, float* db, int n, int inputs, int outputs) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, o = at / inputs, i = at % inputs;
    if (o >= outputs) return;
    float sum = 0.0f, bias = 0.0f;
    for (int row = 0; row < n; ++row) {
        sum += dy[row * outputs + o] * x[row * inputs + i];
        bias += dy[row * outputs + o];
    }
    dw[at] = sum;
    if (db && i == 0) db[o] = bias;
}
"""

_CONV2D_FORWARD = """\
// y[n, f, p, q] = b[f] + sum over channels, i, j of w[f, channel, i, j] x[n, channel, p stride - padding + i, ...].
// launch: conv2d_forward<<<(n * o * oh * ow + 255) / 256, 256>>>
__global__ void conv2d_forward(const float* x, const float* weight, const float* bias, float* y, int n, int c, int h,
                               int w, int o, int oh, int ow, int k, int stride, int padding) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * o * oh * ow) return;
    int q = at % ow, p = at / ow % oh, f = at / (ow * oh) % o, sample = at / (ow * oh * o);
    float sum = bias ? bias[f] : 0.0f;  // a layer may have no bias
    for (int m = 0; m < c * k * k; ++m) {
        int row = p * stride - padding + m / k % k, column = q * stride - padding + m % k;
        if (row < 0 || row >= h || column < 0 || column >= w) continue;
        sum += weight[f * c * k * k + m] * x[((sample * c + m / (k * k)) * h + row) * w + column];
    }
    y[at] = sum;
}
"""

_CONV2D_BACKWARD = """\
// dx[n, channel, row, column]: sum over the outputs that see the pixel. dy (n, o, oh, ow), weight (o, c, k, k).
// launch: input_gradient<<<(n * c * h * w + 255) / 256, 256>>>
__global__ void input_gradient(const float* dy, const float* weight, float* dx, int n, int c, int h, int w, int o,
                               int oh, int ow, int k, int stride, int padding) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * c * h * w) return;
    int column = at % w, row = at / w % h, channel = at / (w * h) % c, sample = at / (w * h * c);
    float sum = 0.0f;
    for (int m = 0; m < o * k * k; ++m) {
        int f = m / (k * k), i = m / k % k, j = m % k, p = row + padding - i, q = column + padding - j;
        if (p < 0 || q < 0 || p % stride || q % stride || p / stride >= oh || q / stride >= ow) continue;
        sum += weight[((f * c + channel) * k + i) * k + j] * dy[((sample * o + f) * oh + p / stride) * ow + q / stride];
    }
    dx[at] = sum;
}

// dw[f, channel, i, j] = sum over n, p, q of dy[n, f, p, q] x[n, channel, p stride - padding + i, ...].
// db[f] = sum over n, p, q of dy[n, f, p, q].
// launch: weight_gradient<<<(o * c * k * k + 255) / 256, 256>>>
__global__ void weight_gradient(const float* dy, const float* x, float* dw, float* db, int n, int c, int h, int w,
                                int o, int oh, int ow, int k, int stride, int padding) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= o * c * k * k) return;
    int j = at % k, i = at / k % k, channel = at / (k * k) % c, f = at / (k * k * c);
    float sum = 0.0f, bias = 0.0f;
    for (int m = 0; m < n * oh * ow; ++m) {
        int q = m % ow, p = m / ow % oh, sample = m / (ow * oh);
        int row = p * stride - padding + i, column = q * stride - padding + j;
        float gradient = dy[((sample * o + f) * oh + p) * ow + q];
        bias += gradient;
        if (row < 0 || row >= h || column < 0 || column >= w) continue;
        sum += gradient * x[((sample * c + channel) * h + row) * w + column];
    }
    dw[at] = sum;
    if (db && at % (c * k * k) == 0) db[f] = bias;
}
"""

_POOLS = {
    "maxpool2d": (
        "the maximum of a window; of equal values the first",
        "float best = seen[0];\n"
        "    for (int m = 1; m < k * k; ++m) {\n"
        "        float next = seen[m / k * w + m % k];\n"
        "        if (next > best || next != next) best = next;\n"
        "    }\n"
        "    y[at] = best;",
    ),
    "avgpool2d": (
        "the mean of a window",
        "float sum = 0.0f;\n    for (int m = 0; m < k * k; ++m) sum += seen[m / k * w + m % k];\n"
        "    y[at] = sum / (k * k);",
    ),
}

_POOL_FORWARD = """\
// y[n, c, p, q] is {what}. x (n, c, h, w), y (n, c, oh, ow).
// launch: {op}_forward<<<(n * c * oh * ow + 255) / 256, 256>>>
__global__ void {op}_forward(const float* x, float* y, int n, int c, int h, int w, int oh, int ow, int k, int stride) {{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * c * oh * ow) return;
    int q = at % ow, p = at / ow % oh, plane = at / (ow * oh);
    const float* seen = x + (plane * h + p * stride) * w + q * stride;
    {body}
}}
"""

_POOL_BACKWARD = """\
// dx[n, c, row, column]: the share of each window over the pixel. x, dx (n, c, h, w), dy (n, c, oh, ow).
// launch: {op}_backward<<<(n * c * h * w + 255) / 256, 256>>>
__global__ void {op}_backward(const float* x, const float* dy, float* dx, int n, int c, int h, int w, int oh, int ow,
                              int k, int stride) {{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * c * h * w) return;
    int column = at % w, row = at / w % h, plane = at / (w * h);
    float sum = 0.0f;
    for (int p = row < k ? 0 : (row - k) / stride + 1; p < oh && p * stride <= row; ++p) {{
        for (int q = column < k ? 0 : (column - k) / stride + 1; q < ow && q * stride <= column; ++q) {{
            float gradient = dy[(plane * oh + p) * ow + q];
{share}
        }}
    }}
    dx[at] = sum;
}}
"""

_SHARES = {
    "maxpool2d": """\
            const float* seen = x + (plane * h + p * stride) * w + q * stride;
            int best = 0;
            for (int m = 1; m < k * k; ++m) {
                float next = seen[m / k * w + m % k], most = seen[best / k * w + best % k];
                if (next > most || (next != next && most == most)) best = m;
            }
            if (best == (row - p * stride) * k + column - q * stride) sum += gradient;""",
    "avgpool2d": "            sum += gradient / (k * k);",
}

_UPSAMPLE = {
    "forward": """\
// y[n, c, p, q] = x[n, c, p / scale, q / scale]. x (n, c, h, w), y (n, c, oh, ow).
// launch: upsample2d_forward<<<(n * c * oh * ow + 255) / 256, 256>>>
__global__ void upsample2d_forward(const float* x, float* y, int n, int c, int h, int w, int oh, int ow, int scale) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * c * oh * ow) return;
    int q = at % ow, p = at / ow % oh, plane = at / (ow * oh);
    y[at] = x[(plane * h + p / scale) * w + q / scale];
}
""",
    "backward": """\
// dx[n, c, row, column] = the sum of dy over the pixel's copies. dy (n, c, oh, ow), dx (n, c, h, w).
// launch: upsample2d_backward<<<(n * c * h * w + 255) / 256, 256>>>
__global__ void upsample2d_backward(const float* dy, float* dx, int n, int c, int h, int w, int oh, int ow, int scale) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * c * h * w) return;
    int column = at % w, row = at / w % h, plane = at / (w * h);
    float sum = 0.0f;
    for (int i = 0; i < scale; ++i) {
        for (int j = 0; j < scale; ++j) sum += dy[(plane * oh + row * scale + i) * ow + column * scale + j];
    }
    dx[at] = sum;
}
""",
}

#: For each activation f(x), and its derivative from x and y = f(x).
_ACTIVATIONS = {
    "relu": ("x[i] < 0.0f ? 0.0f : x[i]", "y[i] > 0.0f ? 1.0f : 0.0f", "y"),
    "leakyrelu": ("x[i] > 0.0f ? x[i] : slope * x[i]", "x[i] > 0.0f ? 1.0f : slope", "x"),
    "tanh": ("tanhf(x[i])", "1.0f - y[i] * y[i]", "y"),
    "sigmoid": ("1.0f / (1.0f + expf(-x[i]))", "y[i] * (1.0f - y[i])", "y"),
    "gelu": (
        "0.5f * x[i] * erfcf(-0.70710678f * x[i])",
        "0.5f * erfcf(-0.70710678f * x[i]) + 0.39894228f * x[i] * expf(-0.5f * x[i] * x[i])",
        "x",
    ),
    "silu": (
        "x[i] / (1.0f + expf(-x[i]))",
        "(1.0f + x[i] * (1.0f - 1.0f / (1.0f + expf(-x[i])))) / (1.0f + expf(-x[i]))",
        "x",
    ),
}

_ACTIVATION = {
    "forward": """\
// y = f(x), for count numbers; y may be x.
// launch: {op}_forward<<<(count + 255) / 256, 256>>>
__global__ void {op}_forward(const float* x, float* y, {slope}int count) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = {value};
}}
""",
    "backward": """\
// dx = f'(x) dy, for count numbers; dx may be dy.
// launch: {op}_backward<<<(count + 255) / 256, 256>>>
__global__ void {op}_backward(const float* {reads}, const float* dy, float* dx, {slope}int count) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) dx[i] = dy[i] * ({value});
}}
""",
}

_SGD = """\
// w -= lr v, with v = momentum v + g + weight_decay w, for all parameters of the net. v is null without momentum.
// launch: sgd_step<<<(count + 255) / 256, 256>>>(w, g, first, lr, momentum, weight_decay, count)
__global__ void sgd_step(float* w, const float* g, float* v, float lr, float momentum, float weight_decay, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float step = g[i] + weight_decay * w[i];
    if (v) v[i] = step = momentum * v[i] + step;
    w[i] -= lr * step;
}
"""

_ADAM = """\
// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g g, w -= step_size m / (sqrt(v) correction + eps), where
// step_size is lr / (1 - beta1^t), correction 1 / sqrt(1 - beta2^t), rest1 1 - beta1, and rest2 1 - beta2.
// launch: adam_step<<<(count + 255) / 256, 256>>>{takes}
__global__ void adam_step(float* w, const float* g, float* m, float* v, float step_size, float beta1, float rest1,
                          float beta2, float rest2, float correction, float eps, float decay, int count) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float gradient = g[i]{penalty};
    m[i] = beta1 * m[i] + rest1 * gradient;
    v[i] = beta2 * v[i] + rest2 * gradient * gradient;
    w[i] = w[i]{shrink} - step_size * m[i] / (sqrtf(v[i]) * correction + eps);
}}
"""


def start(op: str) -> str:
    """Text of a .cu file with a correct kernel of an operation. Raises `KernelError` if there is none."""
    named(op)
    layer, _, part = op.partition(".")
    if op in ("update", "sgd.update"):
        return _SGD
    if part == "update":
        penalty = " + decay * w[i]" if layer == "adam" else ""
        shrink = "" if layer == "adam" else " - decay * w[i]"
        decay = "weight_decay" if layer == "adam" else "decay"
        takes = f"(w, g, first, second, step_size, beta1, rest1, beta2, rest2, correction, eps, {decay}, count)"
        return _ADAM.format(penalty=penalty, shrink=shrink, takes=takes)
    parts = [part] if part else list(PASSES)
    return "\n".join(_of(layer, each) for each in parts)


def _of(layer: str, part: str) -> str:
    whole = {
        ("linear", "forward"): _LINEAR_FORWARD, ("linear", "backward"): _LINEAR_BACKWARD,
        ("conv2d", "forward"): _CONV2D_FORWARD, ("conv2d", "backward"): _CONV2D_BACKWARD,
        ("upsample2d", "forward"): _UPSAMPLE["forward"], ("upsample2d", "backward"): _UPSAMPLE["backward"],
    }  # fmt: skip
    if (layer, part) in whole:
        return whole[layer, part]
    if layer in _POOLS:
        what, body = _POOLS[layer]
        if part == "forward":
            return _POOL_FORWARD.format(op=layer, what=what, body=body)
        return _POOL_BACKWARD.format(op=layer, share=_SHARES[layer])
    if layer not in _ACTIVATIONS:
        near = f"avgpool2d.{part}" if "pool" in layer else f"relu.{part}"
        raise KernelError(f"there is no file to start {layer}.{part} from: begin with {near}, or {_others()}")
    value, slope, reads = _ACTIVATIONS[layer]
    more = "float slope, " if layer == "leakyrelu" else ""
    text = value if part == "forward" else slope
    return _ACTIVATION[part].format(op=layer, value=text, reads=reads, slope=more)


def _others() -> str:
    return ", ".join(f"{name}.{part}" for name in ("linear", "conv2d", "maxpool2d") for part in PASSES)


def known() -> list[str]:
    """Operations that have a file to start from."""
    layers = ("linear", "conv2d", "upsample2d", *_POOLS, *_ACTIVATIONS)
    return [*(f"{name}.{part}" for name in layers for part in PASSES), "sgd.update", "adam.update", "adamw.update"]
