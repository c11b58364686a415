"""Fit of every pair of classes by libsvm, several pairs concurrently.

libsvm's loop runs without Python's lock, so threads suffice: all read the one matrix without a copy and without shared
memory files, which containers limit.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from time import monotonic

import numpy as np

from .fitted import Fitted, pairs_of
from .gram import Gram
from .kernel import Report

#: Smallest cache of libsvm for kernel rows, in MB; it holds all rows of a pair.
LEAST_CACHE = 200

#: Seconds after Ctrl-C in which threads outside libsvm end; a thread inside libsvm is not waited for.
GRACE = 0.2


def pair_bytes(samples: int) -> int:
    """Bytes to fit a pair with `samples` samples: its matrix in float64, and libsvm's copy in float32."""
    return 12 * samples**2 + (LEAST_CACHE << 20)


def fit_pairs(gram: Gram, C: float, workers: int, report: Report) -> Fitted:
    """Fit all pairs, the largest first, `workers` concurrently.

    report : called after each pair with the number of finished pairs and of all.
    Raises KeyboardInterrupt: Ctrl-C was pressed. Pairs already begun end by themselves and are not waited for.
    """
    fitting = _Fitting(gram, C)
    # Daemons: a thread inside libsvm does not react to Ctrl-C, and the program should not wait for it.
    threads = [
        threading.Thread(target=fitting.work, daemon=True, name=f"pair-{number}")
        for number in range(min(workers, len(fitting.pairs)))
    ]
    for thread in threads:
        thread.start()
    try:
        for count in range(1, len(fitting.pairs) + 1):
            error = fitting.done.get()
            if error is not None:
                raise error
            report(count, len(fitting.pairs))
    except BaseException:
        fitting.stop.set()
        # If Python ended while a thread runs NumPy's C++ code, the process would abort (warpladder.__main__).
        until = monotonic() + GRACE
        for thread in threads:
            thread.join(max(0.0, until - monotonic()))
        raise
    for thread in threads:
        thread.join()
    return Fitted(gram.ranges, fitting.coefficients, fitting.intercepts)


class _Fitting:
    """Fit in progress: the waiting pairs, the largest first, and the coefficients of the fitted ones."""

    def __init__(self, gram: Gram, C: float) -> None:
        self.gram, self.C, self.pairs = gram, C, pairs_of(gram.classes)
        self.sizes = [gram.count(i) + gram.count(j) for i, j in self.pairs]
        self.coefficients = [np.zeros((gram.count(i), gram.classes - 1)) for i in range(gram.classes)]
        self.intercepts = np.zeros(len(self.pairs))
        self.waiting: SimpleQueue[int] = SimpleQueue()
        for number in sorted(range(len(self.pairs)), key=lambda number: -self.sizes[number]):
            self.waiting.put(number)
        self.done: SimpleQueue[BaseException | None] = SimpleQueue()
        self.stop = threading.Event()

    def work(self) -> None:
        """Fit pairs until none waits, or `stop` is set; put None into `done` for each, or an error."""
        try:
            space = np.empty(max(self.sizes) ** 2)
            while not self.stop.is_set():
                number = self.waiting.get_nowait()
                i, j = self.pairs[number]
                own, other, self.intercepts[number] = _fit(self.gram, i, j, self.C, space)
                self.coefficients[i][:, j - 1] = own
                self.coefficients[j][:, i] = other
                self.done.put(None)
        except Empty:
            pass
        except BaseException as error:
            self.done.put(error)


def _fit(gram: Gram, i: int, j: int, C: float, space: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Coefficients of class i's samples, of class j's, and the intercept; decisions above 0 are for class i.

    The coefficients of scikit-learn's machine of two classes have the opposite sign of libsvm's.
    """
    from sklearn.svm import SVC

    first, second = gram.count(i), gram.count(j)
    matrix = gram.pair(i, j, space)
    cache = max(LEAST_CACHE, 4 * (first + second) ** 2 / 2**20 + 1)
    machine = SVC(C=C, kernel="precomputed", cache_size=cache)
    machine.fit(matrix, np.repeat([0, 1], [first, second]))
    coefficients = np.zeros(first + second)
    coefficients[machine.support_] = -machine.dual_coef_[0]
    return coefficients[:first], coefficients[first:], -float(machine.intercept_[0])
