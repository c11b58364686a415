"""Processor for which numba compiles, found without importing numba, which takes most of a second."""

import os
from functools import cache

#: Kinds of core for which numba leaves AVX alone, by LLVM's names.
WITHOUT_AVX = {"corei7-avx", "core-avx-i", "sandybridge", "ivybridge", "nocona"}
#: Variables of the environment that decide the machine code too.
SETTINGS = tuple(
    f"NUMBA_{name}" for name in ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DISABLE_INTEL_SVML", "LLVM_PASS_TIMINGS")
)


@cache
def target() -> tuple[str, str]:
    """LLVM's name of the CPU, and its features as one text, "+avx2,-avx512f,...".

    They describe this machine unless variables such as NUMBA_CPU_NAME override them.
    """
    import llvmlite.binding as llvm

    named = os.environ.get("NUMBA_CPU_NAME")
    name = llvm.get_host_cpu_name() if named is None else named
    plain = "" if name.lower() == "generic" and named is not None else None
    features_named = os.environ.get("NUMBA_CPU_FEATURES", plain)
    if features_named is not None:
        return name, features_named
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM knows none for this system
        return name, ""
    wanted = os.environ.get("NUMBA_ENABLE_AVX")
    if not (name not in WITHOUT_AVX if wanted is None else int(wanted)):
        features.update({feature: False for feature in features if feature.startswith("avx")})
    return name, features.flatten()


def versions() -> str:
    """Text that differs if machine code may: versions of numba and llvmlite, target, settings in the environment."""
    from importlib.metadata import version

    settings = {name: os.environ[name] for name in SETTINGS if name in os.environ}
    return f"{version('numba')} {version('llvmlite')} {target()} {settings}"
