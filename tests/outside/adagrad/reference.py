"""Adagrad in float64."""

import numpy as np


def step(w, g, slots, optimizer, rate, number):
    total = slots["sum"] + g**2
    return w - rate * g / (np.sqrt(total) + optimizer.eps), {"sum": total}
