"""Update: gradients are clipped, then an optimizer from optimizers/ changes the parameters. It imports optimizers and
ops/engine. Begin with reference.py, then cuda.py.
"""
