"""Net in JAX as a pure function of its parameters, of running statistics and of the keys of its masks.

Images have their channels last, weights are (in, out) and (height, width, in, out). docs/peers.md has the reasons.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from .... import nets
from ....ops.batchnorm import jax as batchnorm
from ....ops.dropout import jax as dropout
from ....ops.engine.layer_files import form
from ..layout import pooled_first, spatial

Tree = dict[str, jax.Array]


def forward(
    net: nets.Net, params: Tree, buffers: Tree, x: jax.Array, precision: str, keys: jax.Array | None = None,
    is_training: bool = False,
) -> tuple[jax.Array, Tree]:  # fmt: skip
    """Output (n, *out_shape) float32 of x (`layout.stored`), (n, height, width, channels) or (n, features), and the
    buffers after it.

    keys : (2,) uint32, the epoch's mask key and the position of the first sample; None in predictions, and for a net
    without masks. is_training : True if normalisations take the batch's statistics, and move the buffers.
    """
    half = jnp.bfloat16 if precision == "bf16" else None
    exactly = lax.Precision.HIGHEST if precision == "fp32" else lax.Precision.DEFAULT
    if half:
        params, x = {name: p.astype(half) if p.ndim > 1 else p for name, p in params.items()}, x.astype(half)
    image: nets.Shape | None = None
    entering: list[jax.Array] = []
    moved: Tree = {}
    for i, (layer, shape) in enumerate(pooled_first(net)):
        if image is not None and isinstance(layer, nets.RESIDUAL_PARTS):
            x, image = first(x, image), None
        entering.append(x)
        own, held = (
            {kind: tree[f"{net.names[i]}.{kind}"] for kind in kinds}
            for tree, kinds in ((params, layer.param_shapes(shape)), (buffers, layer.buffer_shapes(shape)))
        )
        match layer:
            case nets.Branch():
                pass
            case nets.Shortcut():
                x = entering[net.skips.stored[i]]
            case nets.Sum():
                x = x + entering[net.skips.stored[i]]
            case nets.Linear():
                x, image = jnp.matmul(x, own["weight"], precision=exactly), None
                x = biased(x, own["bias"]) if layer.bias else x
            case nets.Conv2d():
                x = convolved(layer, x, own["weight"], exactly)
                x = biased(x, own["bias"]) if layer.bias else x
            case nets.ReLU():
                x = jax.nn.relu(x)
            case nets.MaxPool2d():
                k, stride = layer.kernel_size, layer.stride or layer.kernel_size
                x = pool_windows(x, k) if half and stride == k else pool(x, k, stride)
            case nets.Upsample2d():
                n, h, w, c = x.shape
                k = layer.scale_factor
                x = jnp.broadcast_to(x[:, :, None, :, None, :], (n, h, k, w, k, c)).reshape(n, h * k, w * k, c)
            case nets.Flatten():
                image = shape if len(shape) == 3 and spatial(net) else image
                x = x.reshape(len(x), -1)
            case nets.Dropout():
                x = x if keys is None else dropout.masked(layer, x, keys, i, image)
            case _ if isinstance(layer, nets.NORMALISATIONS):
                x, held = batchnorm.normalised(layer, x, own, held, is_training)
                moved |= {f"{net.names[i]}.{kind}": each for kind, each in held.items()}
            case _:
                x = form(type(layer), "jax.py").forward(layer, x)
    return first(x, image).reshape(len(x), *net.out_shape).astype(jnp.float32), moved


def convolved(layer: nets.Conv2d, x: jax.Array, weight: jax.Array, precision: lax.Precision) -> jax.Array:
    """Convolution of x (n, h, w, c) with weight (k, k, c, o), without a bias: (n, oh, ow, o)."""
    edge = (layer.padding, layer.padding)
    return lax.conv_general_dilated(
        x, weight, (layer.stride, layer.stride), (edge, edge), dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=precision,
    )  # fmt: skip


@jax.custom_vjp
def biased(x: jax.Array, bias: jax.Array) -> jax.Array:
    """Sum of x and a bias in x's format, which XLA may fuse; the bias's gradient is summed in float32."""
    return x + bias.astype(x.dtype)


def _biased_gradient(_: None, dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    return dy, dy.astype(jnp.float32).sum(tuple(range(dy.ndim - 1)))


biased.defvjp(lambda x, bias: (biased(x, bias), None), _biased_gradient)


def first(x: jax.Array, image: nets.Shape | None) -> jax.Array:
    """Array with its channels first; image : its shape before it was flattened, if no later layer has read it."""
    if image is not None:
        c, h, w = image
        return x.reshape(-1, h, w, c).transpose(0, 3, 1, 2).reshape(len(x), -1)
    return x.transpose(0, 3, 1, 2) if x.ndim == 4 else x


def pool(x: jax.Array, k: int, stride: int) -> jax.Array:
    """Max pooling over k x k windows, the first of equals. Its gradient is a selection, which XLA fuses."""
    n, h, w, c = x.shape
    rows, columns = (h - k) // stride + 1, (w - k) // stride + 1
    best: jax.Array | None = None
    for p in range(k):
        for q in range(k):
            end = (n, p + (rows - 1) * stride + 1, q + (columns - 1) * stride + 1, c)
            one = lax.slice(x, (0, p, q, 0), end, (1, stride, stride, 1))
            best = one if best is None else jnp.where((one > best) | (one != one), one, best)
    assert best is not None
    return best


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def pool_windows(x: jax.Array, k: int) -> jax.Array:
    """Max pooling over windows that do not overlap, as a reduction: faster in bfloat16, slower in float32."""
    return windows_of(x, k).max((2, 4))


def windows_of(x: jax.Array, k: int) -> jax.Array:
    """View (n, rows, k, columns, k, channels) of the pooling windows of x, without incomplete windows."""
    n, h, w, c = x.shape
    return x[:, : h // k * k, : w // k * k].reshape(n, h // k, k, w // k, k, c)


def _pooled(x: jax.Array, k: int) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    best = pool_windows(x, k)
    return best, (x, best)


def _pool_gradient(k: int, kept: tuple[jax.Array, jax.Array], dy: jax.Array) -> tuple[jax.Array]:
    """Gradient (dx,) of `pool_windows`, at the first of equals; XLA's own gradient would divide it among equals."""
    x, best = kept
    windows = windows_of(x, k)
    place = lax.broadcasted_iota(jnp.int32, windows.shape, 2) * k + lax.broadcasted_iota(jnp.int32, windows.shape, 4)
    argmax = jnp.where(windows == best[:, :, None, :, None], place, k * k).min((2, 4), keepdims=True)
    dx = jnp.where(place == argmax, dy[:, :, None, :, None], 0).astype(x.dtype)
    n, h, w, c = x.shape
    inner = dx.reshape(n, h // k * k, w // k * k, c)
    return (jnp.pad(inner, ((0, 0), (0, h % k), (0, w % k), (0, 0))),)


pool_windows.defvjp(_pooled, _pool_gradient)


def floats(net: nets.Net) -> int:
    """Size of the largest activation of a sample, in numbers."""
    return max(map(math.prod, net.shapes))
