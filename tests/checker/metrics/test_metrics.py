"""Counts of kernels that can be counted by hand, their names, occupancy, and what the command prints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from warpladder.checker.description import Content, Description, LaunchRequest
from warpladder.checker.metrics.measure import measure
from warpladder.checker.metrics.names import named, occupancy
from warpladder.checker.metrics.page import described, page
from warpladder.device.emulator import why_not
from warpladder.device.emulator.counts import Count, KernelCounts, Line
from warpladder.device.emulator.flops import Arithmetic, _of
from warpladder.device.limits import Limits
from warpladder.errors import KernelError

FILE = Path(__file__).with_name("counted.cu")
TEXT = FILE.read_text().splitlines()

#: Four warps load and store ten times; the first lane of each calls functions that lie behind the kernel.
GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void sums(const float* x, float* y, int steps) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    __shared__ float part[4];
    for (int step = 0; step < steps; ++step) {
        float sum = cg::reduce(warp, x[threadIdx.x], cg::plus<float>());
        if (warp.thread_rank() == 0)
            part[warp.meta_group_rank()] = sum;
        block.sync();
        y[threadIdx.x] = part[threadIdx.x / 32];
        block.sync();
    }
}
int main() {
    float *x, *y, host[128];
    cudaMalloc(&x, 512), cudaMalloc(&y, 512), cudaMemset(x, 0, 512);
    sums<<<1, 128>>>(x, y, 10);
    return cudaMemcpy(host, y, 512, cudaMemcpyDeviceToHost) + cudaFree(x) + cudaFree(y);
}
"""


def no_end(message: str) -> None:
    raise AssertionError(message)


def counted(kernel: str, block: str = "32", grid: str = "1", **arguments: str | int) -> KernelCounts:
    """Counts of a kernel of the file; arrays are given as texts, numbers as numbers."""
    arrays = {name: Content((int(text),)) for name, text in arguments.items() if isinstance(text, str)}
    values = {name: number for name, number in arguments.items() if isinstance(number, int)}
    launch = LaunchRequest(kernel, (grid,), (block,))
    (found,) = measure(Description(FILE, (launch,), values, arrays), 60.0, no_end)
    return found


def at(kernel: KernelCounts, text: str) -> Line:
    """Counts of the only line with this text."""
    (number,) = [number for number, line in enumerate(TEXT, 1) if text in line]
    return next(line for line in kernel.lines if line.number == number)


def loads(kernel: KernelCounts) -> tuple[int, int, int, int]:
    """Requests, lanes, sectors and wasted bytes of all global loads."""
    count = kernel.total("global load")
    return count.warps, count.lanes, count.sectors, count.wasted


