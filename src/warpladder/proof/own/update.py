"""Check of a user's kernel of the optimizer's step: its accesses on the emulator, its results against float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...config import TrainConfig
from ...errors import KernelError, RungError
from ...ops.own.kernel_file import KernelFile, command
from ...ops.own.roles import columns
from ...ops.own.update import OwnUpdate
from ..tolerance import bound
from .watched import send_watched


def check_update(file: KernelFile, config: TrainConfig, count: int, abort: Callable[[str], None]) -> str:
    """Check a step on `count` parameters; returns the command that checks the file.

    abort : called with a message by another thread if the launch does not end.
    Raises RungError: the first fault, in one line.
    """
    from ...device.emulator import EmulatedDevice

    (own,), optimizer, random = file.launches, config.optimizer, np.random.default_rng(7)
    device = EmulatedDevice("check", collect=True, watched=True)
    w, g = (random.standard_normal(count).astype(np.float32) for _ in range(2))
    g *= np.float32(0.1)
    slots = {name: a.astype(np.float32) for name, a in optimizer.drawn(random, w, g.astype(np.float64)).items()}
    arrays = {name: device.array(a) for name, a in {"w": w, "g": g, **slots}.items()}
    kind = type("OwnUpdateOfFile", (OwnUpdate,), {"file": file})
    update = kind(device, config, arrays["w"], arrays["g"], tuple(arrays[name] for name in slots), 256)
    row = optimizer.numbers(np.array([optimizer.learning_rate]), 8)[:1].astype(np.float32)
    numbers = device.array(row)
    known = dict(zip(columns(optimizer), map(float, row[0]), strict=False)) | {"count": count}
    run = command(file, own, arrays, known | {"limit": config.clip_value or float(np.finfo(np.float32).max)})

    def described(what: str, before: str = ": run ") -> str:
        return f"{own.signature.name}, {count:,} parameters: {what}{before}`{run}`"

    (launch,) = update.step(numbers, None)
    try:
        send_watched(device, launch, lambda what: abort(described(what)))
    except KernelError as error:
        raise RungError(described(str(error))) from None
    if device.reports:
        raise RungError(described(f"{device.reports[0].kind}: {device.reports[0].message}"))
    wide = {name: a.astype(np.float64) for name, a in {"w": w, "g": g, **slots}.items()}
    if config.clip_value is not None:
        wide["g"] = np.clip(wide["g"], -config.clip_value, config.clip_value)
    step = optimizer.form("reference").step
    stepped, kept = step(wide["w"], wide["g"], {name: wide[name] for name in slots}, optimizer,
                         optimizer.learning_rate, 9)  # fmt: skip
    for name, truth in {"w": stepped, **kept}.items():
        found = np.empty(count, np.float32)
        device.download(found, arrays[name])
        distance, limit = np.linalg.norm(found - truth), bound("fp32", optimizer.roundings)
        if not distance <= limit * np.linalg.norm(truth):
            at = int(np.argmax(np.where(np.isnan(found), np.inf, np.abs(found - truth))))
            wrong = f"{name}[{at}] is {found[at]:.6g}, and should be {truth[at]:.6g}"
            raise RungError(described(wrong, "; to run it alone: "))
    return run
