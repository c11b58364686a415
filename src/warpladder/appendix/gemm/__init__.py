"""Sixteen kernels of one matrix product, C (m, n) = A (m, k) B (k, n) in float32; each level adds one idea to the one
before.

`levels.py` has the levels in fp32 multiply-adds with their predicted speed, `tensor.py` those on tensor cores;
`<level>.cu` is the kernel, `proof.py` proves it, `climb.py` times it and cuBLAS.
It imports ops/linear/gemm.cu, device and proof; only the command line imports it. Begin with levels.py.
"""

from .levels import LEVELS as LEVELS
from .levels import Level as Level
from .tensor import BY_PRECISION as BY_PRECISION
from .tensor import TENSOR_LEVELS as TENSOR_LEVELS
from .tensor_level import TensorLevel as TensorLevel
