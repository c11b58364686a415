"""cuBLASLt and cuDNN as far as the library rung calls them, in NumPy on an emulated device's memory.

They take what the real ones take (columns first, strides, enumerations) and refuse what these would refuse, as far as
that is documented. What they cannot show is how the real ones choose, round and repeat: tests/gpu/test_library_gpu.py
does that.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from references import conv2d

from warpladder.device import Device, Stream
from warpladder.device.gpu import cublas, cudnn, library

STREAM = 77  # the handle of every stream


def numbers(address: int, *shape: int) -> np.ndarray:
    """float32 numbers in memory."""
    count = int(np.prod(shape))
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address)).reshape(shape)


def held(address: int, dtype: Any, size: int) -> Any:
    """One number of a description."""
    assert np.dtype(dtype).itemsize == size
    return np.frombuffer(ctypes.string_at(address, size), dtype)[0]


class Gpu:
    """What the libraries ask of a GPU."""

    def __init__(self, device: Device) -> None:
        self.device, self.name = device, device.name

    def enter(self) -> None:
        pass

    def on(self, stream: Stream | None) -> Any:
        return SimpleNamespace(handle=STREAM)


class Memory:
    """Results written to a device's memory; the checker is told, as it is of copies."""

    def __init__(self, device: Device) -> None:
        self.device: Any = device

    def write(self, address: int, values: np.ndarray) -> None:
        numbers(address, *values.shape)[...] = values
        self.device.runtime.emu_written(address, 4 * values.size)


Op = enum.IntEnum("Op", "N T", start=0)
Scheme = enum.IntEnum("Scheme", "NONE INPLACE COMPUTE_TYPE", start=0)
Product = enum.IntEnum("Product", "TRANSA TRANSB EPILOGUE BIAS_POINTER")
ALIGNMENTS = "MIN_ALIGNMENT_A_BYTES MIN_ALIGNMENT_B_BYTES MIN_ALIGNMENT_C_BYTES MIN_ALIGNMENT_D_BYTES"
Wish = enum.IntEnum("Wish", f"MAX_WORKSPACE_BYTES REDUCTION_SCHEME_MASK {ALIGNMENTS}")  # type: ignore[misc]
Cap = enum.IntEnum("Cap", "NUMERICAL_IMPL_FLAGS")
Setting = enum.IntEnum("Setting", "ID TILE_ID SPLITK_NUM REDUCTION_SCHEME")
COMPUTE_32F, BIAS = 68, 4
FMA_32F = 1 | 2 << 8 | 8 << 16
WORKSPACE = 4096


