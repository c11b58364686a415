"""Every pair of classes fitted by libsvm, several at a time.

Threads and not processes: libsvm's loop runs without Python's lock, so that they compute side by side, and all of them
read the one matrix without a copy and without a folder of shared memory, which containers keep small.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from time import monotonic

import numpy as np

from .fitted import Fitted, pairs_of
from .gram import Gram
from .kernel import Report

#: MB of kernel rows that libsvm keeps at least; it is given room for all rows of a pair.
LEAST_CACHE = 200

#: Seconds after Ctrl-C in which a thread comes to an end that is not inside libsvm, which nobody waits for.
GRACE = 0.2


def pair_bytes(samples: int) -> int:
    """Bytes that fitting a pair with so many samples takes: its matrix in float64, and libsvm's own copy in float32."""
    return 12 * samples**2 + (LEAST_CACHE << 20)


def fit_pairs(gram: Gram, C: float, workers: int, report: Report) -> Fitted:
    """Fit all pairs, the largest first.

    Parameters
    ----------
    gram : Gram
    C : float
    workers : int
        Pairs at a time.
    report : callable
        Called after each pair with how many are done, and how many there are.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C: pairs that are begun end on their own, and nobody waits for them.
    """
    pairs = pairs_of(gram.classes)
    waiting = sorted(range(len(pairs)), key=lambda number: -sum(gram.count(each) for each in pairs[number]))
    coefficients = [np.zeros((gram.count(i), gram.classes - 1)) for i in range(gram.classes)]
    intercepts = np.zeros(len(pairs))
    most = max(gram.count(i) + gram.count(j) for i, j in pairs)
    todo: SimpleQueue[int] = SimpleQueue()
    for number in waiting:
        todo.put(number)
    done: SimpleQueue[BaseException | None] = SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        try:
            room = np.empty(most**2)
            while not stop.is_set():
                number = todo.get_nowait()
                i, j = pairs[number]
                own, other, intercepts[number] = _fit(gram, i, j, C, room)
                coefficients[i][:, j - 1] = own
                coefficients[j][:, i] = other
                done.put(None)
        except Empty:
            pass
        except BaseException as error:
            done.put(error)

    # Daemons: a thread inside libsvm hears of no Ctrl-C, and the program should not wait for it.
    threads = [
        threading.Thread(target=work, daemon=True, name=f"pair-{number}") for number in range(min(workers, len(pairs)))
    ]
    for thread in threads:
        thread.start()
    try:
        for count in range(1, len(pairs) + 1):
            error = done.get()
            if error is not None:
                raise error
            report(count, len(pairs))
    except BaseException:
        stop.set()
        # Were Python to end while a thread is in NumPy's C++ code, the process would abort (warpladder.__main__).
        until = monotonic() + GRACE
        for thread in threads:
            thread.join(max(0.0, until - monotonic()))
        raise
    for thread in threads:
        thread.join()
    return Fitted(gram.ranges, coefficients, intercepts)


def _fit(gram: Gram, i: int, j: int, C: float, room: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Coefficients of class i's samples, of class j's, and the intercept, with libsvm's sign: decisions above 0 are
    class i's.

    SVC turns the sign of a machine of two classes round, since scikit-learn's decisions above 0 are those of the second
    class.
    """
    from sklearn.svm import SVC

    first, second = gram.count(i), gram.count(j)
    matrix = gram.pair(i, j, room)
    cache = max(LEAST_CACHE, 4 * (first + second) ** 2 / 2**20 + 1)
    machine = SVC(C=C, kernel="precomputed", cache_size=cache)
    machine.fit(matrix, np.repeat([0, 1], [first, second]))
    coefficients = np.zeros(first + second)
    coefficients[machine.support_] = -machine.dual_coef_[0]
    return coefficients[:first], coefficients[first:], -float(machine.intercept_[0])
