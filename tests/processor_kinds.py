"""Proofs and climbs as other processors compute them, one process for each kind.

    python tests/processor_kinds.py                 # every kind that this machine can play
    python tests/processor_kinds.py haswell -k few  # one kind; the rest goes to pytest

OpenBLAS takes the kernels of the processor that OPENBLAS_CORETYPE names, numba the instructions that NUMBA_CPU_NAME and
NUMBA_CPU_FEATURES do. A kind whose instructions are missing here is left out, which is said.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent

#: What is run: the proof, on its own and in a climb.
FILES = ("test_verify.py", "test_batch_sizes.py", "test_precision.py", "test_bench.py")

#: By name: OpenBLAS's kernels, numba's processor, and the instructions that both need.
KINDS = {
    "nehalem": ("Nehalem", "nehalem", ("sse4.2",)),
    "sandybridge": ("Sandybridge", "sandybridge", ("avx",)),
    "haswell": ("Haswell", "haswell", ("avx2", "fma")),
    "zen": ("Zen", "znver1", ("avx2", "fma", "sse4a")),
    "skylake-avx512": ("SkylakeX", "skylake-avx512", ("avx512f", "avx512dq", "avx512bw", "avx512vl")),
    "sapphirerapids": ("SapphireRapids", "icelake-server", ("avx512f", "avx512_vnni", "avx512_bf16")),
}


def here() -> dict[str, bool]:
    """The instructions of this processor, by the names of LLVM and of Linux."""
    import llvmlite.binding as llvm

    return {name.replace("_", ""): there for name, there in llvm.get_host_cpu_features().items()}


def run(kind: str, arguments: list[str]) -> int:
    """pytest's exit code."""
    blas, processor, _ = KINDS[kind]
    chosen = {"OPENBLAS_CORETYPE": blas, "NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "auto",
        "-p",
        "no:cacheprovider",
        *(str(TESTS / name) for name in FILES),
        *arguments,
    ]
    return subprocess.run(command, env=os.environ | chosen, cwd=TESTS.parent).returncode


def main() -> int:
    chosen = [word for word in sys.argv[1:2] if word in KINDS]
    features, failed = here(), []
    for kind in chosen or KINDS:
        missing = [name for name in KINDS[kind][2] if not features.get(name.replace("_", ""))]
        if missing:
            print(f"{kind}: left out, this processor has no {', '.join(missing)}")
            continue
        print(f"{kind}:", flush=True)
        if run(kind, sys.argv[1 + len(chosen) :]):
            failed.append(kind)
    if failed:
        print(f"what a test says depends on the processor: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
