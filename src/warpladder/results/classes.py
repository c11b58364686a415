"""Scores of each class, and the confusion matrix, as frozen data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ResultsError


@dataclass(frozen=True)
class ClassScores:
    """Scores of each class, and the confusion matrix; entry c of each field belongs to class c.

    names : names of the classes.
    precision : share of the class's samples among those predicted as the class.
    recall : share of the class's samples that are predicted as the class.
    f1 : harmonic mean of both. All are from 0 to 1; 0 for a share of no samples.
    support : number of samples of the class.
    confusion : (classes, classes) counts; row: class of the samples; column: predicted class.
    """

    names: tuple[str, ...]
    precision: tuple[float, ...]
    recall: tuple[float, ...]
    f1: tuple[float, ...]
    support: tuple[int, ...]
    confusion: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        classes = len(self.names)
        if not classes or any(
            len(each) != classes
            for each in (self.precision, self.recall, self.f1, self.support, self.confusion, *self.confusion)
        ):
            raise ResultsError(
                "class scores want a name, three scores, a count, and a row and a column of the confusion "
                "matrix for each class"
            )
        if not all(0 <= share <= 1 for each in (self.precision, self.recall, self.f1) for share in each):
            raise ResultsError("class scores want shares from 0 to 1")
        if min(map(min, self.confusion)) < 0 or tuple(map(sum, self.confusion)) != self.support:
            raise ResultsError("a confusion matrix wants counts from 0, and rows that add up to each class's samples")

    @property
    def accuracy(self) -> float:
        """Share of all samples with the right prediction, 0 to 1."""
        return sum(row[c] for c, row in enumerate(self.confusion)) / sum(self.support)


def class_scores(labels: Any, predicted: Any, names: Sequence[str] = (), classes: int = 0) -> ClassScores:
    """Precision, recall, F1 and the confusion matrix of predictions, by scikit-learn.

    Parameters
    ----------
    labels, predicted : ndarray
        Class numbers (samples,), at least one sample.
    names : sequence of str
        Names of classes 0, 1, ...; by default their numbers.
    classes : int
        Smallest number of classes.
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    count = max(len(names), classes, int(labels.max()) + 1, int(predicted.max()) + 1)
    every = list(range(count))
    precision, recall, f1, support = precision_recall_fscore_support(labels, predicted, labels=every, zero_division=0)
    confusion = confusion_matrix(labels, predicted, labels=every)
    called = tuple(str(names[c]) if c < len(names) else str(c) for c in every)
    return ClassScores(
        called,
        tuple(precision.tolist()),
        tuple(recall.tolist()),
        tuple(f1.tolist()),
        tuple(support.tolist()),
        tuple(map(tuple, confusion.tolist())),
    )


def balanced_accuracy(labels: Any, predicted: Any) -> float:
    """Mean recall over the classes in labels (samples,), by scikit-learn: the share of each class that is predicted
    right.

    predicted : (samples,) class numbers.
    """
    from sklearn.metrics import recall_score

    there = sorted(set(labels.tolist()))
    return float(recall_score(labels, predicted, labels=there, average="macro", zero_division=0))


def roc_auc(labels: Any, logits: Any) -> float | None:
    """Area under the ROC curve, by scikit-learn; for several classes the mean over each against the rest.

    labels : (samples,) class numbers. logits : (samples, classes).
    None if a class has no label, or a logit is not finite.
    """
    import numpy as np
    from sklearn.metrics import roc_auc_score

    classes = logits.shape[1]
    if classes < 2 or len(set(labels.tolist())) < classes or not np.isfinite(logits).all():
        return None
    if classes == 2:
        return float(roc_auc_score(labels, logits[:, 1].astype(np.float64) - logits[:, 0]))
    wide = logits.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return float(roc_auc_score(labels, powers / powers.sum(axis=1, keepdims=True), multi_class="ovr"))
