"""Calls of the phases of a step, CUDA lines that source.py puts together: products, and requests before a wait."""

from __future__ import annotations

from dataclasses import dataclass

from ...nets import CrossEntropyLoss, Net
from .plan import PersistentPlan
from .products import LinearLayer
from .tiles import TERMS, AnyTile, HeadTile, TensorPhaseTile


def line(features: int) -> int:
    """Pitch in floats of a row of activations or gradients, as `line` of layout.cuh."""
    return (features + 4) // 4 * 4


def team_of(plan: PersistentPlan) -> str:
    """CUDA name of the blocks that divide a phase before the weight gradients: all, or a cluster."""
    return "team" if plan.rows is None else "crew"


@dataclass(frozen=True)
class FactorMap:
    """Matrix that the copy engine copies in tiles.

    array : name of the scratch array. rows : rows of a tile. columns : columns that belong to the matrix.
    owned : True if each cluster with samples of its own has a map of its rows.
    """

    array: str
    rows: int
    columns: int
    owned: bool = False


def factor_maps(plan: PersistentPlan) -> list[FactorMap]:
    """Maps of the factors of all phases on tensor cores, in the order in which the kernel gets them."""
    if plan.registers is not None:
        return []
    found: dict[FactorMap, None] = {}
    for number in range(1, len(plan.layers) + 1):
        for factors in (_forward_factors, _gradient_factors, _weight_factors):
            found |= dict.fromkeys(sum(factors(plan, number), ()))
    return list(found)


def _forward_factors(plan: PersistentPlan, number: int) -> list[tuple[FactorMap, ...]]:
    """Possible left and right factors of the forward product of layer `number`: samples have two arrays."""
    each, tile = plan.layers[number - 1], plan.forward[number - 1]
    if not isinstance(tile, TensorPhaseTile):
        return []
    columns = each.inputs + (each.inputs % 8 != 0)
    lefts, right = _input_arrays(number), FactorMap(f"w{number}", tile.columns, columns)
    return [(FactorMap(left, tile.rows, columns, plan.rows is not None), right) for left in lefts]


def _gradient_factors(plan: PersistentPlan, number: int) -> list[tuple[FactorMap, ...]]:
    """Factors of the input gradient of layer `number`, as of `_forward_factors`."""
    each, tile = plan.layers[number - 1], plan.inputs[number - 1]
    if not isinstance(tile, TensorPhaseTile):
        return []
    left = FactorMap(f"g{number}", tile.rows, each.outputs, plan.rows is not None)
    return [(left, FactorMap(f"w{number}", TERMS, each.inputs))]


def _weight_factors(plan: PersistentPlan, number: int) -> list[tuple[FactorMap, ...]]:
    """Factors of the weight gradient of layer `number`, as of `_forward_factors`."""
    each, tile = plan.layers[number - 1], plan.weights[number - 1]
    if not isinstance(tile, TensorPhaseTile):
        return []
    columns = each.inputs + 1
    return [
        (FactorMap(f"g{number}", TERMS, each.outputs), FactorMap(array, TERMS, columns))
        for array in _input_arrays(number)
    ]


def _input_arrays(number: int) -> list[str]:
    """Arrays of the inputs of layer `number`: of odd and even steps, if they are samples."""
    return ["x_odd", "x_even"] if number == 1 else [f"y{number - 1}"]


def _maps(plan: PersistentPlan, factors: list[tuple[FactorMap, ...]], odd: str = "odd") -> str:
    """CUDA expression of the `Maps` of a product. odd : condition for `x_odd`."""
    if not factors:
        return "Maps{}"
    every = factor_maps(plan)
    places = [[every.index(each) for each in pair] for pair in factors]
    left, right = (
        f"tile_maps + {some[0]}" if len(set(some)) == 1 else f"tile_maps + ({odd} ? {some[0]} : {some[1]})"
        for some in zip(*places, strict=True)
    )
    return f"Maps{{{left}, {right}}}"


def own_rows(plan: PersistentPlan, array: str, layer: int) -> str:
    """CUDA expression of a cluster's rows of an array; layer : the array has this layer's outputs, 0 for x."""
    features = plan.layers[layer - 1].outputs if layer else plan.layers[0].inputs
    return array if plan.rows is None else f"({array}) + from * {line(features)}"


def forward(net: Net, plan: PersistentPlan, number: int) -> str:
    """CUDA call of the forward product of layer `number`, from 1, and of the loss with the last."""
    each, tile = plan.layers[number - 1], plan.forward[number - 1]
    if isinstance(tile, HeadTile):
        return _head(plan, tile)
    shape = f"<{_shape(tile, each)}, {str(each.relu).lower()}, {_ahead_of_forward(plan, number)}>"
    x = own_rows(plan, _inputs(number), number - 1)
    maps = _maps(plan, _forward_factors(plan, number))
    layer = f"({team_of(plan)}, {x}, w{number}"
    gradient = f"{own_rows(plan, f'g{number}', number)}, own, mine, n, {maps}"
    if number < len(plan.layers):
        return f"forward{shape}{layer}, {own_rows(plan, f'y{number}', number)}, mine, {maps})"
    if isinstance(net.loss, CrossEntropyLoss):
        return f"classify{shape}{layer}, label + from, {gradient})"
    return (
        f"reconstruct{shape}{layer}, targets == nullptr ? {own_rows(plan, 'x', 0)} : targets, "
        f"targets == nullptr ? nullptr : label + from, {gradient})"
    )


