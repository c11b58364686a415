"""Sources of a small chain's two kernels, assembled for its widths: a line for each layer and direction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from ...data.order import layer_offset
from ...device import source as sources
from ...device.source import KernelSource
from ...nets import CrossEntropyLoss, Dropout, LeakyReLU, ReLU
from ...optimizers import Optimizer
from ..activation import scalar as activation
from ..linear.short_gradients import Tile, tile_grid
from ..loss import scalar as loss
from ..update.rule import gradient_end
from .links import Function, Links
from .plan import ChainPlan, Piece, padded

#: Names of the kernels.
FORWARD, GRADIENT = "small_chain", "small_chain_gradients"

_FORWARD = """\
// Linear layers {widths} with functions between them, and {loss}: a block has {samples} samples.
#include "losses.cuh"

{types}extern "C" __global__ void __launch_bounds__(THREADS, 1) {name}(
    const {pixel}* __restrict__ source, float scale, const {goal}* __restrict__ goal,
    const unsigned* __restrict__ order, const int* __restrict__ step, const unsigned* __restrict__ mask_key,
    const float* __restrict__ share, const float* __restrict__ setting,
    const float* __restrict__ numbers, {parameters},
    float* __restrict__ x, float* __restrict__ dx, {arrays}, double* __restrict__ lost, int* __restrict__ hits,
    float* __restrict__ numbers_now, int n, int whole, int offset, float mean
) {{
    constexpr int S = {samples};
    __shared__ int labels[S];
    __shared__ float shares[S];
    __shared__ Barrier arrivals[{copies}];
    begin_copies(arrivals, {copies});
    const int begin = blockIdx.x * S, sample = threadIdx.x / 32;
    const Samples mine = {{begin, min(S, n - begin)}};
    const long long first = *step * static_cast<long long>(whole) + offset + begin;
    if (numbers != nullptr && blockIdx.x == 0 && threadIdx.x < 8)
        numbers_now[threadIdx.x] = numbers[8LL * *step + threadIdx.x];
    const Masks masks = {{mask_key == nullptr ? 0u : *mask_key, static_cast<unsigned>(first), 0u}};
{lines}
}}
"""

_GRADIENT = """\
// Weight gradients of linear layers {widths}, the update if there is one, and the log, in one launch.
{include}#include "chain_end.cuh"
#include "weight_tile.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2) {name}(
    {arrays},
    const double* __restrict__ lost, const int* __restrict__ hits, {flat}int* step,
    double* log_loss, long long* log_correct, int n, int batch, int first, int last
) {{
    const {ends};
    int block = blockIdx.x;
{lines}
}}
"""


@dataclass(frozen=True)
class Reading:
    """Samples, targets and shares that the kernel of a small chain reads.

    pixel : type of stored numbers. gathers : True if samples are read from the data set; False for an array of the
    batch, whose gradient is dx. learns_input : True if the targets are the samples. has_shares : True if samples have
    shares in their mean.
    """

    pixel: str
    gathers: bool
    learns_input: bool
    has_shares: bool


@cache
def forward_source(links: Links, plan: ChainPlan, reading: Reading) -> KernelSource:
    """Kernel of forward pass, loss and backward pass of a block's samples."""
    numbers = range(1, links.last + 1)
    types: dict[str, str] = {}
    lines = [f"    {line}" for line in _Passes(links, plan, reading, types).lines()]
    text = _FORWARD.format(
        name=FORWARD,
        widths="-".join(map(str, plan.widths)),
        loss=type(links.loss).__name__,
        samples=plan.samples,
        copies=sum(map(len, plan.copies)),
        types="".join(f"struct {name} {{ {fields} }};\n" for name, fields in types.items()),
        pixel=reading.pixel,
        goal="int" if links.has_labels else reading.pixel if reading.learns_input else "float",
        parameters=", ".join(
            f"const float* __restrict__ w{k}" + f", const float* __restrict__ b{k}" * links.has_bias[k] for k in numbers
        ),
        arrays=", ".join(
            [*(f"float* __restrict__ y{k}" for k in numbers[:-1]), *(f"float* __restrict__ g{k}" for k in numbers)]
        ),
        lines="\n".join(lines),
    )
    return sources.assembled(Path(__file__).with_name(f"{FORWARD}.cu"), text)


