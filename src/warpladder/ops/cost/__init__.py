"""Cost models: cycles that a plan takes for a problem, so that plans can be ranked; a tuner times the best of them.
They import nothing but ops/engine. Begin with plans.py, the interface; tiles.py is the model of a matrix product.
"""