def _head(plan: PersistentPlan, tile: HeadTile) -> str:
    """CUDA call of the phase of the last layer, the loss and the layer's input gradient."""
    last = len(plan.layers)
    each, before = plan.layers[-1], plan.layers[-2]
    shape = f"<{_head_shape(tile)}, {str(each.relu).lower()}, {str(before.relu).lower()}>"
    x, g, dx = (
        own_rows(plan, f"{name}{layer}", layer) for name, layer in (("y", last - 1), ("g", last), ("g", last - 1))
    )
    return f"head{shape}({team_of(plan)}, {x}, w{last}, label + from, {g}, {dx}, own, mine, n)"


def _head_shape(tile: HeadTile) -> str:
    """CUDA template arguments of the head: inputs, outputs, and samples of a tile."""
    return f"{tile.depth}, {tile.columns}, {tile.rows}"


def input_gradient(plan: PersistentPlan, number: int) -> str:
    """CUDA call of the input gradient of layer `number`, from 1."""
    each, before, tile = plan.layers[number - 1], plan.layers[number - 2], plan.inputs[number - 1]
    assert tile is not None
    shape = f"<{_shape(tile, each)}, {str(before.relu).lower()}, {_ahead(tile, 'RIGHT')}>"
    y, g, dx = (
        own_rows(plan, f"{name}{layer}", layer) for name, layer in (("y", number - 1), ("g", number), ("g", number - 1))
    )
    maps = _maps(plan, _gradient_factors(plan, number))
    return f"input_gradient{shape}({team_of(plan)}, {g}, w{number}, {y}, {dx}, mine, {maps})"


def weight_gradient(plan: PersistentPlan, number: int, slots: int, rule: str, ahead: bool = False) -> str:
    """Line of CUDA with the weight gradient and update of layer `number`, from 1.

    rule : name of the optimizer's struct. ahead : True if its first factor was requested before the wait.
    """
    each, tile = plan.layers[number - 1], plan.weights[number - 1]
    arrays = ", ".join([f"w{number}", *(f"{name}{number}" for name in "vu"[:slots]), *["nullptr"] * (2 - slots)])
    separate, requested = str(tile.separate).lower(), _ahead(tile, "RIGHT") if ahead else "NOTHING"
    return (
        f"team.passed(weight_gradient<{_shape(tile, each)}, {separate}>"
        f"(team, g{number}, {_inputs(number)}, Stepper<{rule}>{{{arrays}, limit, rule}}, n, "
        f"{_maps(plan, _weight_factors(plan, number))}, {requested}));"
    )


def request_forward(plan: PersistentPlan, number: int) -> list[str]:
    """Line that requests the weights of a block's first tile of layer `number`, before the wait for its inputs; [] if
    the phase requests them itself."""
    each, tile = plan.layers[number - 1], plan.forward[number - 1]
    if isinstance(tile, HeadTile):
        return [f"request_head<{_head_shape(tile)}>({team_of(plan)}, w{number}, mine);"]
    if (ahead := _ahead_of_forward(plan, number)) == "NOTHING":
        return []
    maps = _maps(plan, _forward_factors(plan, number))
    return [f"request_forward<{_shape(tile, each)}, {ahead}>({team_of(plan)}, mine, {maps});"]


def request_samples(plan: PersistentPlan, odd: str, count: str) -> list[str]:
    """Line that requests the samples of a block's first tile of the next step before its weights are complete.

    odd, count : CUDA expressions: true if that step is odd, and its number of samples.
    """
    each, tile = plan.layers[0], plan.forward[0]
    if _ahead_of_forward(plan, 1) == "NOTHING":
        return []
    mine = count if plan.rows is None else f"max(0, min({plan.rows}, {count} - from))"
    maps = _maps(plan, _forward_factors(plan, 1), odd)
    return [f"request_forward<{_shape(tile, each)}, LEFT>({team_of(plan)}, {mine}, {maps});"]


def request_input_gradient(plan: PersistentPlan, number: int) -> list[str]:
    """Line that requests the weights of a block's first tile of the input gradient of layer `number`."""
    each, tile = plan.layers[number - 1], plan.inputs[number - 1]
    if tile is None or _ahead(tile, "RIGHT") == "NOTHING":
        return []
    maps = _maps(plan, _gradient_factors(plan, number))
    return [f"request_input_gradient<{_shape(tile, each)}>({team_of(plan)}, mine, {maps});"]


def request_weight_gradient(plan: PersistentPlan, number: int) -> list[str]:
    """Line that requests the inputs of a block's first tile of the weight gradient of layer `number`."""
    each, tile = plan.layers[number - 1], plan.weights[number - 1]
    if _ahead(tile, "RIGHT") == "NOTHING":
        return []
    shape = f"{_shape(tile, each)}, {str(tile.separate).lower()}"
    return [f"request_weight_gradient<{shape}>(team, n, {_maps(plan, _weight_factors(plan, number))});"]


def _inputs(number: int) -> str:
    """Name of the array of the inputs of layer `number`, from 1."""
    return "x" if number == 1 else f"y{number - 1}"


def _shape(tile: AnyTile, layer: LinearLayer) -> str:
    return f"{tile}, {layer.inputs}, {layer.outputs}"


def _ahead(tile: AnyTile, factor: str) -> str:
    """Factor that a tile on tensor cores requests before its phase."""
    return factor if isinstance(tile, TensorPhaseTile) else "NOTHING"


def _ahead_of_forward(plan: PersistentPlan, number: int) -> str:
    """Factor of the forward product of layer `number` that is requested before its phase, as a constant of CUDA: RIGHT,
    the weights; LEFT, the samples of layer 1, which are there one wait before the weights; or NOTHING.
    """
    if number == 1 and len(plan.layers) == 1:
        return "NOTHING"
    return _ahead(plan.forward[number - 1], "LEFT" if number == 1 else "RIGHT")