@pytest.mark.slow  # the runtime that counts is compiled once, which takes some seconds
@pytest.mark.skipif(why_not() is not None, reason="the emulator needs g++")
class TestByHand:
    def test_neighbours_take_four_sectors_and_the_last_warp_its_share(self) -> None:
        found = counted("coalesced", "64", "2", x="100", y="100", n=100)
        assert loads(found) == (4, 100, 13, 16)  # 3 warps of 4 sectors, and 4 lanes in one of 32 bytes
        assert found.total("global store").sectors == 13
        assert found.total("block").active < 32 and loads(counted("coalesced", x="32", y="32", n=32)) == (1, 32, 4, 0)

    @pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (4, 16), (8, 32), (32, 32)])
    def test_a_stride_touches_more_sectors(self, stride: int, sectors: int) -> None:
        assert loads(counted("strided", x="1024", y="32", stride=stride)) == (1, 32, sectors, 32 * sectors - 128)

    def test_one_element_off_takes_a_fifth_sector(self) -> None:
        assert loads(counted("shifted", x="33", y="32")) == (1, 32, 5, 32)

    def test_a_vector_is_one_request(self) -> None:
        assert loads(counted("vectors", x="32", y="32")) == (1, 32, 16, 0)

    @pytest.mark.parametrize(("width", "conflicts"), [(32, 992), (33, 0), (34, 32)])
    def test_a_column_of_shared_memory(self, width: int, conflicts: int) -> None:
        found = counted(f"column<{width}>", y="32")
        line = at(found, "sum += t[threadIdx.x][r]")["shared load"]
        assert (line.warps, line.passes, line.conflicts) == (32, 32 + conflicts, conflicts)
        assert found.total("shared store").conflicts == 0 and found.static_shared == 128 * width

    def test_doubles_go_half_a_warp_at_a_time(self) -> None:
        line = counted("wide", y="32").total("shared load")
        assert (line.warps, line.passes, line.conflicts) == (1, 2, 0)

    def test_both_sides_of_a_branch_run_with_half_of_the_lanes(self) -> None:
        found = counted("branch", x="32", y="64")
        for text in ("        y[i] = x[i];", "y[i] = -x[i];"):
            assert at(found, text)["global load"] == Count(1, 16, 4, 64, 1, 1, 1)
            assert at(found, text)["block"].active == 16
        assert at(found, "y[i + 32]")["global store"] == Count(1, 32, 4, 128, 1, 1, 1)  # together again

    def test_lanes_of_one_turn_of_a_loop_are_together(self) -> None:
        line = at(counted("loop", x="32", y="32"), "sum += x[k]")["global load"]
        turns = [sum((i + k) % 2 for i in range(k, 32)) for k in range(32)]
        assert (line.warps, line.lanes) == (sum(lanes > 0 for lanes in turns), sum(turns))
        assert line.sectors == line.warps  # all lanes of a turn read one number

    def test_atomics_at_one_address_and_at_several(self) -> None:
        one = counted("one_address", "48", count="1").total("global atomic")
        assert (one.warps, one.lanes, one.most, one.passes) == (2, 48, 32, 48)
        values = counted("histogram", x="32", bins="4").total("global atomic")
        assert values.warps == 1 and values.lanes == 32 and 8 <= values.most <= 32

    def test_a_fused_multiply_add_is_two_flops(self) -> None:
        found = counted("polynomial", x="32", y="32", a=2)
        assert found.arithmetic == Arithmetic(fma=32) and found.intensity == 64 / 256

    def test_a_faulty_launch_has_no_counts(self) -> None:
        with pytest.raises(KernelError, match=r"out of bounds: .*run `warpladder check` first"):
            counted("shifted", x="32", y="32")

    def test_the_command_prints_a_table_json_and_a_page(self, run, tmp_path, monkeypatch) -> None:
        monkeypatch.chdir(tmp_path)
        words = ["metrics", str(FILE), "--kernel", "column<32>", "--grid", "1", "--block", "32", "--arg", "y=32"]
        code, out, err = run(*words, "--gpu", "T4", "--page", "found.html")
        assert (code, err) == (0, "")
        assert "992 bank conflicts" in out and "Tesla T4" in out and "by blocks and shared memory" in out
        html = Path("found.html").read_text()
        assert "992 bank conflicts" in html and "sum += t[threadIdx.x][r]" in html and "<script" not in html
        assert run(*words, "--page", "found.html")[0] == 2
        (found,) = json.loads(run(*words, "--json")[1])
        assert found["metrics"]["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 992
        assert run(*words, "--gpu", "T5")[0] == 2

    def test_lanes_come_together_after_functions_that_one_of_them_calls(self, run, tmp_path) -> None:
        file = tmp_path / "groups.cu"
        file.write_text(GROUPS)
        code, out, err = run("metrics", str(file))
        assert code == 0, err
        assert "40 requests, 160 sectors, 4 a request, 0 %" in out and "16 of 32 lanes" not in out

    def test_a_program_is_run_and_its_launches_are_counted(self, run, tmp_path) -> None:
        file = tmp_path / "program.cu"
        text = "__global__ void k(int* x) { x[threadIdx.x] = 1; }\n"
        text += "int main() { int *x, h[64]; cudaMalloc(&x, 256); k<<<1, 64>>>(x);"
        text += " return cudaMemcpy(h, x, BYTES, cudaMemcpyDeviceToHost) + cudaFree(x); }\n"
        file.write_text(text.replace("BYTES", "256"))
        code, out, _ = run("metrics", str(file), "--page", str(tmp_path / "page.html"))
        assert code == 0 and "k, grid (1, 1, 1), block (64, 1, 1)" in out and "2 requests, 8 sectors" in out
        assert "x[threadIdx.x] = 1" in (tmp_path / "page.html").read_text()
        assert "To run main() and count the launches" in run("metrics", "--list", str(file))[1]
        file.write_text(text.replace("BYTES", "512"))
        assert run("metrics", str(file))[0] == 1
        file.write_text(text.partition("int main")[0])
        code, out, err = run("metrics", str(file))
        assert (code, run("metrics", "--list", str(file))) == (2, (0, out, "")) and "k(int* x)" in out
        assert (
            err
            == f"warpladder: {file}: nothing was counted: a launch is missing, see above; --list alone lists the kernels\n"
        )


def test_instructions_are_counted_by_their_width() -> None:
    assert _of("vaddss", "%xmm0,%xmm1,%xmm1") == Arithmetic(add=1)
    assert _of("vfmadd231ss", "%xmm0,%xmm1,%xmm2") == Arithmetic(fma=1) and _of("vfnmsub132sd", "") == Arithmetic(fma=1)
    assert _of("vmulps", "%ymm0,%ymm1,%ymm1") == Arithmetic(mul=8) and _of("sqrtsd", "%xmm0") == Arithmetic(other=1)
    assert _of("vaddsubps", "%xmm0") == _of("add", "$1,%eax") == _of("vxorps", "%xmm0") == Arithmetic()
    assert (Arithmetic(1, 2, 3, 4) + Arithmetic(fma=1)).times(2).flops == 2 * (1 + 2 + 2 * 4 + 4)


def kernel(block: int, shared: int = 0, static: int = 0) -> KernelCounts:
    return KernelCounts("k", (1, 1, 1), (block, 1, 1), shared, static, [])


def test_occupancy_names_what_limits_it() -> None:
    t4 = Limits("T4", threads_per_multiprocessor=1024, blocks_per_multiprocessor=16, shared_reserved=0,
                shared_per_multiprocessor=64 << 10)  # fmt: skip
    assert occupancy(kernel(32), t4, 0) == (50.0, "16 blocks of 1 warp, by blocks")
    assert occupancy(kernel(256), t4, 0) == (100.0, "4 blocks of 8 warps, by threads")
    assert occupancy(kernel(256, 24 << 10), t4, 0) == (50.0, "2 blocks of 8 warps, by shared memory")
    assert occupancy(kernel(256, 8 << 10, 24 << 10), t4, 0) == (50.0, "2 blocks of 8 warps, by shared memory")
    assert occupancy(kernel(256), t4, 128) == (50.0, "2 blocks of 8 warps, by registers")
    ampere = replace(t4, shared_reserved=1024)
    assert occupancy(kernel(256, 32 << 10), ampere, 0)[0] == 25.0


def test_counts_have_nsight_compute_s_names() -> None:
    found = named({"global load": Count(2, 64, 10, 256, 2, 2, 1), "shared store": Count(1, 32, 0, 128, 5, 1, 1)})
    assert found == {
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 2,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 10,
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": 5.0,
        "smsp__inst_executed_op_shared_st.sum": 1,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 5,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": 4,
    }


def test_the_page_shows_each_line_with_its_bar(tmp_path: Path) -> None:
    source = tmp_path / "a.cu"
    source.write_text("first\nif (a < b) y[i] = x[2 * i];\nlast\n")
    line = Line(str(source), 2, {"global load": Count(1, 32, 8, 128, 1, 1, 1), "block": Count(2, 40)})
    assert described(line) == ["global load: 1 request of 8 sectors, 50 % of the bytes wasted", "20 of 32 lanes active"]
    whole = replace(kernel(32), lines=[line])
    text = page("a.cu", [whole], [[("FLOPs", "0")]])
    assert "if (a &lt; b)" in text and 'width:6.00em"' in text and "50 % of the bytes wasted" in text
