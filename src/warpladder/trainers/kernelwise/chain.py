"""Chain of a net on a device: its segments bound to arrays, and a step as stages of launches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...device import Array, Device, Launch
from ...nets import CrossEntropyLoss
from ...nets.params import buffer_slices, param_slices
from ...ops.engine.base import Buffers
from ...ops.engine.chain import Slice, Subgraph
from ...ops.engine.kernels import KernelUpdate, Launches, Log, MaskKey
from ...ops.engine.segments import Operands, Segment, StoredSamples
from .boundaries import BoundaryArrays
from .device_shares import DeviceShares


@dataclass(frozen=True)
class Stage:
    """Part of a step: its phase, the numbers of its layers (none for feed, loss, sum and update), and its launches."""

    phase: str
    layers: range
    launches: Launches


class Chain:
    """Segments of a net, bound to a device's memory.

    arrays : arrays between the segments, with their boundaries. params, grads : by name; no grads to predict only.
    samples : stored samples for a segment that gathers. log : log for a segment with the loss.
    update : function that returns the optimizer's step on exactly the parameters of these names.
    mask_key, shares : key of random masks, and shares of samples, as in `Operands`.
    running : (buffer_count,) running statistics, or None. numbers : the optimizer's settings, as in `Operands`.
    updated : parameters that segments update in place when a batch comes in one slice.
    """

    def __init__(
        self, device: Device, arrays: BoundaryArrays, params: Mapping[str, Array], grads: Mapping[str, Array],
        block_size: int, samples: StoredSamples | None = None, log: Log | None = None,
        update: Callable[[list[str]], KernelUpdate] | None = None, mask_key: MaskKey | None = None,
        shares: DeviceShares | None = None, running: Array | None = None, numbers: Array | None = None,
    ) -> None:  # fmt: skip
        self.boundaries = boundaries = arrays.boundaries
        self.device, self.arrays, self.shares, self.running = device, arrays, shares, running
        self.capacity = boundaries.cut[0][0].capacity
        self.segments: list[Segment] = []
        self.updated: set[str] = set()
        labelled = isinstance(boundaries.net.loss, CrossEntropyLoss)
        goal = arrays.x if arrays.targets is None else arrays.targets
        for number, (part, kind) in enumerate(boundaries.cut):
            names = [place.name for place in param_slices(boundaries.net) if place.layer in part.layers_at]
            w, dw = (
                self._of_layers(part, views, what) for views, what in ((params, "parameters"), (grads, "gradients"))
            )
            whole = len(w) == len(names) or not kind.updates_all_biases
            updates = update is not None and bool(names) and whole and kind.updates_in_place(part)
            operands = Operands(
                self._buffers(number, w, dw), w, dw, samples=samples if part.gathers else None,
                target=arrays.labels if part.gathers or labelled else goal if part.turns else None,
                log=log if part.turns else None, mask_key=mask_key,
                shares=shares.array if part.turns and shares is not None else None,
                update=update(names) if update is not None and updates else None, numbers=numbers,
                masks_dx=boundaries.fuses_relu(number),
                dy_is_masked=number + 1 < len(boundaries.cut) and boundaries.fuses_relu(number + 1),
                previous=self.segments[-1] if self.segments and self.segments[-1].layers else None,
            )  # fmt: skip
            self.segments.append(kind(device, part, operands, block_size))
            self.updated.update(names if self.segments[-1].update is not None else ())
        self._leave_to_neighbours()

    def _leave_to_neighbours(self) -> None:
        """Take the update from segments whose few parameters lie next to ones that a flat launch updates."""
        places = param_slices(self.boundaries.net)
        few = [segment for segment in self.segments if segment.update is not None and segment.has_few_parameters]
        for segment in [*few, *reversed(few)]:
            own = [at for at, place in enumerate(places) if place.layer in segment.subgraph.layers_at]
            around = {places[at].name for at in (own[0] - 1, own[-1] + 1) if 0 <= at < len(places)}
            if not around <= self.updated:
                segment.update = None
                self.updated -= {places[at].name for at in own}

    def _of_layers(self, part: Subgraph, views: Mapping[str, Array], what: str) -> tuple[Array, ...]:
        """Weights and biases of a segment's layers, or their gradients; zeros for a missing bias."""
        found = []
        for number in part.layers_at:
            if (weight := views.get(f"{self.boundaries.net.names[number]}.weight")) is not None:
                bias = views.get(f"{self.boundaries.net.names[number]}.bias")
                found += [weight, self.device.zeros(weight.shape[:1], what=what) if bias is None else bias]
        return tuple(found)

    def _buffers(self, number: int, w: tuple[Array, ...], dw: tuple[Array, ...]) -> Buffers:
        """Arrays that a segment reads and writes, as in `Operands`."""
        values, gradients = self.arrays.values, self.arrays.gradients
        part, _ = self.boundaries.cut[number]
        x, dx = (self.arrays.x if part.gathers else values[number]), gradients.get(number)
        entering = part.shapes[part.gathers and bool(part.layers)]  # of its first layer; a Flatten may come before it
        x, dx = (None if array is None else array.reshape((len(array), *entering)) for array in (x, dx))
        weights = (*w, None, None)[:2], (*dw, None, None)[:2]
        held = [
            self.running[place.start : place.stop]
            for place in buffer_slices(self.boundaries.net)
            if self.running is not None and place.layer in part.layers_at
        ]
        mean, var = (*held, None, None)[:2]
        found = Buffers(x, values.get(number + 1), dx, gradients.get(number + 1), *weights[0], *weights[1])
        return replace(found, mean=mean, var=var, **self._skips(number))

    def _skips(self, number: int) -> dict[str, Array | None]:
        """Stored input and second gradient of segment `number`, if it has residual layers."""
        boundaries, layers = self.boundaries, self.boundaries.cut[number][0].layers_at
        skips = boundaries.net.skips
        stored = [skips.stored[layer] for layer in layers if layer in skips.stored]
        returned = [skips.returned[layer] - 1 for layer in layers if layer in skips.returned]
        skip = self.arrays.values[boundaries.before(stored[0])] if stored else None
        dskip = self.arrays.gradients.get(boundaries.with_layer(returned[0]) + 1) if returned else None
        return {"skip": skip, "dskip": dskip}

    @property
    def layered(self) -> list[int]:
        """Indices of the segments that compute only layers."""
        return [number for number, (part, _) in enumerate(self.boundaries.cut) if not part.gathers and not part.turns]

    @property
    def multiplying(self) -> list[int]:
        """Indices of the segments whose matrix products can be launched alone: all but those that compute the loss."""
        return [number for number, (part, _) in enumerate(self.boundaries.cut) if not part.turns]

    @property
    def reads_order(self) -> bool:
        """True if a step's launches read the epoch's order, its key of random masks or its shares of samples."""
        return (
            self.boundaries.net.is_random
            or self.shares is not None
            or all(segment.reads_order for segment in self.segments)
        )

    def prepare(self, part: Slice, repeated: bool = False) -> list[Stage]:
        """Stages that depend on the parameters alone, as `Segment.prepare`."""
        stages = [_stage("prepare", segment, segment.prepare(part, repeated)) for segment in self.segments]
        return [stage for stage in stages if stage.launches]

    def forward(self, part: Slice) -> list[Stage]:
        """Stages of the forward pass of all segments for a slice; of the whole step if one segment computes it."""
        if self.boundaries.is_one_segment:
            (segment,) = self.segments
            return [_stage("step", segment, [*segment.forward(part), *segment.backward(part)])]
        return [_stage(_forward_phase(segment), segment, segment.forward(part)) for segment in self.segments]

    def backward(self, part: Slice) -> list[Stage]:
        """Stages of the backward pass of all segments down to the first trained layer."""
        if self.boundaries.is_one_segment:
            return []
        first = self.boundaries.net.first_trained
        trained = [segment for segment in reversed(self.segments) if segment.subgraph.layers_at.stop > first]
        return [_stage("backward", segment, segment.backward(part)) for segment in trained]


def source_files(stages: Iterable[Stage]) -> list[Path]:
    """Source files of the launches: .cu files of layers first, then files of library calls, then headers."""
    calls = [call for stage in sorted(stages, key=lambda stage: not stage.layers) for call in stage.launches]
    kernels = [call.kernel.source for call in calls if isinstance(call, Launch)]
    libraries = [Path(inspect.getfile(type(call))) for call in calls if not isinstance(call, Launch)]
    return [
        *(source.path for source in kernels),
        *libraries,
        *(header for source in kernels for header in source.headers),
    ]


def _forward_phase(segment: Segment) -> str:
    part = segment.subgraph
    return "forward" if part.layers else "feed" if part.gathers else "loss"


def _stage(phase: str, segment: Segment, launches: Launches) -> Stage:
    return Stage(phase, segment.subgraph.layers_at, launches)
