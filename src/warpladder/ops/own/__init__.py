"""Kernels of a user's file in place of the package's: `linear.forward=mine.cu`.

May import what ops may import. Begin with `roles.py`: the names of operations and of what their kernels take.
`kernel_file.py` reads a .cu file and binds its kernels, `segment.py` puts them in the place of a layer's launches,
`update.py` in that of the optimizer's step, `python_file.py` takes Python in place of CUDA.
"""
