"""The update: gradients are clipped, then an optimizer changes the parameters. What runs the steps of optimizers/,
whichever it is. It imports optimizers and ops/engine. Begin with reference.py, then cuda.py.
"""
