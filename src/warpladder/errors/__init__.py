"""Errors that a user can meet. Each message is one line: what is wrong, where, and what to do.

It imports nothing. arguments.py checks the arguments of public functions.
It imports nothing of warpladder; every part may import it. Begin with `WarpladderError`.
"""

from typing import Any


class WarpladderError(Exception):
    """Base of every error that warpladder raises on purpose."""


class ArgumentError(WarpladderError, TypeError):
    """An argument of another type than a function takes, in the wrong place, or under an unknown name."""


class NetError(WarpladderError, ValueError):
    """A chain of layers that cannot work."""


class ConfigError(WarpladderError, ValueError):
    """A training setting that makes no sense."""


class DataError(WarpladderError, ValueError):
    """A data file or array that is missing, damaged or of the wrong kind."""


class RungError(WarpladderError):
    """A rung or peer that is unknown, not installed, or unable to train this net."""


class CheckpointError(WarpladderError):
    """A checkpoint that is missing, damaged, or belongs to another run."""


class UnsavedError(CheckpointError):
    """The checkpoint of a finished run could not be written.

    run : the `Run`, which can still be saved elsewhere.
    """

    def __init__(self, message: str, run: Any) -> None:
        super().__init__(message)
        self.run = run


class DeviceError(WarpladderError):
    """No GPU, no driver, one that is too old, or an error that a device reports."""


class KernelError(WarpladderError, ValueError):
    """A kernel that does not compile, or arguments that do not fit its signature."""


class LaunchError(WarpladderError, ValueError):
    """A launch that the device cannot do: too many threads, too much shared memory, an empty grid."""


class OutOfMemoryError(WarpladderError, MemoryError):
    """Buffers that do not fit into a device's memory."""


class PlanError(WarpladderError, ValueError):
    """A stored plan of a net's kernels that is damaged."""


class DivergedError(WarpladderError, ArithmeticError):
    """Training produced a loss that is not finite."""


class StopTraining(Exception):
    """Raised by an `each_epoch` of `train` to end the run after that epoch, as if it had been the last one."""


class ResultsError(WarpladderError, ValueError):
    """A results file that is missing, damaged or of another version."""


class Stopped(KeyboardInterrupt):
    """Training stopped between two steps after Ctrl-C or SIGTERM.

    It is a KeyboardInterrupt, so no handler of errors catches it. The message reports the position in the run and the
    saved files.

    exit_code : exit status of a command: 128 + the signal's number, 130 for Ctrl-C.
    """

    def __init__(self, message: str, exit_code: int = 130) -> None:
        super().__init__(message)
        self.exit_code = exit_code
