"""The update: gradients are clipped, then an optimizer changes the parameters. What runs the steps of optimizers/,
whichever it is.
"""
