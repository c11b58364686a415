"""PTX instructions of several threads, in C++: shuffles, votes, barriers, fences, matrices; and ignored ones."""

from __future__ import annotations

import re

from .operands import HERE, Operand, address, cast, put, type_of

#: Hints, and instructions without effect on the CPU.
_NOTHING = re.compile(
    r"prefetch.*|griddepcontrol\..*|setmaxnreg\..*|discard\..*|applypriority\..*|fence\.mbarrier_init.*|"
    r"mbarrier\.inval.*|barrier\.cluster\.arrive.*|fence\.proxy\.(?!async).*|pragma.*"
)
_FACTORS = {(each, each) for each in ("f16", "bf16", "tf32", "s8", "u8", "f64")}


def warp(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of a shuffle, vote, match, reduction or election of a warp; None for an unknown form."""
    mask = f"emu::ptx::as<uint32_t>({operands[-1]})"
    if words[0] == "activemask":
        return put(operands[0], "__activemask()")
    if words[0] == "shfl":
        targets = operands[0] if isinstance(operands[0], list) else [operands[0], "_"]
        inside = targets[1] if targets[1] != "_" else "emu::ptx::unused"
        values = ", ".join(cast("uint32_t", each) for each in operands[1:4])
        return put(targets[0], f"emu::ptx::shfl({mask}, '{words[2][0]}', {values}, {inside}, {HERE})")
    if words[0] == "vote" and words[2] in ("ballot", "any", "all"):
        return put(operands[0], f"__{words[2]}_sync({mask}, {operands[1]})")
    if words[0] == "match" and words[1] == "any":
        return put(operands[0], f"__match_any_sync({mask}, {cast(type_of(words), operands[1])})")
    if words[0] == "redux" and words[2] in ("add", "min", "max", "and", "or", "xor"):
        return put(operands[0], f"__reduce_{words[2]}_sync({mask}, {cast(type_of(words), operands[1])})")
    if words[0] == "elect" and isinstance(operands[0], list):
        first = f"(__ffs(int({mask})) - 1)"
        return f"{put(operands[0][0], f'uint32_t({first})')} {put(operands[0][1], f'(emu::lane() == {first})')}"
    return None


def barrier(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of a barrier or fence; None for an unknown form."""
    if opcode.startswith("bar.warp.sync"):
        return f"__syncwarp({cast('uint32_t', operands[0])});"
    if opcode.startswith("barrier.cluster.wait"):
        return f"emu_cluster_barrier({HERE});"
    if words[0] in ("bar", "barrier") and "sync" in words and len(operands) == 1 and operands[0] in ("(0)", "0"):
        return f'emu_barrier("{words[0]}.sync", {HERE});'
    if opcode.startswith("fence.proxy.async"):
        return "emu_proxy_fence();"
    if words[0] in ("membar", "fence"):
        scope = words[-1]
        name = {"cta": "_block", "gl": "", "gpu": "", "cluster": "", "sys": "_system"}.get(scope)
        return None if name is None else f"__threadfence{name}();"
    return None


def matrix(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of `ldmatrix` or `mma`; None for an unknown shape or type."""
    if words[0] == "ldmatrix" and "m8n8" in words and words[-1] == "b16":
        targets = operands[0] if isinstance(operands[0], list) else [operands[0]]
        turned = "true" if "trans" in words else "false"
        call = f"emu::load_matrices(emu_m, {address(operands[1], ['shared'])}, {turned}, {HERE});"
        puts = " ".join(put(each, f"emu_m[{i}]") for i, each in enumerate(targets))
        return f"unsigned emu_m[{len(targets)}]; {call} {puts}"
    shape = re.search(r"\.m(\d+)n(\d+)k(\d+)\.row\.col\.", opcode)
    if words[0] != "mma" or not shape or "satfinite" in words:
        return None
    m, n, k = shape.groups()
    kinds = words[words.index("col") + 1 :][:4]
    if len(kinds) != 4 or (kinds[1], kinds[2]) not in _FACTORS or (kinds[1] == "tf32" and k == "4"):
        return None
    lists = [each if isinstance(each, list) else [each] for each in operands]
    result = {"f32": "float", "f16": "uint32_t", "s32": "int32_t", "f64": "double"}.get(kinds[0])
    if result is None:
        return None
    factor = "double" if kinds[1] == "f64" else "uint32_t"
    arrays = [f"{kind} emu_{name}[] = {{{', '.join(cast(kind, each) for each in values)}}};"
              for name, kind, values in zip("abc", (factor, factor, result), lists[1:], strict=True)]  # fmt: skip
    call = f"emu::ptx::mma<{m}, {n}, {k}, emu::ptx::Factor::{kinds[1]}>(emu_c, emu_a, emu_b, {HERE});"
    puts = " ".join(put(each, f"emu_c[{i}]") for i, each in enumerate(lists[0]))
    return f"{' '.join(arrays)} {call} {puts}"


def special(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of an instruction on addresses, waiting or stopping, "" for a hint; None for an unknown one."""
    if _NOTHING.fullmatch(opcode):
        return ""
    if words[0] == "createpolicy":
        return put(operands[0], "uint64_t(0)")
    if words[0] == "nanosleep":
        return "emu_sleep();"
    if words[0] == "trap":
        return f'emu_trap("PTX trap", {HERE});'
    if words[0] == "mapa":
        return put(operands[0], f"emu::ptx::mapped({cast('uint32_t', operands[1])}, {cast('uint32_t', operands[2])})")
    if words[0] == "cvta":
        to = "emu::shared_address((const void*)" if "shared" in words and "to" in words else "("
        if "shared" in words and "to" not in words:
            return put(operands[0], f"uint64_t(emu::ptx::shared({operands[1]}, 0, {HERE}))")
        return put(operands[0], f"uint64_t({to}{cast('uint64_t', operands[1])}))")
    if words[0] == "isspacep" and words[1].startswith("shared"):
        return f"{operands[0]} = __isShared((const void*){cast('uint64_t', operands[1])});"
    return None
