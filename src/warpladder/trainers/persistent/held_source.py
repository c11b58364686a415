"""Lines of a step whose weights and activations are in shared memory: calls of the phases of held.cuh."""

from __future__ import annotations

from collections.abc import Callable

from ...nets import CrossEntropyLoss, Net
from .held import held_line, slice_of
from .plan import PersistentPlan, crew_waits, has_long_rows
from .tiles import THREADS


def held_samples(plan: PersistentPlan) -> int:
    """Offset in floats of the batch's samples in shared memory, after all that tiles of weight gradients overwrite."""
    assert plan.rows is not None
    return plan.shared // 4 - plan.rows * held_line(plan.layers[0].inputs)


def held_phases(net: Net, plan: PersistentPlan, own: Callable[[str, int], str], between: list[str]) -> list[str]:
    """Lines of CUDA from the copies of the weights to the last input gradient, and the wait of all blocks after it.

    own : expression of the cluster's rows of an array, from its name and the number of its layer.
    between : lines that run while blocks wait after the first phase and after the second.
    """
    last, left = len(plan.layers), list(between)
    copies = _copies(plan)
    phases = [_forward(net, plan, own, number) for number in range(1, last + 1)]
    phases += [_input_gradient(net, plan, own, number) for number in range(last, 1, -1)]
    lines = ["if (mine > 0) {", *(f"    {line}" for line in copies), "}"]
    if plan.brings:
        lines.insert(1, "    slices.begin();")
    if plan.sends:
        lines.insert(0, _announcement(plan))
    if isinstance(net.loss, CrossEntropyLoss):
        lines.insert(0, "const int labels_ahead = held_labels(label + from, mine);")
    for number, line in enumerate(phases, start=1):
        if number <= len(copies):  # the weights of this phase have been copied
            later = sum(each.startswith("hold_") for each in copies[number:])
            is_brought = copies[number - 1].startswith("bring_")
            lines.append(f"if (mine > 0) slices.wait({number - 1});" if is_brought else f"ready<{later}>();")
        waits = number <= crew_waits(last)
        lines.append(line.format(to=_receiver(plan, number) if waits else "Unsent{}"))
        if waits:
            lines.extend(["crew.arrive();", *([left.pop(0)] if left else []), f"crew.wait({number});"])
        if number == last and isinstance(net.loss, CrossEntropyLoss):
            lines.append(_cross_entropy(plan, own))
    return [*lines, "team.arrive();", *left, f"team.wait({len(phases)});"]


