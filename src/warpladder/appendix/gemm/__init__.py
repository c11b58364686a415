"""One matrix product, sixteen kernels: each level adds one idea to the one before.

    C (m, n) = A (m, k) B (k, n), float32, row by row in memory

`levels.py` says what the levels in fp32 multiply-adds are and what each should reach, `tensor.py` lists those on tensor
cores; `<level>.cu` is the kernel, `proof.py` proves it, `climb.py` times it next to cuBLAS.
It imports ops/linear/gemm.cu, device and proof; only the command line imports it. Begin with levels.py.
"""

from .levels import LEVELS as LEVELS
from .levels import Level as Level
from .tensor import BY_PRECISION as BY_PRECISION
from .tensor import TENSOR_LEVELS as TENSOR_LEVELS
from .tensor_level import TensorLevel as TensorLevel
