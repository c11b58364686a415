"""The tuner: times ways to compute each product of a net on the device that trains it, and takes the fastest.

Which one is chosen depends on a clock, and the last bits of what is trained on the choice. So it is made once: a run
keeps it and goes on with it (`Trainer.tuned`), and other runs of the same shapes on the same device find it (`plan_cache`).
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from time import perf_counter

from ..device import Call, Device, Launch
from ..device.timing import in_turn
from ..ops.kernels import KernelOp
from ..ops.tiles import Plan, Planned
from ..plan import NetPlan, ProductPlan
from . import plan_cache
from .kernelwise.network import Network

#: Plans that are timed, the model's first; and of them with the same tile: it is wrong about tiles more often than about parts.
MOST, EACH = 12, 3

#: What a plan must win by over those that the model prefers, so that noise does not decide.
MARGIN = 0.02

#: Multiply-adds from which a product is timed: fewer take less than a tenth of the time of the launch that does them.
WORTH = 3_000_000


@dataclass(frozen=True)
class Product:
    """One product of a net that is bound to a device.

    layer : the first of its op's layers.
    name : what it computes, "y", "dx" or "dw".
    """

    layer: int
    op: KernelOp
    name: str
    planned: Planned

    def calls(self, n: int) -> list[Call]:
        """What computes it for n samples; nothing where the op has another way for so many."""
        calls = self.op.forward(n) if self.name == "y" else self.op.backward(n)
        return [call for call in calls if call.product is self.planned]

    def told(self, n: int, plan: Plan) -> ProductPlan:
        """A plan of it as data."""
        return ProductPlan(self.layer, type(self.op).__name__, self.name, n, astuple(plan.tile), plan.depth, plan.parts)

    def among(self, n: int, told: ProductPlan) -> Plan | None:
        """The plan that was told, where it is one of this product's."""
        return next((plan for plan in self.planned.options(n) if self.told(n, plan) == told), None)

    def candidates(self, n: int) -> list[Plan]:
        """The plans to time, the model's choice first."""
        taken: Counter[object] = Counter()
        found = []
        for plan in self.planned.options(n):
            taken[plan.tile] += 1
            if taken[plan.tile] <= EACH:
                found.append(plan)
        return found[:MOST]

    def key(self, hardware: str, n: int) -> str:
        """A hash of everything that bears on which plan is fastest."""
        sources = sorted({call.kernel.source.digest for call in self.calls(n) if isinstance(call, Launch)})
        what = self.name, type(self.op).__name__, repr(self.op.layers), self.op.buffers.x.shape[1:], n
        return sha256(json.dumps([hardware, what, sources, list(map(str, self.candidates(n)))]).encode()).hexdigest()[:40]


def products(ops: Sequence[tuple[int, KernelOp]], n: int) -> list[Product]:
    """The products that ops compute by tiles for n samples."""
    every = (Product(first, op, name, planned) for first, op in ops for name, planned in op.products.items())
    return [product for product in every if product.calls(n)]


def tune(
    device: Device, network: Network, ops: Sequence[tuple[int, KernelOp]], stored: NetPlan | None, say: Callable[[str], None] | None
) -> NetPlan | None:
    """Choose the plans of these ops' products for as many samples as the network holds.

    The others, of an epoch's last batch, are computed as the model says: an epoch has one of them.
    Activations and gradients are overwritten; parameters, momentum and the log of steps are not touched.

    Parameters
    ----------
    stored : NetPlan or None
        The plan of the run that goes on: what it says is done, and not timed.
    say : callable or None
        Told when timing begins and ends.

    Returns
    -------
    NetPlan or None
        What is now done; None where the device's times mean nothing, or no product is worth timing.
    """
    n = network.capacity
    if stored is not None and stored.hardware != device.hardware:
        follows = "the model's are used here" if device.hardware is None else "they are timed again"
        warnings.warn(
            f"the stored plans were timed on {stored.hardware}, and this is {device.hardware or device.name}: {follows}", stacklevel=2
        )
        stored = None
    if device.hardware is None:
        return None
    wanted = {product: product.key(device.hardware, n) for product in products(ops, n) if work(product, n) >= WORTH}
    known = {product: _stored(product, n, stored) or _found(product, n, key, device.hardware) for product, key in wanted.items()}
    unknown = {key: product for product, key in wanted.items() if known[product] is None}  # of several with the same shape one
    if unknown:
        tell = say or (lambda line: None)
        tell(f"Timing up to {MOST} plans for each of {len(unknown)} products of matrices on {device.name}")
        began = perf_counter()
        _fill(network, n)
        for key, product in unknown.items():
            plan_cache.write(key, NetPlan(device.hardware, (product.told(n, fastest(device, product, n)),)))
        tell(f"Timed in {perf_counter() - began:.1f} s; later runs find the plans in {plan_cache.folder()}")
    for product, key in wanted.items():
        plan = known[product] or _found(product, n, key, device.hardware)
        assert plan is not None
        product.planned.use(n, plan)
    return NetPlan(device.hardware, tuple(product.told(n, product.planned(n)) for product in wanted)) if wanted else None


def work(product: Product, n: int) -> int:
    """Multiply-adds."""
    m, columns, k = product.planned.shape(n)
    return m * columns * (k(product.planned.options(n)[0].tile) if callable(k) else k)


def fastest(device: Device, product: Product, n: int) -> Plan:
    """The first of the candidates, in the model's order, that none after it beats by more than MARGIN."""
    candidates, works = product.candidates(n), []
    for plan in candidates:
        product.planned.use(n, plan)
        works.append(product.calls(n))
    seconds = in_turn(device, works)
    return next(plan for plan, taken in zip(candidates, seconds, strict=True) if taken <= min(seconds) * (1 + MARGIN))


def _stored(product: Product, n: int, plan: NetPlan | None) -> Plan | None:
    """What the run that goes on did, where it did this."""
    place = product.layer, product.name, n
    told = next((told for told in plan.products if (told.layer, told.product, told.samples) == place), None) if plan is not None else None
    if told is None:
        return None
    found = product.among(n, told)
    if found is None:
        warnings.warn(
            f"the stored plan of layer {told.layer}'s {told.product} is none that this version has: it is chosen anew", stacklevel=2
        )
    return found


def _found(product: Product, n: int, key: str, hardware: str) -> Plan | None:
    """What an earlier run found to be fastest."""
    kept = plan_cache.read(key)
    if kept is None:
        return None
    told = replace(kept.products[0], layer=product.layer) if len(kept.products) == 1 and kept.hardware == hardware else None
    found = product.among(n, told) if told is not None else None
    if found is None:
        warnings.warn(f"plan {plan_cache.path(key)} is one of something else, and is timed again", stacklevel=2)
    return found


def _fill(network: Network, n: int) -> None:
    """Leave numbers in the buffers as a step would: what kernels read of places must be places."""
    network.x.device.fill(network.x, 0x3F)  # 0.747 in every element
    for stage in network.forward(n):
        for call in stage.launches:
            call.send()
    assert network.dy is not None
    network.dy.device.fill(network.dy, 0x3F)
    for stage in network.backward(n):
        for call in stage.launches:
            call.send()
