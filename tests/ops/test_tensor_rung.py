"""The tensor rung: proven on nets of linear layers in each precision, on tiny and huge gradients; what lies about its
precision is caught.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from clockwork import Clockwork
from compared_steps import bits, compare_epoch, steps_within
from hypothesis import HealthCheck, assume, given, settings
from named_calls import steps
from strategies import Case, case
from tensor_nets import CODER, DEEP, LINE, MLP, NETS, chains, on
from tensor_tools import IN_BF16, Edited

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.device import Call, Launch
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import RungError
from warpladder.ladder import find
from warpladder.machine.peaks import TENSOR, Peaks
from warpladder.nets import (
    Conv2d,
    CrossEntropyLoss,
    Layer,
    Linear,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Shape,
    Upsample2d,
    params,
)
from warpladder.ops.conv2d.tensor import formats as of_convolutions
from warpladder.ops.linear.tensor import packed as of_linear_layers
from warpladder.ops.linear.tensor.tiles import SOURCE
from warpladder.ops.tables.tensor import TABLE
from warpladder.ops.thin_chain.arrays import MOST
from warpladder.optimizers import Adam, AdamW
from warpladder.optimizers.schedules import Cosine
from warpladder.proof import verify
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.tolerance import bound
from warpladder.rungs.base import Rung
from warpladder.rungs.tensor import PRECISIONS
from warpladder.trainers.base import State, StepLog, Trainer
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise import where

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PLAIN = find("tensor", device="emulated")
FIVE = (nets.softmax(), nets.mlp(), nets.mlp10(), nets.cnn(), nets.autoencoder())
IMAGE = Net(
    "image", (3, 6, 6),
    (
        Conv2d(out_channels=9, kernel_size=3, stride=2, padding=1), ReLU(), Upsample2d(scale_factor=2),
        Conv2d(out_channels=3, kernel_size=3, padding=1),
    ),
    MSELoss(),
)  # fmt: skip
slow = pytest.mark.slow


def turn(net: Net, batch: int | None) -> list[pytest.MarkDecorator]:
    """Who runs this: a full batch of the wider nets, whose proof has one of 70,001 samples, takes the emulator minutes;
    other batches on further nets repeat.
    """
    if batch is None:
        return [slow] if net is NETS[0] else [pytest.mark.nightly]
    if batch == 7:
        return [] if net in (DEEP, CODER) else [slow]
    return [pytest.mark.nightly] if net is not DEEP else [slow] if batch == 64 else []


@pytest.mark.parametrize(
    ("net", "batch"),
    [
        pytest.param(net, batch, id=f"{net.name}-{batch or 'full'}", marks=turn(net, batch))
        for net in NETS
        for batch in (1, 7, 64, None)
        if (net, batch) != (DEEP, None)  # of which the next test speaks
    ],
)
@pytest.mark.by_day("coder-7")
def test_proven(net: Net, batch: int | None) -> None:
    """By fp32's bounds; the cases hold a partial last batch."""
    verdict = verify(PLAIN.build, net, TrainConfig(batch_size=batch, momentum=0.9, weight_decay=1e-3))
    assert verdict.passed, verdict.reason
    assert steps_within(verdict, 1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("rung", [PLAIN, find("numpy")], ids=lambda rung: rung.name)
def test_a_full_batch_of_the_deep_net_cannot_be_judged_whoever_trains_it(rung: Rung) -> None:
    """Of 70,001 terms of a bias's gradient plain fp32 code, adding one after the other, loses more than the proof lets
    its samples lose.
    """
    verdict = verify(rung.build, DEEP, TrainConfig(batch_size=None, momentum=0.9, weight_decay=1e-3))
    assert not verdict.judged and not verdict.passed
    assert verdict.reason.startswith("cannot judge: far data") and "plain fp32 code itself" in verdict.reason, (
        verdict.reason
    )


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16"])
@pytest.mark.parametrize(
    "net",
    [
        pytest.param(net, id=net.name, marks=pytest.mark.pairs if net is DEEP else pytest.mark.nightly)
        for net in NETS
        if net is not CODER
    ],
)
def test_proven_in_coarser_precisions(net: Net, precision: str) -> None:
    """But the net that ends in a ReLU: in bf16 none of its samples is fit to judge by."""
    rung = PLAIN.but(precision=precision)
    verdict = verify(rung.build, net, TrainConfig(batch_size=7), precision=rung.precision)
    assert verdict.passed, verdict.reason
    assert not verify(rung.build, net, TrainConfig(batch_size=7)).passed, "by fp32's bounds"


OTHERS = {
    "Adam": TrainConfig(batch_size=7, optimizer=Adam(1e-3, weight_decay=1e-2)),
    "AdamW": TrainConfig(batch_size=5, epochs=3, optimizer=AdamW(1e-3), schedule=Cosine(warmup=1), clip_value=0.1),
}


@pytest.mark.pairs
@pytest.mark.parametrize("name", OTHERS)
def test_proven_with_other_optimizers(name: str) -> None:
    verdict = verify(PLAIN.build, DEEP, OTHERS[name])
    assert verdict.passed, verdict.reason


@pytest.mark.slow
def test_steps_of_drawn_chains() -> None:
    usual = settings().max_examples

    @settings(
        max_examples=usual // 10 if usual <= 100 else usual, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(drawn=chains())
    def agree_on(drawn: Case) -> None:
        assume(compare_epoch(PLAIN, drawn) or not drawn.steps)

    agree_on()


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    ("net", "scale"),
    [
        pytest.param(
            net, scale, id=f"{net.name}-{scale:g}", marks=[] if net is LINE or scale == 1e-15 else [pytest.mark.nightly]
        )
        for net in (LINE, IMAGE)
        for scale in (1e-15, 1e-8, 1.0, 1e8, 1e10)
    ],
)
@pytest.mark.by_day("line", "image-1e-15-fp32")
def test_gradients_of_any_size(net: Net, scale: float, precision: str) -> None:
    """Samples of 1e-15 make gradients of 1e-30, those of 1e10 some of 1e20; a momentum that began at zero holds the
    gradient, at a rate of 0 all of it.

    In fp16 without a ReLU: numbers near zero may end on its other side there.
    """
    if precision == "fp16":
        net = replace(net, layers=tuple(layer for layer in net.layers if not isinstance(layer, ReLU)))
    config = TrainConfig(batch_size=None, learning_rate=0.0, momentum=0.5, shuffle=False)
    drawn = case(net, config, seed=5, samples=23, as_bytes=False)
    start = drawn.state.params.copy()
    for name, view in params.views(net, start).items():
        if name.endswith("bias"):
            view *= scale  # so that what enters a layer is as small or large as what enters the net
    x = (drawn.dataset.train_x * scale).astype(np.float32)
    data = Dataset("scaled", x, None, x, None, 1.0)
    found, wanted = (
        _gradient(build, net, config, start, data) for build in (PLAIN.but(precision=precision).build, ReferenceTrainer)
    )
    limit = bound(
        precision,
        40 + 70 + 40 + 23 + 40 if net.name == "line" else 3 * 9 + 9 * 9 + 3 * 9 + 23 * 9 + 23 * 36,
        products=5,
    )
    for name, truth in params.views(net, wanted).items():
        got = params.views(net, found)[name].astype(float)
        assert np.linalg.norm((got - truth) / abs(truth).max()) <= limit * np.linalg.norm(truth / abs(truth).max()), (
            name
        )
    assert 0.01 * scale**2 <= abs(params.views(net, wanted)["0.weight"]).max() <= 100 * scale**2


def _gradient(
    build: Callable[..., Trainer], net: Net, config: TrainConfig, start: np.ndarray, data: Dataset
) -> np.ndarray:
    with build(net, config, State(start, {"momentum_buffer": np.zeros_like(start)})) as trainer:
        trainer.load(data)
        trainer.run(Order(0, 0, len(data.train_x), shuffle=False), 0, 1)
        return trainer.state().slots["momentum_buffer"]


#: What is planted in the products, and the precision that is claimed.
LIARS = {
    "the low halves of A dropped": ("fp32", ("FORMAT == SPLIT ? 0 : 2;", "FORMAT == SPLIT ? 1 : 2;")),
    "the low halves of B dropped": ("fp32", ("++product)", "product += FORMAT == SPLIT ? 2 : 1)")),
    "a scale not removed": ("fp32", ("* inverse_scale_a, inverse_scale_b,", "* DOWN, inverse_scale_b,")),
    "sums in bf16": ("fp32", ("inverse_scale_b, sum[i][j][l]);", f"inverse_scale_b, sum[i][j][l]); {IN_BF16}")),
    "a scale removed twice": (
        "fp32",
        ("of_a[16 * i + l / 2 * 8]", "of_a[16 * i + l / 2 * 8] * of_a[16 * i + l / 2 * 8]"),
    ),
    "a scale removed twice, of one half": (
        "fp16",
        ("of_a[16 * i + l / 2 * 8]", "of_a[16 * i + l / 2 * 8] * of_a[16 * i + l / 2 * 8]"),
    ),
    "a scale not removed, of one half": ("fp16", ("* inverse_scale_a, inverse_scale_b,", "* DOWN, inverse_scale_b,")),
    "factors in bf16 for tf32": ("tf32", ("enum { SPLIT", "#define to_tf32(x) two_bf16(0.0f, x)\nenum { SPLIT")),
}


#: What is planted in what rides along with products: what stands between two layers, the bias's gradient, samples.
BETWEEN = {
    "the gradient of ReLU left out where dx is written": ("if (relu_mask != nullptr) four", "if (false) four"),
    "the bias's gradient of half of the rows": ("sum += __shfl_xor_sync(EVERY_LANE, sum, 16);", ""),
    "bytes with their scale twice": ("FORMAT == EXACT ? stored : scaled", "scaled"),
    "samples that are floats without their scale": ("make_float4(stored.x * scale", "make_float4(stored.x"),
    "labels of other samples": ("target[row0 + lane] = labels[sample]", "target[row0 + lane] = labels[row0 + lane]"),
}


@pytest.mark.parametrize(
    "liar", [pytest.param(liar, marks=[] if liar.startswith("the gradient") else [slow]) for liar in BETWEEN]
)
@pytest.mark.slow
def test_what_is_wrong_between_two_products_is_caught(liar: str) -> None:
    honest: Any = EmulatedDevice()
    edited: Any = Edited(honest, BETWEEN[liar])
    assert not verify(on(edited), DEEP, TrainConfig(batch_size=40)).passed


#: One that loses digits of each factor, and one that loses them in sums.
BY_DAY = ("the low halves of A dropped",)


@pytest.mark.parametrize("liar", [pytest.param(liar, marks=[] if liar in BY_DAY else [slow]) for liar in LIARS])
def test_products_that_lie_about_their_precision_are_caught(liar: str) -> None:
    precision, edit = LIARS[liar]
    honest: Any = EmulatedDevice()
    edited: Any = Edited(honest, edit)
    verdict = verify(on(edited, precision), MLP, TrainConfig(batch_size=7), precision=precision)
    assert not verdict.passed and verdict.reason.startswith(("update", "slots", "predict", "loss", "correct")), (
        verdict.reason
    )


class Rounding(GraphedTrainer):
    """Keeps its master weights in bf16."""

    def run(self, order: Order, first: int, last: int) -> StepLog:
        logs = []
        for step in range(first, last):
            logs.append(super().run(order, step, step + 1))
            state = self.state()
            whole = state.params.view(np.uint32) + np.uint32(0x8000)
            self.set_state(state.but(params=(whole & np.uint32(0xFFFF0000)).view(np.float32)))
        return (
            logs[0]
            if len(logs) == 1
            else StepLog(
                *(
                    np.concatenate([getattr(log, k) for log in logs] or [np.zeros(0)])
                    for k in ("loss", "correct", "size")
                )
            )
        )


@pytest.mark.parametrize(
    "precision", ["fp32", pytest.param("tf32", marks=slow), "bf16", pytest.param("fp16", marks=slow)]
)
@pytest.mark.by_day("fp32")
def test_master_weights_that_are_rounded_are_caught(precision: str) -> None:
    device = EmulatedDevice()

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        return Rounding(net, config, state, device, TABLE, precision=precision)

    verdict = verify(build, MLP, TrainConfig(batch_size=7, learning_rate=0.01), precision=precision)
    assert not verdict.passed


#: What a step launches besides, none of which multiplies matrices.
OTHER_KERNELS = {
    "gather_rows", "pack", "pack_samples", "add_parts", "cross_entropy_by_warps", "mse_by_warps", "relu_gradient", "relu_forward", "sgd_step", "sgd_step_by_four",
    "finish_bias",
}  # fmt: skip


def thin(net: Net) -> bool:
    """Whether the last layer is one with the loss, and is multiplied by FMA: it is thin, and has 2 % of the net's
    product FLOPs at most.
    """
    last = net.layers[-1]
    small = 3 * last.flops(net.shapes[-2]) <= 0.02 * net.train_flops
    return isinstance(net.loss, CrossEntropyLoss) and isinstance(last, Linear) and last.out_features <= MOST and small


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
@pytest.mark.parametrize("batch", [1, 7, 200])
def test_every_product_of_a_step_is_on_tensor_cores(net: Net, batch: int) -> None:
    """Three launches for each layer, two for the first; every other launch is none of the kernels that multiply, but
    for a thin last layer with its loss.
    """
    drawn = case(net, TrainConfig(batch_size=batch), seed=1, samples=450)
    for processors in (1, 132):
        device = Clockwork(lambda launch: 1e-5, hardware=None, multiprocessors=processors)
        with GraphedTrainer(net, drawn.config, drawn.state, device, TABLE) as trainer:
            trainer.load(drawn.dataset)
            for part in trainer.parts():
                names = [_file_and_name(call) for call in trainer.program(part)]
                products = [name for file, name in names if file == SOURCE.name]
                linear = sum(isinstance(layer, Linear) for layer in net.layers) - thin(net)
                assert len(products) == max(0, 3 * linear - 1) and all(
                    name.startswith("multiply<SPLIT") for name in products
                )
                others = {name.partition("<")[0] for file, name in names if file != SOURCE.name}
                calls = [call for call in trainer.program(part) if isinstance(call, Launch)]
                head = {
                    call.name.partition("<")[0] for call in calls if call.kernel.source.path.parent.name == "thin_chain"
                }
                assert others - head <= OTHER_KERNELS and bool(head) == thin(net)


@pytest.mark.parametrize(
    ("stored", "precision", "exact"), [(np.uint8, "fp32", 2), (np.float32, "fp32", 0), (np.uint8, "bf16", 0)]
)
def test_samples_that_are_bytes_stay_exact_in_fp32(stored: type, precision: str, exact: int) -> None:
    """y and dw of the first layer take two products for one; of samples that are floats, three."""
    drawn = case(MLP, TrainConfig(batch_size=7), seed=1, samples=20)
    samples = drawn.dataset.but(train_x=drawn.dataset.train_x.astype(stored))
    device = Clockwork(lambda launch: 1e-5, hardware=None, multiprocessors=132)
    with GraphedTrainer(MLP, drawn.config, drawn.state, device, TABLE, precision=precision) as trainer:
        trainer.load(samples)
        names = [_file_and_name(call)[1] for part in trainer.parts()[:1] for call in trainer.program(part)]
    assert sum(name.startswith("multiply<") and "EXACT" in name for name in names) == exact
    assert sum(name.startswith("pack_samples<EXACT, unsigned char>") for name in names) == (
        2 if exact else 0
    )  # y's factor, and dw's


@pytest.mark.parametrize("hardware", [None, "Clockwork, compute capability 9.0"], ids=["", "tuned"])
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_its_memory_is_told_and_let_go_at_once(net: Net, hardware: str | None) -> None:
    """Without the garbage collector, and where a tuner has chosen the tiles of what is worth timing."""
    device = Clockwork(lambda launch: 1e-5, hardware)
    drawn = case(net, TrainConfig(batch_size=200, momentum=0.9), seed=1, samples=450)
    gc.disable()
    try:
        with GraphedTrainer(net, drawn.config, drawn.state, device, replace(TABLE, below=None)) as trainer:
            before = dict(device.held)
            trainer.load(drawn.dataset)
            for part in trainer.parts():
                trainer.program(part)
            assert sum(trainer.memory().values()) == sum(device.held.values()) > sum(before.values())
            found = trainer.tuned.records if trainer.tuned is not None else ()
            assert bool(found) == (hardware is not None and net is MLP)
            assert {record.op for record in found} <= {"TensorLinear"}
            trainer.close()
            assert device.held == before | dict.fromkeys(device.held.keys() - before.keys(), 0)
    finally:
        gc.enable()


@pytest.mark.parametrize("batch", [1, 200])
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_no_call_runs_beside_one_that_it_has_to_wait_for(net: Net, batch: int) -> None:
    assert steps(case(net, TrainConfig(batch_size=batch), seed=1, samples=450), TABLE)


def _file_and_name(call: Call) -> tuple[str, str]:
    assert isinstance(call, Launch)
    return call.kernel.source.path.name, call.name


def test_the_same_bits_however_an_epoch_is_cut_and_in_any_order_of_threads() -> None:
    config = TrainConfig(batch_size=7, learning_rate=0.05, momentum=0.9)
    drawn, ends = case(DEEP, config, seed=3, samples=24), set()
    for device in (EmulatedDevice(), EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=2)):
        with on(device)(DEEP, config, drawn.state) as trainer:
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, 1)
            held = trainer.state()
        with on(device)(DEEP, config, held) as trainer:  # as a run that goes on from a checkpoint
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 1, 4)
            ends.add(bits(trainer.state()))
        with on(device)(DEEP, config, drawn.state) as trainer:
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, 4)
            ends.add(bits(trainer.state()))
    assert len(ends) == 1