class CublasLt(ModuleType):
    """Products of matrices whose columns lie one after another."""

    ReductionScheme, MatmulDescAttribute, MatmulPreferenceAttribute = Scheme, Product, Wish
    MatmulAlgoCapAttribute, MatmulAlgoConfigAttribute = Cap, Setting
    Epilogue = SimpleNamespace(BIAS=BIAS)

    def __init__(self, memory: Memory) -> None:
        super().__init__("cublasLt")
        self.memory, self.ids = memory, itertools.count(1)
        self.known: dict[int, dict[str, Any]] = {}

    def _new(self, **what: Any) -> int:
        self.known[number := next(self.ids)] = what
        return number

    def create(self) -> int:
        return self._new()

    def get_version(self) -> int:
        return 130100

    def matmul_desc_create(self, compute_type: int, scale_type: int) -> int:
        assert (compute_type, scale_type) == (COMPUTE_32F, 0)
        return self._new(TRANSA=0, TRANSB=0, EPILOGUE=1)

    def get_matmul_desc_attribute_dtype(self, kind: int) -> Any:
        return {Product.EPILOGUE: np.uint32, Product.BIAS_POINTER: np.int64}.get(Product(kind), np.int32)

    def matmul_desc_set_attribute(self, product: int, kind: int, address: int, size: int) -> None:
        self.known[product][Product(kind).name] = held(address, self.get_matmul_desc_attribute_dtype(kind), size)

    def matrix_layout_create(self, kind: int, rows: int, columns: int, leading: int) -> int:
        assert kind == 0 and leading >= rows >= 1 and columns >= 1
        return self._new(rows=rows, columns=columns, leading=leading)

    def matmul_preference_create(self) -> int:
        return self._new()

    def get_matmul_preference_attribute_dtype(self, kind: int) -> Any:
        return np.uint64 if kind == Wish["MAX_WORKSPACE_BYTES"] else np.uint32

    def matmul_preference_set_attribute(self, wish: int, kind: int, address: int, size: int) -> None:
        self.known[wish][Wish(kind).name] = held(address, self.get_matmul_preference_attribute_dtype(kind), size)

    def _destroy(self, number: int) -> None:
        del self.known[number]

    matmul_desc_destroy = matrix_layout_destroy = matmul_preference_destroy = _destroy

    class MatmulHeuristicResult:
        def __init__(self, size: int) -> None:
            assert size == 1
            self.state, self.workspace_size = np.array(1), np.array(0)
            self.ptr = id(self)

    def matmul_algo_get_heuristic(
        self,
        handle: int,
        product: int,
        a: int,
        b: int,
        c: int,
        d: int,
        wish: int,
        wanted: int,
        results: int,
        count: int,
    ) -> None:
        assert self.known[wish]["REDUCTION_SCHEME_MASK"] in (Scheme.NONE, Scheme.COMPUTE_TYPE), (
            "other schemes have no fixed order"
        )
        assert set(self.known[wish]) == set(Wish.__members__)
        self._shapes(product, a, b, d)
        result = ctypes.cast(results, ctypes.py_object).value
        result.state = np.array(0)
        result.workspace_size = np.array(min(WORKSPACE, self.known[wish]["MAX_WORKSPACE_BYTES"]))
        ctypes.c_int32.from_address(count).value = wanted

    def matmul_algo_cap_get_attribute(self, algorithm: int, kind: int, address: int, size: int, written: int) -> None:
        ctypes.c_uint64.from_address(address).value = FMA_32F

    def matmul_algo_config_get_attribute(
        self, algorithm: int, kind: int, address: int, size: int, written: int
    ) -> None:
        ctypes.c_int32.from_address(address).value = Setting(kind)

    def _shapes(self, product: int, a: int, b: int, d: int) -> tuple[int, int, int]:
        p, (ra, ca), (rb, cb) = (
            self.known[product],
            *((self.known[x]["rows"], self.known[x]["columns"]) for x in (a, b)),
        )
        m, k = (ca, ra) if p["TRANSA"] == Op.T else (ra, ca)
        k2, n = (cb, rb) if p["TRANSB"] == Op.T else (rb, cb)
        assert k == k2 and (m, n) == (self.known[d]["rows"], self.known[d]["columns"]), (
            "shapes that do not fit each other"
        )
        return m, n, k

    def matmul(
        self, handle: int, product: int, alpha: int, a: int, adesc: int, b: int, bdesc: int, beta: int, c: int, cdesc: int, d: int, ddesc: int,
        algorithm: int, workspace: int, size: int, stream: int,
    ) -> None:  # fmt: skip
        assert stream == STREAM and (c, cdesc) == (d, ddesc) and (size == 0 or workspace)
        assert (ctypes.c_float.from_address(alpha).value, ctypes.c_float.from_address(beta).value) == (1.0, 0.0)
        m, _, _ = self._shapes(product, adesc, bdesc, ddesc)

        def matrix(address: int, layout: int, turn: int) -> np.ndarray:
            what = self.known[layout]
            stored = numbers(address, what["columns"], what["leading"])[:, : what["rows"]].T.astype(float)
            return stored.T if turn == Op.T else stored

        p = self.known[product]
        out = matrix(a, adesc, p["TRANSA"]) @ matrix(b, bdesc, p["TRANSB"])
        if p["EPILOGUE"] == BIAS:
            out += numbers(int(p["BIAS_POINTER"]), m).astype(float)[:, None]
        assert self.known[ddesc]["leading"] == m
        self.memory.write(d, out.T.astype(np.float32))


class Tensor:
    """A tensor of a graph."""

    def __init__(self, dim: list[int] | None = None, stride: list[int] | None = None, uid: int = 0) -> None:
        self.dim, self.stride, self.uid, self.output = dim, stride, uid, False

    def set_output(self, value: bool) -> Tensor:
        self.output = value
        return self

    def set_data_type(self, value: str) -> Tensor:
        assert value == "FLOAT"
        return self

    def set_dim(self, value: list[int]) -> Tensor:
        self.dim = value
        return self

    def set_stride(self, value: list[int]) -> Tensor:
        self.stride = value
        return self

    def set_uid(self, value: int) -> Tensor:
        self.uid = value
        return self


#: What a graph must be asked, in this order.
ORDER = (
    "validate", "build_operation_graph", "create_execution_plans", "deselect_numeric_notes", "deselect_workspace_greater_than",
    "check_support", "build_plans",
)  # fmt: skip


