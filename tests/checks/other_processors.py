"""The tests of proofs and times under the machine code that other processors would get, as far as this one can run it.

OpenBLAS chooses its kernels and numba its instructions by the processor; both can be told to take another for it.

    python tests/checks/other_processors.py [--turn N] [PYTEST ARGUMENT ...]

--turn N takes two of those that this processor can pass for, by the number N, so that N, N + 1, ... take turns.
"""

import argparse
import os
import platform
import subprocess
import sys
import time

import llvmlite.binding as llvm

TESTS = (
    "tests/proof/test_verify.py",
    "tests/proof/test_batch_sizes.py",
    "tests/timing/test_climb.py",
    "tests/proof/test_precision.py",
)

#: What OpenBLAS calls a processor, what LLVM calls it, and the features that it has to have.
PROCESSORS = (
    ("Nehalem", "nehalem", {"sse4.2", "popcnt"}),
    ("Sandybridge", "sandybridge", {"avx"}),
    ("Haswell", "haswell", {"avx2", "fma", "bmi2"}),
    ("Zen", "znver1", {"avx2", "fma", "bmi2", "sha", "sse4a"}),
    ("SkylakeX", "skylake-avx512", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    (
        "Cooperlake",
        "cooperlake",
        {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16"},
    ),
)


def taken(environment: dict[str, str]) -> str:
    """The kernels that OpenBLAS takes in this environment."""
    code = "import numpy, threadpoolctl; print(*(each['architecture'] for each in threadpoolctl.threadpool_info() if 'architecture' in each))"
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


AT_A_TURN = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turn", type=int, help="two of the processors alone")
    given, arguments = parser.parse_known_args()
    if platform.machine() not in ("x86_64", "AMD64"):
        print(f"nothing to pretend on {platform.machine()}: the processors listed are x86-64's")
        return 0
    here = {name for name, has in llvm.get_host_cpu_features().items() if has}
    failed, possible = [], []
    for blas, cpu, features in PROCESSORS:
        if missing := features - here:
            print(f"== {blas}: this processor lacks {', '.join(sorted(missing))}", flush=True)
        else:
            possible.append((blas, cpu))
    if given.turn is not None and possible:
        possible = [
            possible[i] for i in sorted({(AT_A_TURN * given.turn + i) % len(possible) for i in range(AT_A_TURN)})
        ]
    for blas, cpu in possible:
        # No feature beyond those that the name stands for: numba would add the host's.
        environment = os.environ | {"OPENBLAS_CORETYPE": blas, "NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ""}
        found, began = taken(environment), time.perf_counter()
        print(f"== {blas}: OpenBLAS takes its kernels for {found}, LLVM compiles for {cpu}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", *(arguments or TESTS)]
        if subprocess.run(command, env=environment).returncode:
            failed.append(blas)
        print(f"-- {blas}: {time.perf_counter() - began:.0f} s", flush=True)
    print(
        f"failed as {', '.join(failed)}"
        if failed
        else f"the same results as {', '.join(blas for blas, _ in possible) or 'nobody else'}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