class _Passes:
    """Lines of CUDA of the forward kernel: copies of weights, gathering, and each pass after the copies that it needs.

    types : gets the fields of each type that the lines name.
    """

    def __init__(self, links: Links, plan: ChainPlan, reading: Reading, types: dict[str, str]) -> None:
        self.links, self.plan, self.reading = links, plan, reading
        self.further = dict(zip(links.further_rows(plan.has_dx), plan.further, strict=True))
        self.functions = [function_types(each, types) for each in links.functions]

    def lines(self) -> list[str]:
        plan = self.plan
        found: list[str] = []
        groups: list[Piece] = []  # piece of each group of copies that has begun
        for number, piece in enumerate(plan.passes):
            for copy in plan.copies[number]:
                each = copy.piece
                where = f"{copy.place}, w{each.layer} + {each.first * each.inputs}, arrivals + {len(groups)}"
                found.append(f"hold<{each.inputs}, {each.outputs}>({where});")
                groups.append(each)
            if number == 0:
                found += self._gathering()
            own = max(at for at, group in enumerate(groups) if group == piece)
            found.append(f"ready<{piece.inputs}, {len(groups) - 1 - own}>(arrivals + {own});")
            if number < plan.turn:
                found.append(self._forward(piece, plan.weights[number]))
            else:
                others = [next_to.layer for next_to in (plan.passes[number - 1], *plan.passes[number + 1 : number + 2])]
                begins = number == plan.turn or others[0] != piece.layer
                found.append(self._backward(piece, plan.weights[number], begins, others[1:] != [piece.layer]))
            if number == plan.turn - 1:
                found.append(self._loss())
        return found

    def _gathering(self) -> list[str]:
        """Lines that bring samples, labels or targets, shares and settings to shared memory, a warp for each sample."""
        links, further, outputs = self.links, self.further, self.links.outputs
        where = f"{self.plan.rows[0]}, {self._slopes(0)}, source, scale, row, {self._stored_x()}, masks, mine"
        found = [
            "const int row = row_of(order, first, mine);",
            f"gather<{links.widths[0]}, S, {self.functions[0]}>({where});",
        ]
        if links.has_labels:
            found.append("if (sample < S && threadIdx.x % 32 == 0) labels[sample] = goal[row];")
        else:
            scale = "scale" if self.reading.learns_input else "1.0f"
            where = f"{further['targets']}, -1, goal, {scale}, row, nullptr, masks, mine"
            found.append(f"gather<{outputs}, S, Functions<>>({where});")
        if links.has_settings:
            where = f"{further['settings']}, -1, setting, 1.0f, 0, nullptr, masks, mine"
            found.append(f"gather<{outputs}, S, Functions<>>({where});")
        share = "share[first + min(sample, mine.count - 1)]" if self.reading.has_shares else "mean"
        return [*found, f"if (sample < S && threadIdx.x % 32 == 0) shares[sample] = {share};", "__syncthreads();"]

    def _stored_x(self) -> str:
        """CUDA argument: "x" if the chain's input must be stored for the weight gradients, else "nullptr"."""
        return "x" if self.reading.gathers or self.links.functions[0] else "nullptr"

    def _slopes(self, number: int) -> int:
        """Offset of the rows of a link's slopes; -1 if none are kept."""
        return self.further.get(f"slopes {number}", -1)

    def _forward(self, piece: Piece, w: int) -> str:
        links, rows, layer, first = self.links, self.plan.rows, piece.layer, piece.first
        shapes = f"{piece.inputs}, {piece.outputs}, S, {self.functions[layer]}, {links.widths[layer]}"
        bias = f"b{layer} + {first}" if links.has_bias[layer] else "nullptr"
        stored = f"y{layer} + {first}" if layer < links.last else "nullptr"
        where = f"{rows[layer - 1]}, {w}, {bias}, {rows[layer] + first}, {self._slopes(layer) + first}, {stored}"
        return f"forward<{shapes}>({where}, masks.from({first}), mine);"

    def _loss(self) -> str:
        links, last = self.links, self.links.last
        back, weighted = f"{self.functions[last]}::BACK", str(self.reading.has_shares).lower()
        settings = self.further.get("settings", -1)
        where, ends = f"{self.plan.rows[last]}, {self._slopes(last)}", f"shares, g{last}, lost, hits, mine"
        if isinstance(links.loss, CrossEntropyLoss):
            shapes = f"{links.outputs}, S, {back}, {str(links.loss.is_plain).lower()}, {weighted}"
            smoothing = f"{float(links.loss.label_smoothing)!r}f"
            return f"label_loss<{shapes}>({where}, {settings}, {smoothing}, labels, {ends});"
        shapes = f"{loss.number(links.loss)}, {links.outputs}, S, {back}, {weighted}"
        return f"element_loss<{shapes}>({where}, {self.further['targets']}, {settings}, {ends});"

    def _backward(self, piece: Piece, w: int, begins: bool, ends: bool) -> str:
        links, rows, layer, inputs = self.links, self.plan.rows, piece.layer, piece.inputs
        pitch, stored = (padded(inputs), f"g{layer - 1}") if layer > 1 else (inputs, "dx")
        back = f"{self.functions[layer - 1]}::BACK" if layer > 1 or links.functions[0] else "STAYS"
        part = begins * 1 | ends * 2
        shapes = f"{inputs}, {piece.outputs}, S, {back}, {pitch}, {links.widths[layer]}, {part}"
        where = f"{rows[layer] + piece.first}, {w}, {rows[layer - 1]}, {self._slopes(layer - 1)}, {self.plan.sums}"
        return f"backward<{shapes}>({where}, {stored}, mine);"


