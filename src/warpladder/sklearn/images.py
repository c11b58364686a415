"""`CNNClassifier`: a convolutional classifier of images with scikit-learn's interface, trained on a rung."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import issparse  # type: ignore[import-untyped]
from scipy.special import softmax  # type: ignore[import-untyped]
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..errors import NetError
from .classifier import MLPClassifier
from .perceptron import AUTO

if TYPE_CHECKING:
    from ..nets import Layer, Net, Residual

#: Parameters of `MLPClassifier` that this estimator lacks: its layers take their place.
_LACKING = ("hidden_layer_sizes", "activation", "max_fun", "dropout", "batch_norm")


class CNNClassifier(MLPClassifier):
    """Convolutional classifier of images, with the parameters, attributes and methods of `MLPClassifier`.

    X is (samples, height, width) or (samples, height, width, channels), or with `channels="first"` (samples, channels,
    height, width); or with `image_shape` rows of pixels (samples, features), as scalers and pipelines give them.

    Parameters
    ----------
    layers : sequence of layers or None
        Layers of warpladder before the last two, which are `Flatten` and a `Linear` with an output for each class.
        By default two convolutions of 16 and 32 channels, each with `ReLU` and `MaxPool2d(2)`.
    channels : {"last", "first"}
        Place of the channels in an image.
    image_shape : tuple of int or None
        Shape of an image without the samples, for rows of pixels: (height, width), or with the channels in their place.
    rung : str
        "auto" takes the fastest by estimate, with its start, or the name of a rung. There is no other arithmetic.
    weight_decay, schedule
        As for `MLPClassifier`.
    initial : {"he", "glorot", "pytorch"} or None
        Rule of the initial weights; None is "he".

    Attributes
    ----------
    net_ : Net
        Trained net.
    coefs_, intercepts_ : list of ndarray
        Weights of the layers in their order, shaped as in PyTorch; their biases, then running means and variances.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: kinds for name, kinds in MLPClassifier._parameter_constraints.items() if name not in _LACKING},
        "solver": [StrOptions({"adam", "sgd"})],
        "layers": ["array-like", None],
        "channels": [StrOptions({"last", "first"})],
        "image_shape": ["array-like", None],
    }
    hidden_layer_sizes = ()
    activation = "relu"
    max_fun = 15000

    def __init__(
        self,
        layers: Sequence[Layer | Residual] | None = None,
        *,
        channels: str = "last",
        image_shape: Sequence[int] | None = None,
        solver: str = "adam",
        alpha: float = 0.0001,
        batch_size: Any = "auto",
        learning_rate: str = "constant",
        learning_rate_init: float = 0.001,
        power_t: float = 0.5,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool = False,
        warm_start: bool = False,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        n_iter_no_change: int = 10,
        rung: str = AUTO,
        class_weight: Any = None,
        weight_decay: float = 0.0,
        schedule: Any = None,
        initial: str | None = None,
    ) -> None:
        self.layers, self.channels, self.image_shape = layers, channels, image_shape
        self.solver, self.alpha, self.batch_size = solver, alpha, batch_size
        self.learning_rate, self.learning_rate_init, self.power_t = learning_rate, learning_rate_init, power_t
        self.max_iter, self.shuffle, self.random_state, self.tol = max_iter, shuffle, random_state, tol
        self.verbose, self.warm_start = verbose, warm_start
        self.momentum, self.nesterovs_momentum = momentum, nesterovs_momentum
        self.early_stopping, self.validation_fraction = early_stopping, validation_fraction
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.n_iter_no_change, self.rung, self.class_weight = n_iter_no_change, rung, class_weight
        self.weight_decay, self.schedule, self.initial = weight_decay, schedule, initial

    def predict(self, X: Any) -> Any:
        """Class of each image, (samples,)."""
        check_is_fitted(self)
        return super().predict(self._rows(X))

    def predict_proba(self, X: Any) -> Any:
        """Probability of each class for each image, (samples, classes)."""
        check_is_fitted(self)
        return super().predict_proba(self._rows(X))

    def _rows(self, X: Any, begins: bool = False) -> Any:
        """Rows of pixels (samples, features), channels first. begins : True to take the images' shape for the fit.

        Raises `ValueError` if these are no images, or of another shape than those of the fit.
        """
        if issparse(X):
            raise TypeError("Sparse data was passed for X, but dense data is required: images are dense arrays")
        x = X if hasattr(X, "ndim") else np.asarray(X)
        ndim, given = x.ndim, self._shape_given(x)
        if given is None or ndim not in (2, 3, 4):
            raise ValueError(
                f"CNNClassifier takes images (samples, height, width[, channels]), got an array of {ndim} dimensions; "
                "for rows of pixels give image_shape, as image_shape=(28, 28). Reshape your data"
            )
        shape = (1, *given) if len(given) == 2 else given if self.channels == "first" else (given[2], *given[:2])
        if begins:
            self._image_shape = shape
        elif hasattr(self, "_image_shape") and shape != self._image_shape:
            raise ValueError(f"images have shape {shape}, those of fit {self._image_shape}: channels, height, width")
        if ndim == 2 and x.shape[1] != math.prod(given):
            if begins or not hasattr(self, "n_features_in_"):
                raise ValueError(f"image_shape={given} has {math.prod(given)} pixels, X has {x.shape[1]} features")
            return x  # scikit-learn's message has the number of features
        if len(given) < 3 or self.channels == "first":
            return x if ndim == 2 else x.reshape(len(x), math.prod(given))
        images = np.asarray(x).reshape(-1, *given)
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), math.prod(given))

    def _shape_given(self, x: Any) -> tuple[int, ...] | None:
        """Shape of an image as it came, of two or three sizes: that of x, or for rows `image_shape`, or None."""
        if x.ndim in (3, 4):
            return tuple(x.shape[1:])
        if self.image_shape is None:
            return None
        sizes = tuple(int(size) for size in self.image_shape)
        if len(sizes) not in (2, 3) or min(sizes) < 1:
            raise ValueError(f"image_shape={self.image_shape!r}: wants (height, width), or three sizes with channels")
        return sizes

    def _initialize(self, y: np.ndarray, layer_units: list[int], dtype: Any) -> None:
        from ..nets.params import initial, initial_buffers

        super()._initialize(y, layer_units, dtype)
        if self._has_several_labels:
            raise ValueError("CNNClassifier takes one label for each image, not several")
        net = self.net_ = self._net(layer_units)
        seed = int(self._random_state.randint(2**31 - 1))
        self.coefs_, self.intercepts_ = self._arrays(net, initial(net, seed, self.initial), initial_buffers(net))
        self._best_coefs, self._best_intercepts = ([a.copy() for a in each] for each in (self.coefs_, self.intercepts_))

    def _check_weights(self, layer_units: list[int]) -> None:
        if self._net(layer_units) != self.net_:
            raise ValueError(
                "the fit before has another net: keep layers as they were, or fit anew, without warm_start"
            )

    def _net(self, units: list[int]) -> Net:
        from ..nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, Net, ReLU

        first, second = (Conv2d(out_channels=width, kernel_size=3, padding=1) for width in (16, 32))
        usual = (first, ReLU(), MaxPool2d(2), second, ReLU(), MaxPool2d(2))
        chain = usual if self.layers is None else tuple(self.layers)
        last = Flatten(), Linear(out_features=max(2, units[-1]))
        try:
            return Net("cnn", self._image_shape, (*chain, *last), CrossEntropyLoss())
        except NetError as error:
            channels, height, width = self._image_shape
            raise NetError(
                f"{error}; images are {height} x {width} with {channels} channels, by channels={self.channels!r}"
            ) from None

    def _arrays(
        self, net: Net, params: np.ndarray, buffers: np.ndarray | None
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        from ..nets.params import views

        named = {name: view.copy() for name, view in views(net, params).items()}
        weights = [view for name, view in named.items() if name.endswith(".weight")]
        others = [view for name, view in named.items() if not name.endswith(".weight")]
        return weights, [*others, *([] if buffers is None or not buffers.size else [buffers.copy()])]

    def _weights(self, net: Net) -> tuple[np.ndarray, np.ndarray | None]:
        from ..nets.params import joined, param_slices

        places = param_slices(net)
        weights = [place.name for place in places if place.name.endswith(".weight")]
        others = [place.name for place in places if not place.name.endswith(".weight")]
        named = dict(zip(weights, self.coefs_, strict=True)) | dict(zip(others, self.intercepts_, strict=False))
        return joined(places, named), self.intercepts_[-1] if net.normalizes else None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array, tags.input_tags.sparse = True, False
        tags.input_tags.two_d_array = self.image_shape is not None
        tags.classifier_tags.multi_label = False
        return tags

    def _own_loss(self) -> str | None:
        return "a convolutional net"

    def _forward_pass_fast(self, X: Any, check_input: bool = True) -> np.ndarray:
        """Probabilities (samples, classes), or of two classes that of the second, (samples, 1)."""
        from sklearn.utils.validation import validate_data

        from ..config import TrainConfig
        from ..ladder import find
        from ..trainers.base import State

        if check_input:
            X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        net = self.net_
        params, buffers = self._weights(net)
        images = np.ascontiguousarray(X, np.float32).reshape(-1, *net.in_shape)
        state = State(params, buffers=buffers).copied("float64")  # so that a part of the samples gets the same numbers
        with find("numpy:precision=fp64").build(net, TrainConfig(), state) as trainer:
            found: np.ndarray = softmax(trainer.predict(images, 1.0), axis=1)
        return found[:, 1:] if self.n_outputs_ == 1 else found
