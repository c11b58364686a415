"""`Model`: a net with weights, which predicts; `load`: a model from a file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..checkpoint import Checkpoint, check_free, save
from ..checkpoint.weights import arrays_of, check_order, of_weights, with_counts
from ..data.dataset import Dataset, pixels
from ..data.standard import Standard
from ..errors import ArgumentError, DataError
from ..errors.arguments import called_by_name, wanted, wanted_path
from ..nets import BCEWithLogitsLoss, CrossEntropyLoss, Net
from .hidden import layer_outputs, layer_shape, rows_up_to
from .optimizer import from_torch, to_torch
from .regression import r2_of
from .restore import restore
from .samples import as_labels, as_samples, binary_numbers, fitted, learnt_in, mark_of
from .scoring import binary_accuracy, goals_from_zero_to_one, probabilities, sample_losses, sigmoid, slices

#: Rung that predicts, by the type of the weights: it needs no compiler or GPU, and starts fast.
RUNGS = {"float32": "numpy", "float64": "numpy:precision=fp64"}


@dataclass(frozen=True, repr=False, eq=False)
class Model:
    """Net with weights, from `Model.from_state_dict`; a `Run` is one too.

    Samples are in the units of the training data: pixels from 0 to 255 if the net was trained on bytes, features in
    their own units if they were standardised; the checkpoint has their scale. The numpy rung computes predictions, in
    float64 if the run trained in fp64, else in float32; `warpladder predict --rung` selects another.

    Parameters
    ----------
    checkpoint : Checkpoint
        State of the model; its other attributes are views of it.
    """

    checkpoint: Checkpoint

    def __post_init__(self) -> None:
        form = "a checkpoint: wl.load(path) reads one, Model.from_state_dict makes one"
        wanted(type(self).__name__, self.checkpoint, Checkpoint, form)

    def __repr__(self) -> str:
        return f"Model of {self.net!r}"

    def _repr_html_(self) -> str:
        return self.net._repr_html_()

    @property
    def net(self) -> Net:
        """Net of the model: its layers, shapes and loss."""
        return self.checkpoint.net

    @property
    def params(self) -> dict[str, np.ndarray]:
        """Weights by their names in PyTorch's `state_dict`: float32, or float64 for a run in fp64."""
        return dict(self.checkpoint.params)

    @property
    def is_binary(self) -> bool:
        """True if the net has BCEWithLogitsLoss: each output is the logit of a separate target."""
        return isinstance(self.net.loss, BCEWithLogitsLoss)

    @cached_property
    def classes_(self) -> np.ndarray:
        """Labels (outputs,) that `predict` returns for each output: the distinct labels of the training data, or
        numbers from 0; with BCEWithLogitsLoss both labels of the data, if they are not 0 and 1; else empty.

        Outputs beyond the names in the training data have their numbers.
        """
        if not isinstance(self.net.loss, CrossEntropyLoss):
            return np.array(self.checkpoint.data.class_names) if self.is_binary else np.arange(0)
        names, outputs = self.checkpoint.data.class_names, self.net.out_shape[0]
        if names and isinstance(names[0], str):
            return np.array([*names, *map(str, range(len(names), outputs))])
        return np.array([*names, *range(len(names), outputs)])

    @called_by_name
    def outputs(self, x: Any) -> np.ndarray:
        """Outputs of the net's last layer for samples.

        Parameters
        ----------
        x : array_like
            Samples (samples, *in_shape) or (samples, features) with the same number of values; images of one channel
            also (samples, height, width). uint8, float32, float64 or other numbers: NumPy arrays, tensors, data frames,
            lists. After training on a table: data frames, files of tables, and arrays of the data set itself.

        Returns
        -------
        ndarray
            (samples, *out_shape) of the weights' type: logits, or with MSELoss images in the units that the net sees, x
            * scale.

        Raises
        ------
        DataError
            Samples have another shape, contain NaN or infinity, or are in other units than the training data.
        """
        seen, scale = self.seen(as_samples(x, self.net, self.checkpoint.data))
        out = np.empty((len(seen), *self.net.out_shape), self.checkpoint.element)
        with restore(self.checkpoint, RUNGS[self.checkpoint.element]) as trainer:
            for first, last in slices(self.net, len(seen)):
                out[first:last] = trainer.predict(seen[first:last], scale)
        return out

    @called_by_name
    def encode(self, x: Any) -> np.ndarray:
        """Samples as the first layer gets them, (samples, *in_shape) float32: a table's rows encoded, pixels scaled.

        Parameters
        ----------
        x : array_like
            Samples as for `outputs`.
        """
        return np.asarray(pixels(*self.seen(as_samples(x, self.net, self.checkpoint.data))), np.float32)

    @called_by_name
    def features(self, x: Any, layer: int) -> np.ndarray:
        """Outputs of a layer of the net: features for another classifier.

        Parameters
        ----------
        x : array_like
            Samples as for `outputs`.
        layer : int
            Index of the layer, from 0, in the table of the net: 5 for the encoder of `nets.autoencoder`.

        Returns
        -------
        ndarray
            (samples, values) float32, or float64 for a run in fp64: the layer's outputs, flattened in the order
            (channels, height, width).

        Raises
        ------
        ConfigError
            There is no such layer.
        DataError
            Samples do not fit, or outputs of the layer are not finite.
        """
        width = math.prod(layer_shape(self.net, layer))
        seen, scale = self.seen(as_samples(x, self.net, self.checkpoint.data))
        out, rows = np.empty((len(seen), width), self.checkpoint.element), rows_up_to(self.net, layer)
        with layer_outputs(self.checkpoint, layer, RUNGS[self.checkpoint.element]) as outputs:
            for first in range(0, len(seen), rows):
                out[first : first + rows] = outputs(seen[first : first + rows], scale)
        return out

    @called_by_name
    def predict(self, x: Any) -> np.ndarray:
        """Label of each sample, or with a loss by element its predicted targets or image; x as for `outputs`.

        Returns
        -------
        ndarray
            (samples,) entries of `classes_` with the largest logit; with BCEWithLogitsLoss and `classes_` (samples,)
            the second entry for a logit above 0, without them (samples, outputs) int64, 1 for such a logit; else the
            `outputs`, targets in their units.
        """
        out = self.outputs(x)
        if self.is_binary:
            return self.classes_[(out[:, 0] > 0).astype(np.int64)] if len(self.classes_) else (out > 0).astype(np.int64)
        if not isinstance(self.net.loss, CrossEntropyLoss):
            return self.checkpoint.data.in_units(out)
        return self.classes_[out.argmax(axis=1)]

    @called_by_name
    def predict_proba(self, x: Any) -> np.ndarray:
        """Probabilities: the softmax of the logits, or with BCEWithLogitsLoss their sigmoid.

        Returns
        -------
        ndarray
            (samples, outputs) float64: a column for each entry of `classes_`, in that order; rows sum to 1. With
            BCEWithLogitsLoss the probability of 1, or of the second of `classes_`, for each output.

        Raises
        ------
        ArgumentError
            The net has another loss by element, and so no probabilities.
        """
        if self.is_binary:
            return sigmoid(self.outputs(x))
        if not isinstance(self.net.loss, CrossEntropyLoss):
            raise ArgumentError(f"net {self.net.name!r} has no classes, so predictions have no probabilities")
        return probabilities(self.outputs(x))

    @called_by_name
    def score(self, x: Any, y: Any = None) -> float:
        """Accuracy or loss on samples.

        Parameters
        ----------
        x : array_like
            At least one sample, as for `outputs`.
        y : array_like or None
            Labels (samples,) of `classes_`, or targets (samples, outputs) in their units, or an array of the data set;
            None without, or if they stand in the table x.

        Returns
        -------
        float
            Accuracy, a share from 0 to 1; for targets R2, with BCEWithLogitsLoss the accuracy over all of them; without
            labels and targets the loss, where less is better.

        Raises
        ------
        DataError
            There are no samples, or labels do not fit them or the net.
        """
        out = self.outputs(x)
        if not len(out):
            raise DataError(f"net {self.net.name!r}: there are no samples to score")
        y = learnt_in(x, self.checkpoint.data) if y is None else y
        if self.checkpoint.data.has_targets:
            if self.is_binary:
                if len(self.classes_):
                    y = binary_numbers(y, self.checkpoint.data)
                return binary_accuracy(out, goals_from_zero_to_one(y, out, self.net.name))
            return r2_of(self.checkpoint.data.in_units(out), y, self.net.name)
        if not isinstance(self.net.loss, CrossEntropyLoss):
            if y is not None:
                raise ArgumentError(f"net {self.net.name!r} compares its output with its input: give score(x) alone")
            seen, scale = self.seen(as_samples(x, self.net, self.checkpoint.data))
            return float(sample_losses(self.net, out, pixels(seen, scale)).mean())
        return float(
            (out.argmax(axis=1) == as_labels(y, len(out), self.net, self.checkpoint.data, self.classes_)).mean()
        )

    def state_dict(self) -> dict[str, np.ndarray]:
        """Weights for a PyTorch net: copies with the names of the equal `torch.nn.Sequential`, in its order.

        A normalisation's `num_batches_tracked` is the number of updates that made these weights.

        Examples
        --------
        >>> module.load_state_dict({name: torch.from_numpy(array) for name, array in model.state_dict().items()})
        """
        return with_counts(self.checkpoint)

    @called_by_name
    def optimizer_state_dict(self) -> dict[str, Any]:
        """Optimizer in the format of PyTorch's `state_dict`: settings, and slots of each parameter by its number.

        For `torch.optim.SGD` it has the `momentum_buffer` of each parameter; for `Adam` and `AdamW` `exp_avg`,
        `exp_avg_sq` and `step`, the number of updates. Arrays are copies in NumPy: PyTorch needs tensors,
        `torch.from_numpy(array)`. The learning rate is without the schedule, for which PyTorch has
        `torch.optim.lr_scheduler`.

        Raises
        ------
        ConfigError
            Gradients were clipped, which PyTorch's optimizers do not do; or PyTorch has no such optimizer.
        """
        return to_torch(self.checkpoint)

    @classmethod
    @called_by_name
    def from_state_dict(
        cls,
        net: Net,
        weights: Mapping[str, Any],
        optimizer: Mapping[str, Any] | None = None,
        *,
        scale: float = 1.0,
        classes: Any = (),
    ) -> Model:
        """Model of a net with the weights of a PyTorch net.

        Parameters
        ----------
        net : Net
        weights : mapping
            `module.state_dict()`: tensors or arrays with the names of the equal `torch.nn.Sequential`, as "0.weight". A
            common prefix of all names is removed. Other names, as fc1, are matched if shapes fit only once.
        optimizer : mapping, optional
            `state_dict()` of a `torch.optim.SGD`, `Adam` or `AdamW`: its settings, the slots of each
            parameter, and the number of updates.
        scale : float
            Factor of samples before the net: 1/255 for a net that was trained on pixels from 0 to 1.
        classes : sequence of str
            Names of the net's outputs, in sorted order; empty for numbers.

        Returns
        -------
        Model
            Model that predicts; `save` writes it as a checkpoint for `warpladder predict` and `evaluate`. To train on,
            pass its `state_dict()` to `train(weights=...)`.

        Raises
        ------
        CheckpointError
            Names, shapes or numbers do not fit the net.
        ConfigError
            The optimizer has a setting that ours lacks, for example dampening or amsgrad.
        """
        if not isinstance(net, Net) or not isinstance(weights, Mapping):
            raise ArgumentError(
                f"from_state_dict wants a Net and a state_dict, got {type(net).__name__} and {type(weights).__name__}"
            )
        mark = mark_of(net, scale, classes)
        if optimizer is not None:
            check_order(net, weights)
        made = of_weights(net, arrays_of(weights), mark)
        return Model(made if optimizer is None else from_torch(made, optimizer))

    @called_by_name
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a checkpoint, a safetensors file: for `load`, for PyTorch, and, if it is a run, for
        `train(resume=path)`.

        Parameters
        ----------
        path : path
        overwrite : bool
            True replaces an existing file.

        Raises
        ------
        CheckpointError
            The file exists, or cannot be written.
        """
        wanted_path(path, "a file to write")
        if not overwrite:
            check_free(path)
        save(path, self.checkpoint)

    def fit_to(self, data: Dataset) -> Dataset:
        """Data set as this net sees it: standardised like its training data, with labels numbered like its classes.

        Raises DataError: a label is none of the net's classes.
        """
        return fitted(data, self.net, self.checkpoint.data)

    def seen(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Arguments of a trainer's `predict`: samples (n, *in_shape) standardised as in training, and the scale."""
        mark = self.checkpoint.data
        return (Standard(mark.mean, mark.std).apply(x), 1.0) if mark.mean else (x, mark.scale)
