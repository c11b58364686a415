"""Adagrad as a loop."""

import numpy as np


def step(w, g, total, unused, numbers):
    rate, eps = numbers[0], numbers[1]
    for i in range(len(w)):
        total[i] += g[i] * g[i]
        w[i] -= rate * g[i] / (np.sqrt(total[i]) + eps)
