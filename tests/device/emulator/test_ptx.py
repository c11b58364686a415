"""Inline PTX in C++: operands, registers, labels, and what has no counterpart."""

from __future__ import annotations

import pytest

from warpladder.device.emulator.ptx.operands import PtxError
from warpladder.device.emulator.ptx.statement import translated


def test_a_special_register_is_stored_in_the_output():
    assert translated('"mov.u32 %0, %%laneid;" : "=r"(lane)') == (
        "do { auto& emu_a0 = (lane); { emu::ptx::put(emu_a0, emu::ptx::as<uint32_t>(uint32_t(emu::lane()))); } }"
        " while (0)"
    )


def test_registers_predicates_and_names_of_operands():
    text = translated('"{.reg .pred p; setp.lt.s32 p, %[a], 3; @!p add.s32 %0, %[a], -1;}" : "=r"(x) : [a] "r"(y)')
    assert "bool emu_r_p;" in text
    assert "emu_r_p = emu::ptx::as<int32_t>(emu_a1) < emu::ptx::as<int32_t>((3));" in text
    assert "if (!(emu_r_p)) { emu::ptx::put(emu_a0, int32_t(emu::ptx::as<int32_t>(emu_a1) + " in text


def test_a_loop_jumps_to_a_label_of_its_own():
    first, second = (translated('"L: .reg .pred q; setp.eq.u32 q, 1, 2; @q bra L;" ::') for _ in range(2))
    label = first.partition("__label__ ")[2].partition(";")[0]
    assert f"goto {label};" in first
    assert f"{label}:;" in first
    assert label not in second


def test_copies_and_matrices_take_addresses_of_shared_memory():
    copy = translated('"cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(n) : "memory"')
    assert "emu::ptx::copy<(16)>(emu::ptx::shared(emu_a0, 0" in copy
    load = translated('"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2+32];" : "=r"(a), "=r"(b) : "r"(p)')
    assert "unsigned emu_m[2]; emu::load_matrices(emu_m, emu::ptx::shared(emu_a2, (32)" in load
    assert ", true, " in load


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('"tcgen05.alloc.b32 [%0], 32;" :: "r"(x)', r"^tcgen05\.alloc\.b32$"),
        ('"add.rz.f32 %0, %1, %2;" : "=f"(x) : "f"(y), "f"(z)', r"^add\.rz\.f32$"),
        ('"mov.u32 %0, %%pm0;" : "=r"(x)', "operand %pm0"),
        ('NAME " %0, %1;" : "=r"(x) : "r"(y)', "macros"),
        ('"bar.sync 1, 64;" ::', r"^bar\.sync$"),
    ],
)
def test_what_has_no_counterpart_is_named(text, named):
    with pytest.raises(PtxError, match=named):
        translated(text)


def test_numbers_sent_to_another_block_are_one_call():
    name = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"
    four = translated(
        f'"{name}.v4.f32 [%0], {{%1, %2, %3, %4}}, [%5];" :: "r"(to), "f"(a), "f"(b), "f"(c), "f"(d), "r"(at)'
    )
    one = translated(f'"{name}.b32 [%0], %1, [%2];" :: "r"(to), "r"(v), "r"(at)')
    assert four.count("emu_send(") == one.count("emu_send(") == 1
    assert "const float emu_v[]" in four and "const uint32_t emu_v[]" in one
