"""Errors for users. Each message is one line: the fault, its place, and a remedy.

It imports nothing of warpladder; every part may import it. arguments.py checks the arguments of public functions.
Begin with `WarpladderError`.
"""

from typing import Any


class WarpladderError(Exception):
    """Base class of all errors that warpladder raises on purpose."""


class ArgumentError(WarpladderError, TypeError):
    """Error: an argument has the wrong type or position, or an unknown name."""


class NetError(WarpladderError, ValueError):
    """Error: a net's layers do not fit each other or the samples."""


class ConfigError(WarpladderError, ValueError):
    """Error: a training setting is unknown or impossible."""


class DataError(WarpladderError, ValueError):
    """Error: a data file or array is missing, damaged or of the wrong kind."""


class RungError(WarpladderError):
    """Error: a rung or peer is unknown, not installed, or unable to train this net."""


class CheckpointError(WarpladderError):
    """Error: a checkpoint is missing, damaged, or belongs to another run."""


class UnsavedError(CheckpointError):
    """Error: the checkpoint of a finished run could not be written.

    run : the `Run`, which can still be saved to another file.
    """

    def __init__(self, message: str, run: Any) -> None:
        super().__init__(message)
        self.run = run


class DeviceError(WarpladderError):
    """Error: there is no GPU, its driver is missing or too old, or a device reports an error."""


class KernelError(WarpladderError, ValueError):
    """Error: a kernel does not compile, or arguments do not fit its signature."""


class LaunchError(WarpladderError, ValueError):
    """Error: the device cannot run a launch: too many threads, too much shared memory, an empty grid."""


class OutOfMemoryError(WarpladderError, MemoryError):
    """Error: buffers do not fit into a device's memory."""


class PlanError(WarpladderError, ValueError):
    """Error: a stored plan of a net's kernels is damaged."""


class DivergedError(WarpladderError, ArithmeticError):
    """Error: training produced a loss or weight that is not finite."""


class StopTraining(Exception):
    """Exception that a user's `each_epoch` raises to end the run of `train` after this epoch, as if it were the last
    one.
    """


class ResultsError(WarpladderError, ValueError):
    """Error: a results file is missing, damaged or of another version."""


class Stopped(KeyboardInterrupt):
    """Exception: training stopped between two steps after Ctrl-C or SIGTERM.

    It is a KeyboardInterrupt, so handlers of errors do not catch it. The message has the position in the run and the
    saved files.

    exit_code : exit status of a command: 128 + the signal's number, 130 for Ctrl-C.
    """

    def __init__(self, message: str, exit_code: int = 130) -> None:
        super().__init__(message)
        self.exit_code = exit_code