def function_types(functions: tuple[Function, ...], types: dict[str, str]) -> str:
    """Type in functions.cuh of functions in their order; `types` gets the fields of each type that it names."""
    return f"Functions<{', '.join(_function_type(function, types) for function in functions)}>"


def _function_type(function: Function, types: dict[str, str]) -> str:
    """Type in functions.cuh of a layer of one number."""
    layer = function.layer
    if isinstance(layer, ReLU):
        return "PositivePart"
    if isinstance(layer, Dropout):
        name = f"Mask{function.number}"
        types[name] = (
            f"static constexpr unsigned layer = {layer_offset(function.number)}u, threshold = {layer.threshold}u; "
            f"static constexpr float scale = {layer.scale!r}f;"
        )
        return f"Dropped<{name}>"
    slope = float(activation.slope(layer))
    name = "Slope" if not isinstance(layer, LeakyReLU) else f"Slope{function.number}"
    types[name] = f"static constexpr float slope = {slope!r}f;"
    return f"Activated<{activation.number(layer)}, {name}>"


@cache
def gradient_source(links: Links, pitch: int, tile: Tile, optimizer: Optimizer | None) -> KernelSource:
    """Kernel of all weight gradients. pitch : floats between rows of the first layer's input. tile : as in `TILES`.

    optimizer : whose step is made too, or None.
    """
    widths, layers = links.widths, range(1, links.last + 1)
    lines = ["Batch rows;", "float *dw, *db;", "int inputs, outputs, across;"]
    first = 0
    for layer, (inputs, outputs) in zip(layers, pairwise(widths), strict=True):
        across, down = tile_grid(tile, inputs, outputs)
        x, pitch_x = ("x", pitch) if layer == 1 else (f"y{layer - 1}", padded(inputs))
        otherwise = "else " if layer > 1 else ""
        lines += [
            f"{otherwise}if (block < {first + across * down}) {{",
            f"    rows = {{{x}, g{layer}, nullptr, n, {pitch_x}, {padded(outputs)}}};",
            f"    dw = dw{layer}, db = {f'db{layer}' if links.has_bias[layer] else 'nullptr'};",
            f"    inputs = {inputs}, outputs = {outputs}, across = {across}, block -= {first};",
            "}",
        ]
        first += across * down
    lines += [
        "else {",
        "    sum_log<WARPS>(lost, hits, n, step, log_loss, log_correct, batch, first, last);",
        "    return;",
        "}",
    ]
    shape = ", ".join(map(str, tile))
    call = f"weight_tile<1, {shape}>(rows, dw, db, ends, inputs, outputs, block % across, block / across);"
    if pitch % 4:
        lines.append(f"if (rows.x == x) {call.replace('<1', '<0')}")
        call = f"else {call}"
    lines.append(call)
    names = ["x", *(f"y{k}" for k in layers[:-1]), *(f"g{k}" for k in layers)]
    end = gradient_end(optimizer)

    text = _GRADIENT.format(
        name=GRADIENT,
        include=end.include,
        flat=end.parameters,
        ends=end.declaration,
        widths="-".join(map(str, widths)),
        arrays=", ".join(
            [f"const float* __restrict__ {name}" for name in names]
            + [f"float* dw{k}" + f", float* db{k}" * links.has_bias[k] for k in layers]
        ),
        lines="\n".join(f"    {line}" for line in lines),
    )
    return sources.assembled(Path(__file__).with_name(f"{GRADIENT}.cu"), text)
