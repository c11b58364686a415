"""Adagrad as array expressions."""


def step(xp, w, g, slots, term, numbers):
    rate, eps = numbers[:2]
    (total,) = slots
    total += xp.multiply(g, g, out=term)
    xp.sqrt(total, out=term)
    term += eps
    g *= rate
    w -= xp.divide(g, term, out=term)
