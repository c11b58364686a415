"""Settings of a support vector machine and of its computation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import ConfigError
from ...errors.arguments import ByName, shown
from ...machine.facts import cores

#: Methods: "sklearn" is scikit-learn's SVC; "blocks" computes the kernel matrix by matrix products and fits pairs of
#: classes; "auto" takes "sklearn" for small sets.
METHODS = ("auto", "sklearn", "blocks")

#: Precisions of the kernel's matrix products.
PRECISIONS = ("float64", "float32")

#: Scalings of features before a machine is fitted: "standard" scales each to mean 0 and deviation 1, as
#: scikit-learn's StandardScaler; "none" leaves them unchanged.
SCALINGS = ("standard", "none")

#: Devices that compute the kernel matrix.
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class SvmSettings(metaclass=ByName):
    """Settings of a support vector machine with an RBF kernel, exp(-gamma |a - b|^2).

    Parameters
    ----------
    C : float
        Cost of a sample on the wrong side.
    gamma : float or "scale"
        "scale" is 1 / (width * variance of all training features, after `scaling`), as in scikit-learn.
    scaling : str
        One of `SCALINGS`.
    method : str
        Computation, one of `METHODS`.
    device : str
        One of `DEVICES`; only the method "blocks" computes on a GPU.
    precision : str
        One of `PRECISIONS`: precision of the kernel's products. "float64" gives scikit-learn's decisions to five
        digits; "float32" takes half the time on a CPU, and less than a thirtieth on GPUs made for games, and differs
        within the solver's tolerance, so that one prediction in a thousand may differ.
    threads : int or None
        CPU threads of products, and pairs of classes fitted concurrently; None for every core of this process.
    memory : int or None
        Most bytes to use; None for the machine's free bytes.

    Raises
    ------
    ConfigError
        A value is impossible.
    """

    by_place = ()

    C: float = 10.0
    gamma: float | str = "scale"
    scaling: str = "standard"
    method: str = "auto"
    device: str = "cpu"
    precision: str = "float64"
    threads: int | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("C", self.C), ("gamma", self.gamma)):
            if name == "gamma" and least == "scale":
                continue
            if (
                isinstance(least, (bool, str))
                or not isinstance(least, (int, float))
                or not (math.isfinite(least) and least > 0)
            ):
                more = " or 'scale'" if name == "gamma" else ""
                raise ConfigError(f"{name} wants a finite number above 0{more}, got {shown(least)}")
        for name, value, choices in (
            ("scaling", self.scaling, SCALINGS),
            ("method", self.method, METHODS),
            ("device", self.device, DEVICES),
            ("precision", self.precision, PRECISIONS),
        ):
            if value not in choices:
                raise ConfigError(f"{name} wants one of {', '.join(choices)}, got {shown(value)}")
        for name, number, most in (("threads", self.threads, cores()), ("memory", self.memory, None)):
            if number is not None and (
                isinstance(number, bool) or not isinstance(number, int) or number < 1 or (most and number > most)
            ):
                raise ConfigError(
                    f"{name} wants a whole number from 1{f' to {most}, the cores there are' if most else ''}, "
                    f"got {shown(number)}"
                )
        if self.device != "cpu" and self.method == "sklearn":
            raise ConfigError("scikit-learn's SVC computes on the CPU: leave the device out, or take the method blocks")
