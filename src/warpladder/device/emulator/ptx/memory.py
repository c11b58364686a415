"""PTX instructions on memory, in C++: loads, stores, atomics, asynchronous copies, and barriers that count arrivals."""

from __future__ import annotations

from .operands import HERE, Operand, address, cast, put, type_of

_ATOMICS = {"add": "Add", "min": "Min", "max": "Max", "exch": "Exch", "cas": "CAS", "and": "And", "or": "Or",
            "xor": "Xor", "inc": "Inc", "dec": "Dec"}  # fmt: skip


def load(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of a load or store of one number or a vector; None for an unknown address space."""
    if {"const", "param", "local", "mmio"} & set(words):
        return None
    kind, is_load = type_of(words), words[0] in ("ld", "ldu")
    memory = address(operands[1 if is_load else 0], words)
    values = operands[0 if is_load else 1]
    parts = values if isinstance(values, list) else [values]
    ordered = bool({"volatile", "relaxed", "acquire", "release"} & set(words)) and len(parts) == 1
    fence = "__threadfence_block();" if "cta" in words else "__threadfence();"
    start = f"auto* emu_p = emu::ptx::aligned<{kind}>({memory}, {len(parts)}, {HERE});"
    read = "emu::ptx::load(emu_p)" if ordered else ""
    if is_load:
        reads = [put(part, read or f"emu_p[{i}]") for i, part in enumerate(parts)]
        return f"{start} {' '.join(reads)}{fence if 'acquire' in words else ''}"
    stores = [f"emu::ptx::store(emu_p, {cast(kind, part)});" if ordered else f"emu_p[{i}] = {cast(kind, part)};"
              for i, part in enumerate(parts)]  # fmt: skip
    return f"{start} {fence if 'release' in words else ''}{' '.join(stores)}"


def send(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of `st.async`: a number for another block of the cluster, whose bytes a barrier of that block counts."""
    if "mbarrier::complete_tx::bytes" not in words or len(operands) != 3:
        return None
    kind, values = type_of(words), operands[1] if isinstance(operands[1], list) else [operands[1]]
    numbers = ", ".join(cast(kind, each) for each in values)
    to, barrier = (address(operands[at], ["shared"]) for at in (0, 2))
    return f"const {kind} emu_v[] = {{{numbers}}}; emu_send({to}, emu_v, sizeof emu_v, {barrier}, {HERE});"


def atomic(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of an atomic operation, with or without its result; None for an unknown form."""
    kind = type_of(words)
    operation = next((word for word in words[1:] if word in _ATOMICS), "")
    has_result = words[0] == "atom"
    if not operation or kind.endswith("2") or ("noftz" in words and kind.startswith("__")):
        return None
    kind = {"uint64_t": "unsigned long long", "int64_t": "long long"}.get(kind, kind)
    memory = address(operands[has_result], words)
    values = ", ".join(cast(kind, each) for each in operands[has_result + 1 :])
    call = f"atomic{_ATOMICS[operation]}(reinterpret_cast<{kind}*>({memory}), {values})"
    fence = "__threadfence();" if {"acquire", "release", "acq_rel"} & set(words) else ""
    return f"{fence}{put(operands[0], call) if has_result else f'{call};'}{fence}"


def copy(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of an asynchronous copy to shared memory, or of a wait for copies; None for an unknown form."""
    if "commit_group" in words and "bulk" not in words:
        return "emu::commit_copies();"
    if "wait_group" in words and "bulk" not in words:
        return f"emu::wait_for_copies({cast('uint32_t', operands[0])});"
    if "wait_all" in words:
        return "emu::wait_for_copies(0);"
    if opcode.startswith("cp.async.mbarrier.arrive"):
        return f"emu_phase_copies({address(operands[0], ['shared'])}, {HERE});"
    if opcode.startswith(("cp.async.ca.", "cp.async.cg.")) and len(operands) < 5:
        source = operands[3] if len(operands) > 3 and "cache_hint" not in opcode else operands[2]
        return (f"emu::ptx::copy<{operands[2]}>({address(operands[0], ['shared'])}, {address(operands[1], [])}, "
                f"{cast('uint32_t', source)}, {HERE});")  # fmt: skip
    if opcode.startswith("cp.async.bulk.shared") and "tensor" not in words and len(operands) == 4:
        return (f"emu_copy_piece({address(operands[0], ['shared'])}, {address(operands[1], [])}, "
                f"{cast('uint32_t', operands[2])}, {address(operands[3], ['shared'])}, 0, {HERE});")  # fmt: skip
    return None


def phase(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of an `mbarrier` instruction; None for an unknown form."""
    at = 0 if words[1] in ("init", "expect_tx") else 1
    if words[1] == "arrive" and isinstance(operands[0], str) and operands[0].startswith("["):
        at = 0
    place, rest = address(operands[at], ["shared"]), operands[at + 1 :]
    number = cast("uint32_t", rest[0]) if rest else "1"
    if words[1] == "init":
        return f"emu_phase_init({place}, {number}, {HERE});"
    if words[1] == "expect_tx":
        return f"emu_phase_arrivals({place}, 0, {number}, {HERE});"
    if words[1] == "arrive":
        pair = f"1, {number}" if "expect_tx" in words else f"{number}, 0"
        call = f"emu_phase_arrivals({place}, {pair}, {HERE})"
        return put(operands[0], call) if at else f"{call};"
    if words[1] in ("try_wait", "test_wait") and "parity" in words:
        return f"emu_phase_wait({place}, {number}, {HERE}); {put(operands[0], 'true')}"
    if words[1] in ("try_wait", "test_wait"):
        return put(operands[0], f"bool(emu_phase_ended({place}, {number}, {HERE}))")
    return None
