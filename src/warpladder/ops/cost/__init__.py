"""Cost models that order the ways to cut a product into tiles and a launch into blocks; a tuner times the best of them.

They import nothing but ops/engine. Begin with tiles.py.
"""
