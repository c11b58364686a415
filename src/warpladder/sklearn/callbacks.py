"""`Callbacks`: calls of scikit-learn's callbacks (1.9 and later) during a fit, one task for each epoch."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Base class without callbacks."""


class StoppedByCallback(Exception):
    """End of a fit with the last epoch, requested by a callback."""


class Callbacks:
    """Callbacks of a fit in progress.

    Parameters
    ----------
    model : CallbackSupportMixin
        Estimator, whose `set_callbacks` has set them.
    task : str
        Name of the fit's task.
    epochs : int
        Largest number of epochs; 0 if the solver has none.
    data : dict
        X, y and metadata, as the user gave them.
    """

    def __init__(self, model: Any, task: str, epochs: int, data: dict[str, Any]) -> None:
        self.model, self.data = model, {"estimator": model, **data}
        self.has_epochs = epochs > 0 and hasattr(model, "_skl_callbacks")
        self.fit: Any = None
        self.epoch: Any = None
        if hasattr(model, "_init_callback_context"):
            self.fit = model._init_callback_context(task_name=task, max_subtasks=epochs)
            self.fit.call_on_fit_task_begin(**self.data)

    def begin_epoch(self) -> None:
        """Call the callbacks before an epoch, if it has not begun."""
        if self.has_epochs and self.epoch is None:
            self.epoch = self.fit.subcontext(task_name="epoch")
            self.epoch.call_on_fit_task_begin(**self.data, reconstruction_attributes=self._fitted)

    def end_epoch(self) -> None:
        """Call the callbacks after an epoch. Raises `StoppedByCallback` if one of them returned True."""
        if self.epoch is not None:
            epoch, self.epoch = self.epoch, None
            if epoch.call_on_fit_task_end(**self.data, reconstruction_attributes=self._fitted):
                raise StoppedByCallback

    def end(self) -> None:
        """Call the callbacks after the fit."""
        if self.fit is not None:
            self.fit.call_on_fit_task_end(**self.data, reconstruction_attributes=self._fitted)

    def _fitted(self) -> dict[str, Any]:
        """Attributes of an estimator that predicts with the present weights, whatever the fit does later."""
        lists = {name: value for name, value in vars(self.model).items() if isinstance(value, list)}
        fitted = {name: deepcopy(value) for name, value in lists.items() if name.endswith("_")}
        return {**fitted, "_callbacks": None, "_given": None}
