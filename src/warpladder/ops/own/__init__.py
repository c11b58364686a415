"""Kernels of a user's file in place of the package's: `linear.forward=mine.cu`.

This folder may import what ops may import. Begin with `roles.py`: the names of operations and of their kernels'
parameters. `kernel_file.py` reads a .cu file and binds its kernels, `segment.py` replaces a layer's launches by them,
`update.py` the optimizer's step, `python_file.py` takes Python in place of CUDA.
"""
