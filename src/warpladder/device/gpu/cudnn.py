"""cuDNN: convolutions as graphs of nvidia-cudnn-frontend, and the softmax of the backend library."""

from __future__ import annotations

import ctypes
import importlib
import math
import sys
import weakref
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DeviceError, KernelError
from .. import Array, Device
from .library import INSTALL, MOST_WORKSPACE, LibraryPlan, line, on_gpu

if TYPE_CHECKING:
    from .device import GpuDevice

#: Engines that are never chosen: they round factors or sums more coarsely than float32, give other bits at every run,
#: or transform a convolution, which makes rounding errors larger than the bound of the proof.
AVOIDED = (
    "TENSOR_CORE", "DOWN_CONVERT_INPUTS", "REDUCED_PRECISION_REDUCTION", "NONDETERMINISTIC",
    "FFT", "WINOGRAD", "WINOGRAD_TILE_4x4", "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13",
)  # fmt: skip

LIBRARY = "cudnn64_9.dll" if sys.platform == "win32" else "libcudnn.so.9"

#: Numbers of cudnn.h.
NCHW, FLOAT = 0, 0
LOG_SOFTMAX, EACH_SAMPLE = 2, 0


@cache
def cudnn(device: Device) -> Cudnn:
    """Handle of cuDNN on a GPU, created once."""
    return Cudnn(on_gpu(device))


def backend() -> Any:
    """Backend library of cuDNN, for functions without graphs in the frontend, which loads it."""
    from cuda import pathfinder

    for name in ("cudart", "nvrtc", "cublasLt"):
        pathfinder.load_nvidia_dynamic_lib(name)
    importlib.import_module("cudnn")
    return ctypes.CDLL(LIBRARY)


class Cudnn:
    """Handle of cuDNN on a GPU."""

    def __init__(self, device: GpuDevice) -> None:
        device.enter()
        try:
            self.backend = backend()
            import cudnn

            self.handle: int = cudnn.create_handle()
        except Exception as error:  # the type without the library depends on its version
            raise DeviceError(f"cuDNN does not start: {line(error)}; {INSTALL}") from error
        self.device, self.frontend = device, cudnn
        self.stream = 0
        self.backend.cudnnGetErrorString.restype = ctypes.c_char_p

    @property
    def version(self) -> int:
        """Version number, 91900 for 9.19."""
        return int(self.frontend.backend_version())

    def use(self, stream: int) -> None:
        """Set the stream on which the following calls are queued."""
        if stream != self.stream:
            self.frontend.set_stream(self.handle, stream)
            self.stream = stream

    def check(self, status: int, what: str) -> None:
        """Raise `DeviceError` if a status of the backend library is not success."""
        if status:
            raise DeviceError(f"cuDNN could not {what}: {self.backend.cudnnGetErrorString(status).decode()}")


def strides(shape: tuple[int, ...]) -> list[int]:
    """Strides of a packed row-major array, in numbers."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


class CudnnConvolution(LibraryPlan):
    """Product of a convolution, one of three, or a graph that contains it, all float32.

    connect : function that adds nodes to a graph: from the graph and a tensor for each input to the output's tensor.
    workspace : largest number of workspace bytes.
    """

    def __init__(
        self, cudnn: Cudnn, name: str, connect: Callable[..., Any], inputs: list[Array], out: Array,
        workspace: int = MOST_WORKSPACE,
    ) -> None:  # fmt: skip
        self.name = f"cudnn {name}"
        self.cudnn = cudnn
        self.arrays = [*inputs, out]  # keeps them alive
        self.addresses = {uid: array.address for uid, array in enumerate(self.arrays, 1)}
        fe = cudnn.frontend
        real = fe.data_type.FLOAT
        self.graph = fe.pygraph(
            io_data_type=real, intermediate_data_type=real, compute_data_type=real, handle=cudnn.handle
        )
        tensors = [
            self.graph.tensor(dim=list(array.shape), stride=strides(array.shape), data_type=real, uid=uid)
            for uid, array in enumerate(inputs, 1)
        ]
        result = connect(self.graph, *tensors)
        result.set_output(True).set_data_type(real).set_dim(list(out.shape)).set_stride(strides(out.shape)).set_uid(
            len(self.arrays)
        )
        try:
            self._plan(workspace)
        except Exception as error:
            shapes = " and ".join(str(array.shape) for array in inputs)
            wanted = f"deterministic float32 engine for {shapes} in {workspace:,} bytes of workspace"
            raise KernelError(f"{self.name} has no {wanted}: {line(error)}") from error
        self.workspace = int(self.graph.get_workspace_size())

    def _plan(self, workspace: int) -> None:
        """Choose the first engine that cuDNN proposes and that is not avoided: equal at every start."""
        fe, graph = self.cudnn.frontend, self.graph
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([fe.heur_mode.A, fe.heur_mode.FALLBACK])
        graph.deselect_numeric_notes([getattr(fe.numerical_note, note) for note in AVOIDED])
        graph.deselect_workspace_greater_than(workspace)
        graph.check_support()
        graph.build_plans(fe.build_plan_policy.HEURISTICS_CHOICE)

    def run(self, stream: int, workspace: int) -> None:
        self.cudnn.use(stream)
        self.graph.execute(self.addresses, workspace, self.cudnn.handle)


class Window:
    """Graph nodes of the three products of a convolution with square windows, for `CudnnConvolution`."""

    def __init__(self, stride: int, padding: int) -> None:
        self.settings = {"padding": [padding] * 2, "stride": [stride] * 2, "dilation": [1, 1]}

    def forward(self, graph: Any, x: Any, w: Any) -> Any:
        return graph.conv_fprop(image=x, weight=w, **self.settings)

    def input_gradient(self, graph: Any, dy: Any, w: Any) -> Any:
        return graph.conv_dgrad(loss=dy, filter=w, **self.settings)

    def weight_gradient(self, graph: Any, x: Any, dy: Any) -> Any:
        return graph.conv_wgrad(image=x, loss=dy, **self.settings)


class LogSoftmax(LibraryPlan):
    """Log-softmax by cuDNN: y[n, c] = x[n, c] - log(sum over k of exp(x[n, k])), (n, classes) float32."""

    workspace = 0

    def __init__(self, cudnn: Cudnn, x: Array, y: Array) -> None:
        self.name = "cudnn log-softmax"
        self.cudnn, self.arrays = cudnn, (x, y)
        lib = cudnn.backend
        self.shape = ctypes.c_void_p()
        cudnn.check(lib.cudnnCreateTensorDescriptor(ctypes.byref(self.shape)), "describe an array")
        weakref.finalize(self, lib.cudnnDestroyTensorDescriptor, self.shape)
        n, classes = x.shape
        cudnn.check(
            lib.cudnnSetTensor4dDescriptor(self.shape, NCHW, FLOAT, n, classes, 1, 1), f"describe an array of {x.shape}"
        )
        self.one, self.zero = np.ones(1, np.float32), np.zeros(1, np.float32)
        one, zero = (ctypes.c_void_p(number.ctypes.data) for number in (self.one, self.zero))
        first, second = (ctypes.c_void_p(array.address) for array in (x, y))
        handle, shape = ctypes.c_void_p(cudnn.handle), self.shape
        self.arguments = (handle, LOG_SOFTMAX, EACH_SAMPLE, one, shape, first, zero, shape, second)

    def run(self, stream: int, workspace: int) -> None:
        self.cudnn.use(stream)
        self.cudnn.check(self.cudnn.backend.cudnnSoftmaxForward(*self.arguments), "take a softmax")
