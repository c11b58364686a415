"""Cost models: cycles that a plan takes for a problem. They rank plans; a tuner times the best of them.

They import ops/engine alone. Begin with plans.py, the interface; tiles.py is the model of a matrix product.
"""
