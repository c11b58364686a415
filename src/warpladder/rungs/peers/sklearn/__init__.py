"""Scikit-learn peer: MLPClassifier, for the nets that it can express.

It imports scikit-learn only when a trainer is built. Begin with trainer.py.
"""

from __future__ import annotations

from ....config import TrainConfig
from ....nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU
from ....trainers.base import State, Trainer
from ...base import Rung
from ...options import ThreadOptions, too_few_cores


def build(net: Net, config: TrainConfig, state: State, options: ThreadOptions = ThreadOptions()) -> Trainer:
    from .trainer import SklearnTrainer

    return SklearnTrainer(net, config, state, options.threads)


def unsupported(net: Net, config: TrainConfig, options: ThreadOptions = ThreadOptions()) -> str | None:
    """Reason why MLPClassifier (Linear, ReLU, softmax; unclipped SGD or Adam) cannot train; None if it can."""
    chain = [type(layer) for layer in net.layers if not isinstance(layer, Flatten)]
    hidden = [Linear, ReLU] * (len(chain) // 2)
    if chain != [*hidden, Linear] or net.loss != CrossEntropyLoss():
        return (
            f"MLPClassifier cannot express net {net.name!r}: it has Linear layers with ReLU between them, "
            "and cross-entropy without settings"
        )
    if not all(layer.bias for layer in net.layers if isinstance(layer, Linear)):
        return f"MLPClassifier cannot express net {net.name!r}: all its layers have a bias"
    if net.out_shape[0] < 3:
        return "MLPClassifier trains two classes with one output, and has no softmax for fewer than three"
    optimizer = type(config.optimizer).__name__
    if optimizer not in ("SGD", "Adam"):
        return f"MLPClassifier has SGD and Adam, and no {optimizer}"
    if config.optimizer.weight_decay:  # type: ignore[attr-defined]
        return "MLPClassifier's weight decay is another: it is divided by the batch size and leaves biases out"
    if config.clip_value is not None or config.clip_norm is not None:
        return "MLPClassifier cannot clip gradients"
    if config.loss_every > 1:
        return "MLPClassifier computes the loss in every step: leave loss_every out"
    if not config.learning_rate:
        return "MLPClassifier wants a learning rate above 0"
    if optimizer == "SGD" and config.optimizer.slots and not config.schedule.steady:
        return (
            "MLPClassifier keeps momentum times the learning rate, which a schedule would change under it: "
            "leave one of them out"
        )
    return too_few_cores(net, config, options)


PEER = Rung(
    name="sklearn",
    title="scikit-learn's MLPClassifier",
    idea="MLPClassifier.partial_fit in float32 on rows gathered in our order: NumPy on BLAS, one batch after another.",
    build=build,
    peer=True,
    unsupported=unsupported,
    options=ThreadOptions(),
    weighs_samples=False,
    deviations=(
        "SGD's momentum is kept times the learning rate, "
        "so that a state of another trainer is taken over with a rounding",
        "a label's probability below 1.2e-7 is computed again for the loss, since scikit-learn takes it for 1.2e-7",
    ),
)