def gathered(plan: PersistentPlan, request: str, store: str) -> list[str]:
    """Lines of CUDA that gather the next batch, one for each wait. A warp that gathers several samples for its block
    stores one and requests the next at each wait.
    """
    assert plan.rows is not None
    more = -(-plan.rows // (THREADS // 32)) - 1 if plan.sends else 0
    each = [store.replace("gather.finish", "gather.more")] * min(more, crew_waits(len(plan.layers)) - 1)
    return [request, *each, store]


def _widths(plan: PersistentPlan) -> list[int]:
    """Widths of the vectors that the blocks of a cluster exchange in a step: one for each wait of the cluster.

    First the outputs of each layer in the forward pass, then the gradients of the inputs from the last layer to the
    second.
    """
    widths = [each.outputs for each in plan.layers] + [each.inputs for each in plan.layers[:0:-1]]
    return widths[: crew_waits(len(plan.layers))]


def counted_team(plan: PersistentPlan) -> str:
    """Lines of CUDA that declare the team of a cluster's blocks that send their results."""
    widths = _widths(plan)
    absent = ", ".join(str(plan.cluster - -(-width // slice_of(width, plan.cluster))) for width in widths)
    return (
        f"    __shared__ Barrier arrivals[{len(widths)}];\n    CountedTeam<{plan.cluster}, {len(widths)}> crew("
        f"arrivals, arrived, [](int wait) {{ constexpr int absent[] = {{{absent}}}; return absent[wait]; }});"
    )


def _announcement(plan: PersistentPlan) -> str:
    """Line of CUDA that announces the bytes of each wait: whole quads of a row for each sample."""
    quads = ", ".join(str(-(-width // 4)) for width in _widths(plan))
    return (
        f"crew.begin(step, [&](int wait) {{ constexpr int quads[] = {{{quads}}}; return 16 * mine * quads[wait]; }});"
    )


def _receiver(plan: PersistentPlan, number: int) -> str:
    """Last argument of a phase's CUDA call: the kind of transfer of its results to the other blocks before a wait."""
    return f"Sent{{crew.at({number})}}" if plan.sends else "Stored{}"


def _place(plan: PersistentPlan, name: str) -> str:
    """CUDA expression of an array in shared memory; "to3" is the outputs of layer 3, in a or b."""
    assert plan.held is not None
    return f"held + {plan.held.places['ab'[int(name[2:]) % 2] if name.startswith('to') else name]}"


def _copies(plan: PersistentPlan) -> list[str]:
    """Lines of CUDA that start the copies of the weights, in the order of the phases that read them."""
    numbered = list(enumerate(plan.layers, start=1))
    backward = numbered[:0:-1] if plan.cluster > 1 else []  # a block alone reads the same weights both times
    wanted = [
        (kind, f"{name}{number}", number, each)
        for kind, name, some in (("outputs", "w", numbered), ("inputs", "b", backward))
        for number, each in some
    ]
    lines = []
    for place, (kind, name, number, each) in enumerate(wanted):
        is_brought = plan.brings and kind == "outputs" and has_long_rows(each)
        call, barrier = ("bring", f", slices.at({place})") if is_brought else ("hold", "")
        shape = f"<{each.inputs}, {each.outputs}, {plan.cluster}>"
        lines.append(f"{call}_{kind}{shape}({_place(plan, name)}, w{number}{barrier});")
    return lines


def copies_of(plan: PersistentPlan) -> int:
    """Number of copies of weights into a block's shared memory in a step."""
    return len(_copies(plan))


def _forward(net: Net, plan: PersistentPlan, own: Callable[[str, int], str], number: int) -> str:
    """CUDA call of the forward phase of layer `number`, from 1; the last one fuses the squared error's gradient."""
    each, is_last = plan.layers[number - 1], number == len(plan.layers)
    source = "held_x" if number == 1 else _place(plan, f"to{number - 1}")
    shape = f"<{plan.forward[number - 1]}, {each.inputs}, {each.outputs}, {plan.cluster}, {str(each.relu).lower()}>"
    weights, to, sums = (_place(plan, name) for name in (f"w{number}", f"to{number}", "sums"))
    stays = _place(plan, "own" if is_last else f"own{number}")
    if is_last and not isinstance(net.loss, CrossEntropyLoss):
        target = f"targets == nullptr ? {own('x', 0)} : targets, targets == nullptr ? nullptr : label + from"
        gradient = own(f"g{number}", number)
        return (
            f"held_reconstruct{shape}({source}, {weights}, {target}, {stays}, {to}, {gradient}, {sums}, own, mine, n, "
            "{to});"
        )
    out = "nullptr" if is_last else own(f"y{number}", number)
    return f"held_forward{shape}({source}, {weights}, {stays}, {to}, {out}, {sums}, mine, {{to}});"


def _cross_entropy(plan: PersistentPlan, own: Callable[[str, int], str]) -> str:
    """CUDA call of the cross-entropy of the last layer's logits, which its gradient overwrites."""
    each, last = plan.layers[-1], len(plan.layers)
    shape = f"<{each.outputs}, {plan.cluster}, {str(each.relu).lower()}>"
    logits, gradient = _place(plan, f"to{last}"), own(f"g{last}", last)
    labels = "label + from, labels_ahead"
    return f"held_cross_entropy{shape}({logits}, {labels}, {_place(plan, 'g')}, {gradient}, own, mine, n);"


def _input_gradient(net: Net, plan: PersistentPlan, own: Callable[[str, int], str], number: int) -> str:
    """CUDA call of the input gradient of layer `number`, from 1."""
    each, before, last = plan.layers[number - 1], plan.layers[number - 2], len(plan.layers)
    shape = f"<{plan.inputs[number - 1]}, {each.inputs}, {each.outputs}, {plan.cluster}, {str(before.relu).lower()}>"
    first = "g" if isinstance(net.loss, CrossEntropyLoss) else f"to{last}"
    source = _place(plan, first if number == last else f"to{number + 2}")
    weights = _place(plan, f"{'b' if plan.cluster > 1 else 'w'}{number}")
    places = ", ".join(_place(plan, name) for name in (f"own{number - 1}", "own", f"to{number + 1}"))
    out = own(f"g{number - 1}", number - 1)
    return f"held_input_gradient{shape}({source}, {weights}, {places}, {out}, {_place(plan, 'sums')}, mine, {{to}});"