class Graph:
    """One convolution."""

    memory: Memory

    def __init__(self, io_data_type: str, intermediate_data_type: str, compute_data_type: str, handle: int) -> None:
        assert {io_data_type, intermediate_data_type, compute_data_type} == {"FLOAT"}
        self.asked: list[str] = []
        self.notes: list[str] = []

    def tensor(self, dim: list[int], stride: list[int], data_type: str, uid: int) -> Tensor:
        assert data_type == "FLOAT" and list(np.cumprod([1, *dim[:0:-1]])[::-1]) == stride
        return Tensor(dim, stride, uid)

    def _node(
        self, kind: str, first: Tensor, second: Tensor, padding: list[int], stride: list[int], dilation: list[int]
    ) -> Tensor:
        assert dilation == [1, 1] and padding[0] == padding[1] and stride[0] == stride[1]
        self.kind, self.first, self.second, self.step, self.padding, self.out = (
            kind,
            first,
            second,
            stride[0],
            padding[0],
            Tensor(),
        )
        return self.out

    def conv_fprop(self, image: Tensor, weight: Tensor, **window: Any) -> Tensor:
        return self._node("y", image, weight, **window)

    def conv_dgrad(self, loss: Tensor, filter: Tensor, **window: Any) -> Tensor:
        return self._node("dx", loss, filter, **window)

    def conv_wgrad(self, image: Tensor, loss: Tensor, **window: Any) -> Tensor:
        return self._node("dw", image, loss, **window)

    def __getattr__(self, name: str) -> Any:
        if name not in ORDER:
            raise AttributeError(name)

        def asked(value: Any = None) -> None:
            self.asked.append(name)
            if name == "deselect_numeric_notes":
                self.notes = value

        return asked

    def get_workspace_size(self) -> int:
        return WORKSPACE

    def execute(self, addresses: dict[int, int], workspace: int, handle: int) -> None:
        assert (
            tuple(self.asked) == ORDER
            and {"TENSOR_CORE", "NONDETERMINISTIC"} <= set(self.notes)
            and workspace
            and self.out.output
        )
        out = self.out
        assert out.dim and list(np.cumprod([1, *out.dim[:0:-1]])[::-1]) == out.stride
        first, second = (numbers(addresses[t.uid], *(t.dim or ())).astype(float) for t in (self.first, self.second))
        if self.kind == "y":
            found = conv2d.forward(first, second, np.zeros(len(second)), self.step, self.padding)
        elif self.kind == "dx":
            found = conv2d.backward(np.zeros(out.dim), second, first, self.step, self.padding)[0]
        else:
            found = conv2d.backward(first, np.zeros(out.dim), second, self.step, self.padding)[1]
        self.memory.write(addresses[out.uid], found.reshape(out.dim).astype(np.float32))


class Backend:
    """The part of libcudnn that is called directly."""

    cudnnGetErrorString = SimpleNamespace()

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.shapes: dict[int, tuple[int, int]] = {}

    def cudnnCreateTensorDescriptor(self, out: Any) -> int:
        out._obj.value = 1000 + len(self.shapes)
        return 0

    def cudnnDestroyTensorDescriptor(self, shape: Any) -> int:
        return 0

    def cudnnSetTensor4dDescriptor(self, shape: Any, layout: int, kind: int, n: int, c: int, h: int, w: int) -> int:
        assert (layout, kind, h, w) == (0, 0, 1, 1)
        self.shapes[shape.value] = n, c
        return 0

    def cudnnSoftmaxForward(
        self, handle: Any, algorithm: int, mode: int, one: Any, a: Any, x: Any, zero: Any, b: Any, y: Any
    ) -> int:  # fmt: skip
        assert (algorithm, mode) == (2, 0) and self.shapes[a.value] == self.shapes[b.value]
        logits = numbers(x.value, *self.shapes[a.value]).astype(float)
        shifted = logits - logits.max(axis=1, keepdims=True)
        self.memory.write(y.value, (shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))).astype(np.float32))
        return 0


def frontend(memory: Memory) -> ModuleType:
    module: Any = ModuleType("cudnn")
    module.create_handle, module.set_stream, module.backend_version = (
        lambda: 5,
        lambda handle, stream: None,
        lambda: 91900,
    )
    module.data_type = SimpleNamespace(FLOAT="FLOAT")
    module.heur_mode = SimpleNamespace(A="A", FALLBACK="FALLBACK")
    module.build_plan_policy = SimpleNamespace(HEURISTICS_CHOICE=0)
    module.numerical_note = SimpleNamespace(**{note: note for note in cudnn.AVOIDED})
    module.pygraph = type("Graph", (Graph,), {"memory": memory})
    return module


@contextmanager
def libraries(device: Device) -> Iterator[None]:
    """Within it, cuBLASLt and cuDNN are these, and an emulated device is taken for a GPU."""
    memory = Memory(device)
    bindings: Any = ModuleType("nvmath.bindings")
    bindings.cublasLt = CublasLt(memory)
    bindings.cublas = SimpleNamespace(ComputeType=SimpleNamespace(COMPUTE_32F=COMPUTE_32F), Operation=Op)
    modules = {"nvmath": ModuleType("nvmath"), "nvmath.bindings": bindings, "cudnn": frontend(memory)}
    forget = cublas.cublas.cache_clear, cudnn.cudnn.cache_clear
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(sys.modules, modules))
        stack.enter_context(mock.patch.object(cudnn, "backend", lambda: Backend(memory)))
        for module in (library, cublas, cudnn):
            stack.enter_context(mock.patch.object(module, "on_gpu", Gpu))
        for clear in forget:
            clear()
            stack.callback(clear)
        yield
