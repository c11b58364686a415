"""Balanced accuracy and the area under the ROC curve, against scikit-learn's on cases of few classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from warpladder.results.classes import balanced_accuracy, roc_auc


@pytest.mark.filterwarnings("ignore:y_pred contains classes")
def test_balanced_accuracy() -> None:
    labels, taken = np.array([0, 0, 0, 1, 3]), np.array([0, 0, 2, 1, 1])
    assert balanced_accuracy(labels, taken) == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert balanced_accuracy(labels[:4], taken[:4]) == pytest.approx(balanced_accuracy_score(labels[:4], taken[:4]))


def test_the_area_under_the_curve() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(40, 3)).astype(np.float32), rng.integers(0, 3, 40)
    wide = np.exp(logits.astype(float))
    wanted = roc_auc_score(labels, wide / wide.sum(axis=1, keepdims=True), multi_class="ovr")
    assert roc_auc(labels, logits) == pytest.approx(wanted)
    two = np.array([0, 0, 1, 1])
    assert roc_auc(two, np.array([[2.0, 0], [0, 1], [0, 2], [1, 4]])) == 1.0
    assert roc_auc(two, np.array([[2.0, 0], [0, 3], [0, 2], [1, 4]])) == 2.5 / 4


def test_where_there_is_no_area() -> None:
    assert roc_auc(np.array([0, 0]), np.zeros((2, 2))) is None
    assert roc_auc(np.array([0, 1]), np.array([[0, np.nan], [0, 1]])) is None
    assert roc_auc(np.array([0, 0]), np.zeros((2, 1))) is None