@slow
def test_the_checker_is_silent() -> None:
    drawn = case(DEEP, TrainConfig(batch_size=7, momentum=0.9), seed=1, samples=16)
    with on(EmulatedDevice(mode="check"))(DEEP, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        trainer.run(drawn.order, 0, 3)  # raises at the first report


@dataclass(frozen=True)
class Scaled(Layer):
    """A layer with parameters that no table lists."""

    def out_shape(self, in_shape: Shape) -> Shape:
        return in_shape

    def param_shapes(self, in_shape: Shape) -> dict[str, Shape]:
        return {"weight": (*in_shape, 1), "bias": in_shape}

    def flops(self, in_shape: Shape) -> int:
        return in_shape[0]


def test_nets_with_other_products_are_refused_in_a_line() -> None:
    net = Net("other", (8,), (Scaled(), ReLU(), Linear(out_features=2)), CrossEntropyLoss())
    said = "it multiplies for Linear and Conv2d, and layer 0 is Scaled: gemm and graph take this net"
    assert PLAIN.unsupported(net, TrainConfig()) == said == find("tensor").unsupported(net, TrainConfig())
    pooled = Net("pooled", (1, 8, 8), (MaxPool2d(2), nets.Flatten(), Linear(out_features=2)), CrossEntropyLoss())
    multiplying = {segment.__name__ for nodes, segment in TABLE.segments.items() if {Conv2d, Linear} & {*nodes}}
    assert multiplying == {"TensorLinear", "TensorConv2d", "TensorConv2dLoss", "SmallHead"}, (
        "nothing falls back in silence"
    )
    assert tuple(of_convolutions.FORMATS) == tuple(of_linear_layers.FORMATS) == PRECISIONS
    for precision in PRECISIONS:
        rung = PLAIN.but(precision=precision)
        assert {rung.unsupported(taken, TrainConfig()) for taken in (*FIVE, pooled)} == {None}, precision


@pytest.mark.parametrize(("capability", "takes"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_a_gpu_without_the_instructions_is_refused_in_a_line(
    capability: tuple[int, int], takes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, "why_not", lambda name: None)
    monkeypatch.setattr(where, "peaks", lambda name: Peaks(capability, 40, 1.5e9))
    reason = find("tensor").unsupported(MLP, TrainConfig())
    said = "its tensor core instructions need a GPU of compute capability 8.0 or later, and this one has 7.5"
    assert reason == (None if takes else said)


def test_its_precisions_and_the_peak_that_its_floor_is_taken_at() -> None:
    named = find("tensor:precision=bfloat16")
    assert (named.name, named.precision, named.unit) == ("tensor:precision=bf16", "bf16", TENSOR)
    assert (find("tensor").precision, find("tensor:precision=fp32").precision, find("tensor").unit) == (
        "fp32",
        "fp32",
        TENSOR,
    )
    with pytest.raises(RungError, match="precision wants 'fp32' or 'tf32' or 'bf16' or 'fp16', got 'fp64'"):
        find("tensor:precision=fp64")
    peaks = Peaks((9, 0), 132, 1.98e9)
    device = Clockwork(lambda launch: 1e-5, hardware=None)
    device.limits = replace(device.limits, peaks=peaks)
    drawn = case(MLP, TrainConfig(), seed=1, samples=8)
    for precision, flops in (("fp32", 4096 / 3), ("tf32", 2048), ("bf16", 4096), ("fp16", 4096)):
        with GraphedTrainer(MLP, drawn.config, drawn.state, device, TABLE, precision=precision) as trainer:
            assert trainer.peak() == pytest.approx(132 * 1.98e9 * flops)
